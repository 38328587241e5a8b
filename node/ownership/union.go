package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"proxima/frontier"
	"proxima/node/view"
	"proxima/node/wire"
)

// verdict is what a peer says of a host that it was given.
type verdict struct {
	// equal: it has exactly what this node has.
	equal bool
	// keeps: it owns the host, or keeps its replica, by what it knows.
	keeps bool
}

// errFull says that the disk of a peer is full. What it was to store stays here.
var errFull = errors.New("its disk is full")

// errNotTheirs says that a peer does not own the host, though it is said to.
var errNotTheirs = errors.New("it knows nothing of it")

// askToStore sends items to a peer, and notes whether it answers.
func (o *Ownership) askToStore(ctx context.Context, to string, items ...*wire.StoreItem) (*wire.StoreResponse, error) {
	o.mu.Lock()
	if _, asked := o.silent[to]; !asked {
		o.silent[to] = time.Now()
	}
	o.mu.Unlock()
	res, err := o.deps.Peers.Store(ctx, to, &wire.StoreRequest{Items: items})
	if err == nil {
		o.mu.Lock()
		delete(o.silent, to)
		o.mu.Unlock()
	}
	return res, err
}

// silentLocked says that the node that keeps the replica of a host owned here has not answered for long: what is done now would
// be on one disk. Where that goes on, one disk must do.
func (o *Ownership) silentLocked(v *view.View, host string, now time.Time) bool {
	for id, since := range o.silent {
		if d := now.Sub(since); d > o.cfg.SilentAfter && d < o.cfg.FenceAfter && v.IsAlive(id) && v.Replica(host, v.Self) == id {
			return true
		}
	}
	return false
}

// storeOne sends one item to a peer and reads its answer.
func (o *Ownership) storeOne(ctx context.Context, to string, item *wire.StoreItem) (verdict, error) {
	res, err := o.askToStore(ctx, to, item)
	if err != nil {
		return verdict{}, fmt.Errorf("give it to %s: %w", to, err)
	}
	if len(res.GetAnswers()) != 1 {
		return verdict{}, fmt.Errorf("give it to %s: %d answers", to, len(res.GetAnswers()))
	}
	return o.readAnswer(to, item, res.GetAnswers()[0])
}

// readAnswer reads the answer to an item.
func (o *Ownership) readAnswer(to string, item *wire.StoreItem, a *wire.StoreAnswer) (verdict, error) {
	if newer, ok := fromWire(a.GetNewer()); ok && newer.Host == item.GetRecord().GetHost() {
		if err := o.obey(newer); err != nil {
			return verdict{}, err
		}
	}
	v := verdict{equal: a.GetStep() == wire.Step_STEP_STORED, keeps: a.GetKeeps()}
	switch a.GetStep() {
	case wire.Step_STEP_STORED, wire.Step_STEP_DIFFERS:
		return v, nil
	case wire.Step_STEP_FULL:
		return v, fmt.Errorf("give it to %s: %w", to, errFull)
	case wire.Step_STEP_LATER:
		return v, fmt.Errorf("give it to %s: %w: it is busy with the host", to, errLater)
	default:
		return v, fmt.Errorf("give it to %s: %w", to, errNotTheirs)
	}
}

// unequal is the digest of nothing that there can be: more done than accepted.
func unequal() *wire.Digest { return &wire.Digest{Done: 1} }

// push gives a peer everything that this node has of a host, unless that has the same already. When it returns without an
// error the peer has stored all of it. An owner that mends a replica holds back what is not to be told yet; whoever may
// remove the host afterwards gives the whole.
func (o *Ownership) push(ctx context.Context, to string, r Record, whole bool) (verdict, error) {
	compare := func() (verdict, error) {
		if !whole && o.stream.holdsBack(r.Host) { // the peer cannot have the same: it is not told yet of all that is done
			return o.storeOne(ctx, to, &wire.StoreItem{Record: r.wire(), Digest: unequal()})
		}
		d, err := o.deps.Frontier.DigestOf(ctx, r.Host)
		if err != nil {
			return verdict{}, fmt.Errorf("digest: %w", err)
		}
		return o.storeOne(ctx, to, &wire.StoreItem{Record: r.wire(), Digest: digestToWire(d)})
	}
	v, err := compare()
	if err != nil || v.equal {
		return v, err
	}
	var at frontier.Cursor
	for {
		chunk, next, end, err := o.deps.Frontier.Export(ctx, r.Host, at, o.cfg.ChunkURLs, chunkBytes)
		if err != nil {
			return verdict{}, fmt.Errorf("read: %w", err)
		}
		if !whole {
			if err := o.gather(ctx); err != nil { // pages may have been done just now
				return verdict{}, err
			}
			o.stream.withhold(r.Host, &chunk)
		}
		if _, err := o.storeOne(ctx, to, &wire.StoreItem{Record: r.wire(), Chunk: chunkToWire(chunk)}); err != nil {
			return verdict{}, err
		}
		if end {
			return compare()
		}
		at = next
	}
}

