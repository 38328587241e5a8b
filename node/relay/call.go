package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"time"

	"proxima/node/view"
)

// Answers to a call.
const (
	accepted = 1
	refused  = 2
)

const (
	// headStart is how long one relay is tried before the next one is tried as well.
	headStart = 700 * time.Millisecond
	// detours is how many members are asked for a connection to one that this node fails to dial, and detourEvery how often
	// at most: it may be dead, and nobody has noticed.
	detours     = 2
	detourEvery = 5 * time.Second
)

var errRefused = errors.New("the relay does not reach it, or carries too much already")

// Dial connects to a member that cannot be dialled. It returns nil and nil for one that can be.
func (r *Relay) Dial(ctx context.Context, peer string, kind Kind) (net.Conn, error) {
	way, _ := r.deps.Way(peer)
	if peer == r.deps.ID || kind == Calls && way.Reach != view.Outbound || way.Reach == view.Direct && r.way.Load().Reach == view.Direct {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	to, err := parseID(peer)
	if err != nil {
		return nil, err
	}
	if way.Reach != view.Outbound {
		return r.callBy(ctx, peer, to, kind)
	}
	return r.race(ctx, peer, to, kind, way.Relays)
}

// Detour connects to a member that can be dialled, but not by this node: the path between the two is broken. The nearest other members that
// can be dialled are asked. It fails at once if it was called for the same member within detourEvery.
func (r *Relay) Detour(ctx context.Context, peer string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	to, err := parseID(peer)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	r.mu.Lock()
	maps.DeleteFunc(r.detours, func(_ string, at time.Time) bool { return now.Sub(at) >= detourEvery })
	_, lately := r.detours[peer]
	if !lately {
		r.detours[peer] = now
	}
	r.mu.Unlock()
	if _, alive := r.deps.Way(peer); lately || !alive {
		return nil, fmt.Errorf("reach %s: no other way was tried", peer)
	}
	var by []string
	for _, n := range r.deps.Near() {
		if n.ID != peer && !n.outbound() && len(by) < detours {
			by = append(by, n.ID)
		}
	}
	return r.race(ctx, peer, to, Calls, by)
}

// race asks for a connection to a node over this node's own link with it, and through relays, each a little later than the one before. The
// first connection wins.
func (r *Relay) race(ctx context.Context, peer string, to id, kind Kind, relays []string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ways []func() (net.Conn, error)
	if l := r.standing(peer); l != nil && r.way.Load().Reach != view.Outbound {
		ways = append(ways, func() (net.Conn, error) { return r.ask(ctx, l, kind) })
	}
	for _, relay := range r.inTurn(relays) {
		ways = append(ways, func() (net.Conn, error) { return r.callBy(ctx, relay, to, kind) })
	}
	if len(ways) == 0 {
		return nil, fmt.Errorf("reach %s: nobody is known who could", peer)
	}
	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	var errs []error
	next := time.NewTimer(0)
	defer next.Stop()
	for begun := 0; len(errs) < len(ways); {
		select {
		case <-next.C:
			if begun == len(ways) {
				continue
			}
			way := ways[begun]
			begun++
			if !r.begin(func() {
				conn, err := way()
				select {
				case results <- result{conn, err}:
				case <-ctx.Done():
					if conn != nil {
						conn.Close() //nolint:errcheck // another one came first
					}
				}
			}) {
				return nil, net.ErrClosed
			}
			next.Reset(headStart)
		case got := <-results:
			if got.err == nil {
				return got.conn, nil
			}
			errs = append(errs, got.err)
			next.Reset(0)
		case <-ctx.Done():
			return nil, fmt.Errorf("reach %s: %w", peer, errors.Join(append(errs, ctx.Err())...))
		}
	}
	return nil, fmt.Errorf("reach %s: %w", peer, errors.Join(errs...))
}

// callBy asks a member for a connection to a node, which may be that member.
func (r *Relay) callBy(ctx context.Context, by string, to id, kind Kind) (net.Conn, error) {
	conn, err := r.connect(ctx, by, hello{role: roleCall, kind: kind, id: to})
	if err != nil {
		return nil, err
	}
	unhook := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // the reader gets the error
	var answer [1]byte
	_, err = io.ReadFull(conn, answer[:])
	if err == nil && answer[0] != accepted {
		err = errRefused
	}
	if !unhook() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("call by %s: %w", by, err), conn.Close())
	}
	return conn, nil
}

