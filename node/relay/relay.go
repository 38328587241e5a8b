package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/node/view"
)

const (
	// Idle is how long a link is kept that nothing goes over, Silence how long one that says nothing. Pings are three in Silence.
	Idle, Silence = 2 * time.Minute, 12 * time.Second
	// Backoff is how long a member is left alone that could not be dialled.
	Backoff = 3 * time.Second
	// dialTime bounds a dial, and what the other end says first.
	dialTime = 5 * time.Second

	// queued is how many frames wait for one link. rate is how many packets a second a member may have carried by this node, burst how
	// many at once: an overlay of a hundred nodes needs ten.
	queued      = 64
	rate, burst = 500.0, 1000.0
	// mostLinks bounds the links, mostCalls the connections that are carried at once, mostOf those of one member.
	mostLinks, mostCalls, mostOf = 512, 256, 64
	// mostAnswers is how many connections this node makes at once because relays asked for them.
	mostAnswers = 64
)

// Deps are what a relay takes from its node.
type Deps struct {
	ID string
	// Connect dials the port for peers of a member, and returns when both ends have proved who they are.
	Connect func(ctx context.Context, id string) (net.Conn, error)
	// Way is how a member is reached, as it says itself; alive is false for those that do not answer.
	Way func(id string) (way view.Way, alive bool)
	// Near are the other live members, the nearest first.
	Near func() []Neighbour
	// Publish tells the members how this node is reached. It does not block.
	Publish func(view.Way)
	// Knock sends a packet to the port of the gossip of a member, past all links.
	Knock func(id string, packet []byte)
	// First is what this node takes itself for until others were asked.
	First view.Reach
	// Forced is how this node is reached, where that is not to be found out; nil finds out.
	Forced *view.Reach
}

// Neighbour is a live member and what is expected of a round trip to it, in ms.
type Neighbour struct {
	ID string
	Ms float64
}

// Relay is a node's part in reaching and being reached. New makes it, Run runs it; it is safe for concurrent use.
type Relay struct {
	deps    Deps
	self    id
	packets chan *memberlist.Packet
	streams chan net.Conn // of the gossip
	calls   chan net.Conn // of peers
	poked   chan struct{} // a link came or went
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
	answers chan struct{}
	turn    atomic.Uint32
	way     atomic.Pointer[view.Way]
	count   counters

	// mu guards what follows.
	mu      sync.Mutex
	closed  bool
	links   map[string]*link
	failed  map[string]time.Time // when a member could not be dialled
	waiting map[id]chan net.Conn // of calls that relays of theirs answer
	carried map[string]int       // connections by the members at their ends
	all     int                  // of carried
	checks  *round
}

type counters struct{ packets, dropped, calls, refused atomic.Uint64 }

// Status is how it stands.
type Status struct {
	// Reach is how the node is reached: "direct", "streams" or "outbound", Relays by whom if it is outbound.
	Reach  string   `json:"reach"`
	Relays []string `json:"relays,omitempty"`
	// Links are those that stand. Packets and Calls were carried for others, Dropped and Refused were not.
	Links   int    `json:"links"`
	Packets uint64 `json:"packets_carried"`
	Dropped uint64 `json:"packets_dropped"`
	Calls   uint64 `json:"calls_carried"`
	Refused uint64 `json:"calls_refused"`
}

// New makes a relay that has no links yet.
func New(deps Deps) (*Relay, error) {
	self, err := parseID(deps.ID)
	if err != nil {
		return nil, err
	}
	r := &Relay{deps: deps, self: self, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), calls: make(chan net.Conn),
		poked: make(chan struct{}, 1), answers: make(chan struct{}, mostAnswers), links: map[string]*link{}, failed: map[string]time.Time{},
		waiting: map[id]chan net.Conn{}, carried: map[string]int{}}
	r.ctx, r.stop = context.WithCancel(context.Background())
	way := view.Way{Reach: deps.First}
	if deps.Forced != nil {
		way.Reach = *deps.Forced
	}
	r.way.Store(&way)
	return r, nil
}

// Run keeps the links that this node needs until ctx ends, then closes all.
func (r *Relay) Run(ctx context.Context) error {
	defer r.work.Wait()
	defer func() {
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		r.stop()
	}()
	r.deps.Publish(*r.way.Load())
	r.watch(ctx)
	return nil
}

// Status tells how it stands.
func (r *Relay) Status() Status {
	way := r.way.Load()
	s := Status{Reach: way.Reach.String(), Relays: way.Relays, Packets: r.count.packets.Load(), Dropped: r.count.dropped.Load(),
		Calls: r.count.calls.Load(), Refused: r.count.refused.Load()}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		if l.stands() {
			s.Links++
		}
	}
	return s
}

// Packets are those that came by links, Streams the connections of the gossip.
func (r *Relay) Packets() <-chan *memberlist.Packet { return r.packets }

// Streams are the connections of the gossip that came by links.
func (r *Relay) Streams() <-chan net.Conn { return r.streams }

// begin starts work, unless all has ended.
func (r *Relay) begin(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.beginLocked(f)
	return true
}

func (r *Relay) beginLocked(f func()) {
	r.work.Go(func() {
		// The caller's labels say whose work it does, and this goes on after it.
		pprof.SetGoroutineLabels(context.Background())
		f()
	})
}

// standing is the link with a member, nil for none that stands.
func (r *Relay) standing(peer string) *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.links[peer]; l != nil && l.stands() {
		return l
	}
	return nil
}