// pull unites what a peer has of a host with what this node has.
func (o *Ownership) pull(ctx context.Context, from string, r Record) error {
	var at []byte
	for {
		res, err := o.deps.Peers.Load(ctx, from, &wire.LoadRequest{Host: r.Host, Cursor: at})
		if err != nil {
			return fmt.Errorf("load it from %s: %w", from, err)
		}
		chunk, err := chunkFromWire(res.GetChunk())
		if err != nil {
			return fmt.Errorf("load it from %s: %w", from, err)
		}
		if _, err := o.deps.Frontier.Import(ctx, r.Host, chunk, r.origin()); err != nil {
			return fmt.Errorf("load it from %s: %w", from, err)
		}
		if res.GetEnd() {
			return nil
		}
		if at = res.GetNext(); len(at) == 0 {
			return fmt.Errorf("load it from %s: no end", from)
		}
	}
}

// mendReplica makes this node, the owner, and the node that keeps the replica have the same of a host. What changes
// meanwhile follows it in the stream.
func (o *Ownership) mendReplica(ctx context.Context, r Record, v view.View) (err error) {
	over := o.stream.mend(r.Host)
	defer func() { over(err) }()
	to := v.Replica(r.Host, r.Owner)
	if to == "" || !v.IsAlive(to) {
		return nil // replicas at a node that comes back are compared then
	}
	a, err := o.push(ctx, to, r, false)
	if err != nil || a.equal {
		return err
	}
	before, err := o.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return err
	}
	if err := o.pull(ctx, to, r); err != nil {
		return err
	}
	if now, ok, err := o.records.get(r.Host); err != nil || !ok || now != r {
		return err
	}
	if err := o.own(ctx, r); err != nil { // what was loaded may be the first of the host here
		return err
	}
	after, err := o.deps.Frontier.DigestOf(ctx, r.Host)
	if err == nil && after != before { // else there may only be what was found here since
		o.found(r.Host)
	}
	return err
}

// own makes sure that the frontier crawls a host that this node owns.
func (o *Ownership) own(ctx context.Context, r Record) error {
	role, known, err := o.deps.Frontier.RoleOf(ctx, r.Host)
	if err != nil || !known || role == frontier.Owned {
		return err
	}
	return o.deps.Frontier.SetRole(ctx, r.Host, frontier.Owned)
}

// comparison gathers hosts to be compared, by peer.
type comparison map[string][]*wire.StoreItem

// compared is how many hosts are compared in one message.
const compared = 200

func (o *Ownership) compareLater(ctx context.Context, c comparison, to string, r Record) error {
	if o.stream.busy(r.Host) {
		return nil // the stream compares it
	}
	d, err := o.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return err
	}
	if c[to] = append(c[to], &wire.StoreItem{Record: r.wire(), Digest: digestToWire(d)}); len(c[to]) == compared {
		o.compareNow(ctx, c, to)
	}
	return nil
}

// compareNow compares hosts with their replicas at a peer, and has those mended that differ.
func (o *Ownership) compareNow(ctx context.Context, c comparison, to string) {
	items := c[to]
	delete(c, to)
	res, err := o.askToStore(ctx, to, items...)
	if err != nil && ctx.Err() == nil {
		o.warn(fmt.Errorf("compare %d hosts with their replicas at %s: %w", len(items), to, err))
	}
	for i, item := range items {
		if err == nil && i < len(res.GetAnswers()) {
			a, err := o.readAnswer(to, item, res.GetAnswers()[i])
			if err == nil && a.equal {
				continue
			}
			if errors.Is(err, errNotTheirs) || errors.Is(err, errLater) { // perhaps it has forgotten it, and does not know yet
				o.queue.add(item.GetRecord().GetHost(), true)
				continue
			}
		}
		if item.GetRecord().GetOwner() == o.self() { // else its owner sees to it
			o.queue.add(item.GetRecord().GetHost(), false)
		}
	}
}
