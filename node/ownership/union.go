package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
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
func (rep *replicator) askToStore(ctx context.Context, to string, items ...*wire.StoreItem) (*wire.StoreResponse, error) {
	rep.mu.Lock()
	if _, asked := rep.silent[to]; !asked {
		rep.silent[to] = time.Now()
	}
	rep.mu.Unlock()
	res, err := rep.deps.Peers.Store(ctx, to, &wire.StoreRequest{Items: items})
	if err == nil {
		rep.mu.Lock()
		delete(rep.silent, to)
		rep.mu.Unlock()
	}
	return res, err
}

// silentLocked says that the node that keeps the replica of a host owned here has not answered for long: what is done now would
// be on one disk. Where that goes on, one disk must do.
func (rep *replicator) silentLocked(v *view.View, host string, now time.Time) bool {
	for id, since := range rep.silent {
		if d := now.Sub(since); d > rep.cfg.SilentAfter && d < rep.cfg.FenceAfter && v.IsAlive(id) && v.Replica(host, v.Self) == id {
			return true
		}
	}
	return false
}

// storeOne sends one item to a peer and reads its answer.
func (rep *replicator) storeOne(ctx context.Context, to string, item *wire.StoreItem) (verdict, error) {
	res, err := rep.askToStore(ctx, to, item)
	if err != nil {
		return verdict{}, fmt.Errorf("give it to %s: %w", to, err)
	}
	if len(res.GetAnswers()) != 1 {
		return verdict{}, fmt.Errorf("give it to %s: %d answers", to, len(res.GetAnswers()))
	}
	return rep.readAnswer(to, item, res.GetAnswers()[0])
}