// ask makes the node at the other end of a link connect to this one.
func (r *Relay) ask(ctx context.Context, l *link, kind Kind) (net.Conn, error) {
	t, come := token(), make(chan net.Conn, 1)
	r.mu.Lock()
	if len(r.waiting) >= mostCalls {
		r.mu.Unlock()
		return nil, errRefused
	}
	r.waiting[t] = come
	r.mu.Unlock()
	err := errRefused
	if l.offer(frame{kind: frameCall, id: t, payload: []byte{byte(kind)}}) {
		select {
		case conn := <-come:
			return conn, nil
		case <-l.ctx.Done():
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	r.mu.Lock()
	delete(r.waiting, t)
	r.mu.Unlock()
	select {
	case conn := <-come: // just in time
		return conn, nil
	default:
		return nil, fmt.Errorf("ask %s for a connection: %w", l.peer, err)
	}
}

// answered gives a connection to who waits for it. It returns false if nobody does. It gives it under the lock: nobody would close one that
// comes when ask has just given up.
func (r *Relay) answered(t id, conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := r.waiting[t]
	if to != nil {
		delete(r.waiting, t)
		to <- conn // it has room
	}
	return to != nil
}

// dialBack makes a connection at the request of a member, which waits so long, unless too many are being made. use gets it.
func (r *Relay) dialBack(to string, h hello, patience time.Duration, use func(net.Conn)) {
	select {
	case r.answers <- struct{}{}:
	default:
		return // who has asked tries another member
	}
	r.begin(func() { // if the relay has ended, nobody needs the place
		ctx, cancel := context.WithTimeout(r.ctx, patience)
		conn, err := r.connect(ctx, to, h)
		cancel()
		<-r.answers
		if err == nil {
			use(conn)
		}
	})
}

// give hands a connection to its users.
func (r *Relay) give(conn net.Conn, kind Kind) {
	to := r.calls
	if kind == Gossip {
		to = r.streams
	}
	select {
	case to <- conn:
	case <-r.ctx.Done():
		conn.Close() //nolint:errcheck // the relay has ended
	}
}

// carry serves a call to this node, to one with a link to it, or to one that it can dial.
func (r *Relay) carry(conn net.Conn, from string, h hello) {
	answer := func(b byte) bool {
		_ = conn.SetWriteDeadline(time.Now().Add(dialTime)) // if this fails, so does the write
		_, err := conn.Write([]byte{b})
		_ = conn.SetWriteDeadline(time.Time{})
		return err == nil
	}
	if h.id == r.self {
		if answer(accepted) {
			r.give(conn, h.kind)
		} else {
			conn.Close() //nolint:errcheck // it is broken
		}
		return
	}
	defer conn.Close() //nolint:errcheck // its users get the error
	to := h.id.String()
	way, alive := r.deps.Way(to)
	l := r.standing(to)
	if l == nil && (!alive || way.Reach == view.Outbound) || !r.enter(from, to) {
		r.count.refused.Add(1)
		answer(refused)
		return
	}
	defer r.leave(from, to)
	ctx, cancel := context.WithTimeout(r.ctx, dialTime)
	var far net.Conn
	var err error
	if l != nil {
		far, err = r.ask(ctx, l, h.kind)
	} else {
		far, err = r.callBy(ctx, to, h.id, h.kind)
	}
	if cancel(); err != nil {
		r.count.refused.Add(1)
		answer(refused)
		return
	}
	defer far.Close() //nolint:errcheck // its users get the error
	if answer(accepted) {
		r.count.calls.Add(1)
		r.splice(conn, far)
	}
}

// enter counts a connection to be carried, if there is room.
func (r *Relay) enter(from, to string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all >= mostCalls || r.carried[from] >= mostOf || r.carried[to] >= mostOf {
		return false
	}
	r.all++
	r.carried[from]++
	r.carried[to]++
	return true
}

func (r *Relay) leave(from, to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	for _, peer := range []string{from, to} {
		if r.carried[peer]--; r.carried[peer] == 0 {
			delete(r.carried, peer)
		}
	}
}

// splice copies in both directions until one end closes.
func (r *Relay) splice(a, b net.Conn) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	context.AfterFunc(ctx, func() {
		a.Close() //nolint:errcheck // the copies end
		b.Close() //nolint:errcheck // the copies end
	})
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			defer cancel()
			// Hide the other methods, so that CopyBuffer uses this buffer.
			_, _ = io.CopyBuffer(struct{ io.Writer }{way[1]}, struct{ io.Reader }{way[0]}, make([]byte, 16<<10))
		})
	}
	both.Wait()
}