// open is the link with a member, which is dialled if there is none; nil if that was tried in vain just now.
func (r *Relay) open(peer string) *link {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.links[peer]; l != nil {
		return l
	}
	if r.closed || peer == r.deps.ID || len(r.links) >= mostLinks || time.Since(r.failed[peer]) < Backoff {
		return nil
	}
	l := newLink(peer)
	r.links[peer] = l
	r.beginLocked(func() {
		defer r.drop(l)
		ctx, cancel := context.WithTimeout(r.ctx, dialTime)
		conn, err := r.connect(ctx, peer, hello{role: roleLink})
		if cancel(); err != nil {
			r.mu.Lock()
			r.failed[peer] = time.Now()
			r.mu.Unlock()
			return
		}
		r.poke()
		l.run(r.ctx, conn, true, r.take)
	})
	return l
}

// drop forgets a link that has ended.
func (r *Relay) drop(l *link) {
	r.mu.Lock()
	if r.links[l.peer] == l {
		delete(r.links, l.peer)
	}
	for peer, at := range r.failed {
		if time.Since(at) > Backoff {
			delete(r.failed, peer)
		}
	}
	r.mu.Unlock()
	close(l.gone)
	r.poke()
}

func (r *Relay) poke() {
	select {
	case r.poked <- struct{}{}:
	default:
	}
}

// connect dials a member and says what for.
func (r *Relay) connect(ctx context.Context, peer string, h hello) (net.Conn, error) {
	conn, err := r.deps.Connect(ctx, peer)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(dialTime)) // the write fails else
	if _, err := conn.Write(h.append(nil)); err != nil {
		return nil, errors.Join(fmt.Errorf("say what for: %w", err), conn.Close())
	}
	_ = conn.SetDeadline(time.Time{}) // who gets it sets its own
	return conn, nil
}

// Serve takes a connection that a member made by Connect, and returns when it has ended, or is somebody else's.
func (r *Relay) Serve(conn net.Conn, peer string) {
	if !r.begin(func() { r.serve(conn, peer) }) {
		conn.Close() //nolint:errcheck // all has ended
	}
}

func (r *Relay) serve(conn net.Conn, peer string) {
	_ = conn.SetDeadline(time.Now().Add(dialTime)) // the read fails else
	h, err := readHello(conn)
	if err != nil {
		conn.Close() //nolint:errcheck // it is unwanted
		return
	}
	_ = conn.SetDeadline(time.Time{})
	switch h.role {
	case roleLink:
		r.accept(conn, peer)
		return
	case roleCall:
		r.carry(conn, peer, h)
		return
	case roleAnswer:
		r.mu.Lock()
		to := r.waiting[h.id]
		delete(r.waiting, h.id)
		r.mu.Unlock()
		if to != nil {
			to <- conn // it has room
			return
		}
	case roleKnock:
		r.knocked(h.id, peer)
	}
	conn.Close() //nolint:errcheck // it has served
}

// accept serves a link that a member has dialled. It takes the place of an older one, which ends when it is idle.
func (r *Relay) accept(conn net.Conn, peer string) {
	l := newLink(peer)
	r.mu.Lock()
	if old := r.links[peer]; len(r.links) >= mostLinks && old == nil {
		r.mu.Unlock()
		conn.Close() //nolint:errcheck // there is no room
		return
	}
	r.links[peer] = l
	r.mu.Unlock()
	defer r.drop(l)
	r.poke()
	l.run(r.ctx, conn, false, r.take)
}

// take carries out a frame that came by a link.
func (r *Relay) take(l *link, f frame) {
	switch f.kind {
	case framePacket:
		if f.id == r.self {
			r.deliver(l, f.payload)
			return
		}
		to := r.standing(f.id.String())
		from, err := parseID(l.peer)
		if err != nil || to == nil || !l.may(time.Now()) || !to.offer(frame{kind: frameCarried, id: from, payload: f.payload}) {
			r.count.dropped.Add(1)
			return
		}
		r.count.packets.Add(1)
	case frameCarried:
		r.deliver(l, f.payload)
	case frameCall:
		r.answer(l.peer, f.id, Kind(f.payload[0]))
	case frameCheck:
		r.check(l.peer, f.id)
	}
}

// deliver gives the gossip a packet.
func (r *Relay) deliver(l *link, packet []byte) {
	if len(packet) == 0 {
		return
	}
	select {
	case r.packets <- &memberlist.Packet{Buf: packet, From: l.conn.RemoteAddr(), Timestamp: time.Now()}:
	case <-r.ctx.Done():
	}
}

// Send sends a packet of the gossip, if it goes by a link; if not, it is to go as it would without one.
func (r *Relay) Send(peer string, packet []byte) bool {
	to, err := parseID(peer)
	if err != nil || peer == r.deps.ID || len(packet) > maxPayload {
		return false
	}
	way, _ := r.deps.Way(peer)
	own := r.way.Load().Reach
	if own == view.Direct && way.Reach == view.Direct {
		return false
	}
	l := r.standing(peer)
	switch {
	case l != nil:
	case way.Reach != view.Outbound || len(way.Relays) == 0:
		l = r.open(peer)
	default:
		l = r.relayTo(way.Relays)
	}
	if l == nil {
		return false
	}
	l.offer(frame{kind: framePacket, id: to, payload: append([]byte(nil), packet...)}) // what does not fit is lost, as packets are
	return true
}

// relayTo is the link with one of a node's relays: one that stands, each in its turn, or one that is dialled.
func (r *Relay) relayTo(relays []string) *link {
	first := int(r.turn.Add(1))
	for _, stands := range []bool{true, false} {
		for i := range relays {
			relay := relays[(first+i)%len(relays)]
			l := r.standing(relay)
			if !stands && relay != r.deps.ID {
				l = r.open(relay)
			}
			if l != nil {
				return l
			}
		}
	}
	return nil
}

func token() (t id) {
	for i := range t {
		t[i] = byte(rand.Uint32())
	}
	return t
}