// readAnswer reads the answer to an item.
func (rep *replicator) readAnswer(to string, item *wire.StoreItem, a *wire.StoreAnswer) (verdict, error) {
	if newer, ok := fromWire(a.GetNewer()); ok && newer.Host == item.GetRecord().GetHost() {
		if err := rep.obey(newer); err != nil {
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
func (rep *replicator) push(ctx context.Context, to string, r Record, whole bool) (verdict, error) {
	compare := func() (verdict, error) {
		if !whole && rep.stream.holdsBack(r.Host) { // the peer cannot have the same: it is not told yet of all that is done
			return rep.storeOne(ctx, to, &wire.StoreItem{Record: r.wire(), Digest: unequal()})
		}
		d, err := rep.deps.Frontier.DigestOf(ctx, r.Host)
		if err != nil {
			return verdict{}, fmt.Errorf("digest: %w", err)
		}
		return rep.storeOne(ctx, to, &wire.StoreItem{Record: r.wire(), Digest: digestToWire(d)})
	}
	v, err := compare()
	if err != nil || v.equal {
		return v, err
	}
	var at frontier.Cursor
	for {
		chunk, next, end, err := rep.deps.Frontier.Export(ctx, r.Host, at, rep.cfg.ChunkURLs, chunkBytes)
		if err != nil {
			return verdict{}, fmt.Errorf("read: %w", err)
		}
		if !whole {
			if err := rep.gather(ctx); err != nil { // pages may have been done just now
				return verdict{}, err
			}
			rep.stream.withhold(r.Host, &chunk)
		}
		if _, err := rep.storeOne(ctx, to, &wire.StoreItem{Record: r.wire(), Chunk: chunkToWire(chunk)}); err != nil {
			return verdict{}, err
		}
		if end {
			return compare()
		}
		at = next
	}
}

// pull unites what a peer has of a host with what this node has.
func (rep *replicator) pull(ctx context.Context, from string, r Record) error {
	var at []byte
	for {
		res, err := rep.deps.Peers.Load(ctx, from, &wire.LoadRequest{Host: r.Host, Cursor: at})
		if err != nil {
			return fmt.Errorf("load it from %s: %w", from, err)
		}
		chunk, err := chunkFromWire(res.GetChunk())
		if err != nil {
			return fmt.Errorf("load it from %s: %w", from, err)
		}
		if _, err := rep.deps.Frontier.Import(ctx, r.Host, chunk, r.origin()); err != nil {
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

// Load returns a part of what this node has of a host.
func (rep *replicator) Load(ctx context.Context, _ string, req *wire.LoadRequest) (*wire.LoadResponse, error) {
	if err := rep.begun(); err != nil {
		return nil, err
	}
	at, err := frontier.ParseCursor(req.GetCursor())
	if err == nil && identity.CheckHost(req.GetHost()) != nil {
		err = errors.New("malformed host")
	}
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", req.GetHost(), err)
	}
	chunk, next, end, err := rep.deps.Frontier.Export(ctx, req.GetHost(), at, rep.cfg.ChunkURLs, chunkBytes)
	if err != nil {
		return nil, err
	}
	return &wire.LoadResponse{Chunk: chunkToWire(chunk), Next: next.Append(nil), End: end}, nil
}

// mendReplica makes this node, the owner, and the node that keeps the replica have the same of a host. What changes
// meanwhile follows it in the stream.
func (rep *replicator) mendReplica(ctx context.Context, r Record, v view.View) (err error) {
	over := rep.stream.mend(r.Host)
	defer func() { over(err) }()
	to := v.Replica(r.Host, r.Owner)
	if to == "" || !v.IsAlive(to) {
		return nil // replicas at a node that comes back are compared then
	}
	a, err := rep.push(ctx, to, r, false)
	if err != nil || a.equal {
		return err
	}
	before, err := rep.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return err
	}
	if err := rep.pull(ctx, to, r); err != nil {
		return err
	}
	if now, ok, err := rep.records.get(r.Host); err != nil || !ok || now != r {
		return err
	}
	if err := rep.own(ctx, r); err != nil { // what was loaded may be the first of the host here
		return err
	}
	after, err := rep.deps.Frontier.DigestOf(ctx, r.Host)
	if err == nil && after != before { // else there may only be what was found here since
		rep.found(r.Host)
	}
	return err
}

// own makes sure that the frontier crawls a host that this node owns.
func (rep *replicator) own(ctx context.Context, r Record) error {
	role, known, err := rep.deps.Frontier.RoleOf(ctx, r.Host)
	if err != nil || !known || role == frontier.Owned {
		return err
	}
	return rep.deps.Frontier.SetRole(ctx, r.Host, frontier.Owned)
}

// comparison gathers hosts to be compared, by peer.
type comparison map[string][]*wire.StoreItem

// compared is how many hosts are compared in one message.
const compared = 200

func (rep *replicator) compareLater(ctx context.Context, c comparison, to string, r Record) error {
	if rep.stream.busy(r.Host) {
		return nil // the stream compares it
	}
	d, err := rep.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return err
	}
	if c[to] = append(c[to], &wire.StoreItem{Record: r.wire(), Digest: digestToWire(d)}); len(c[to]) == compared {
		rep.compareNow(ctx, c, to)
	}
	return nil
}

// compareNow compares hosts with their replicas at a peer, and has those mended that differ.
func (rep *replicator) compareNow(ctx context.Context, c comparison, to string) {
	items := c[to]
	delete(c, to)
	res, err := rep.askToStore(ctx, to, items...)
	if err != nil && ctx.Err() == nil {
		rep.warn(fmt.Errorf("compare %d hosts with their replicas at %s: %w", len(items), to, err))
	}
	for i, item := range items {
		if err == nil && i < len(res.GetAnswers()) {
			a, err := rep.readAnswer(to, item, res.GetAnswers()[i])
			if err == nil && a.equal {
				continue
			}
			if errors.Is(err, errNotTheirs) || errors.Is(err, errLater) { // perhaps it has forgotten it, and does not know yet
				rep.queue.add(item.GetRecord().GetHost(), true)
				continue
			}
		}
		if item.GetRecord().GetOwner() == rep.self() { // else its owner sees to it
			rep.queue.add(item.GetRecord().GetHost(), false)
		}
	}
}
