package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// verdict is a peer's answer about a host that it was given.
type verdict struct {
	equal bool // it has exactly what this node has
	keeps bool // as far as it knows, it owns the host or keeps its replica, and this node does neither
}

var (
	// errFull means that the peer's disk is full. What it should have stored stays here.
	errFull = errors.New("its disk is full")
	// errNotTheirs means that the peer is said to own the host, and does not.
	errNotTheirs = errors.New("it knows nothing of it")
)

// askToStore sends items to a peer and keeps track of whether it answers.
func (rep *replicator) askToStore(ctx context.Context, to string, items ...*wire.StoreItem) (*wire.StoreResponse, error) {
	rep.mu.Lock()
	q := rep.silent[to]
	if q == nil {
		q = &silence{since: time.Now()}
		rep.silent[to] = q
	}
	q.calls++
	rep.mu.Unlock()
	res, err := rep.deps.Peers.Store(ctx, to, &wire.StoreRequest{Items: items})
	rep.mu.Lock()
	defer rep.mu.Unlock()
	if q.calls--; err == nil {
		if q.since = time.Now(); q.calls == 0 && rep.silent[to] == q {
			delete(rep.silent, to)
		}
	}
	return res, err
}

// stuck returns an error while a peer is silent and another call waits for its answer. Many hosts may wait for that peer, and those of other
// peers must not wait until a call for each of them has ended.
func (rep *replicator) stuck(to string) error {
	rep.mu.Lock()
	defer rep.mu.Unlock()
	if q := rep.silent[to]; q != nil && q.calls > 0 && time.Since(q.since) > rep.cfg.SilentAfter {
		return fmt.Errorf("%w: it has not answered for %v", errLater, time.Since(q.since).Round(time.Second))
	}
	return nil
}

// silentLocked reports whether the replica of a host owned here has not answered for SilentAfter: work done now would be on
// one disk only. After SuspendAfter one disk must do.
func (rep *replicator) silentLocked(v *view.View, host string, now time.Time) bool {
	for id, q := range rep.silent {
		if d := now.Sub(q.since); d > rep.cfg.SilentAfter && d < rep.cfg.SuspendAfter && v.IsAlive(id) && v.Replica(host, v.Self) == id {
			return true
		}
	}
	return false
}

// storeOne sends one item to a peer and reads the answer.
func (rep *replicator) storeOne(ctx context.Context, to string, item *wire.StoreItem) (verdict, error) {
	if err := rep.stuck(to); err != nil {
		return verdict{}, fmt.Errorf("give it to %s: %w", to, err)
	}
	res, err := rep.askToStore(ctx, to, item)
	if err != nil {
		return verdict{}, fmt.Errorf("give it to %s: %w", to, err)
	}
	if len(res.GetAnswers()) != 1 {
		return verdict{}, fmt.Errorf("give it to %s: %d answers", to, len(res.GetAnswers()))
	}
	return rep.readAnswer(to, item, res.GetAnswers()[0])
}

// readAnswer reads the answer to an item, and obeys a newer record in it.
func (rep *replicator) readAnswer(to string, item *wire.StoreItem, a *wire.StoreAnswer) (verdict, error) {
	if newer, ok := fromWire(a.GetNewer()); ok && newer.Host == item.GetRecord().GetHost() {
		if err := rep.census.obey(newer); err != nil {
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

// compareWith asks a peer whether it has the same of a host.
func (rep *replicator) compareWith(ctx context.Context, to string, r Record) (verdict, error) {
	d, err := rep.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return verdict{}, fmt.Errorf("digest: %w", err)
	}
	return rep.storeOne(ctx, to, &wire.StoreItem{Record: r.wire(), Digest: digestToWire(d)})
}

// push gives a peer everything that this node has of a host, unless it has the same already. After a nil error the peer has
// stored all of it. An owner that mends a replica leaves out what its stream holds back; a node that may remove the host
// afterwards gives the whole.
func (rep *replicator) push(ctx context.Context, to string, r Record, whole bool) (verdict, error) {
	v, err := rep.compareWith(ctx, to, r)
	if err != nil || v.equal {
		return v, err
	}
	var at frontier.Cursor
	for end := false; !end; {
		var chunk frontier.Chunk
		if chunk, at, end, err = rep.deps.Frontier.Export(ctx, r.Host, at, rep.cfg.ChunkURLs, chunkBytes); err != nil {
			return verdict{}, fmt.Errorf("read: %w", err)
		}
		if !whole {
			// Changes must be in the stream before it is asked what it holds back.
			if err := rep.gather(ctx); err != nil {
				return verdict{}, err
			}
			rep.stream.withhold(r.Host, &chunk)
		}
		if _, err := rep.storeOne(ctx, to, &wire.StoreItem{Record: r.wire(), Chunk: chunkToWire(chunk)}); err != nil {
			return verdict{}, err
		}
		rep.stream.hear(r.Host)
	}
	return rep.compareWith(ctx, to, r)
}

// pull unites what a peer has of a host with what this node has.
func (rep *replicator) pull(ctx context.Context, from string, r Record) error {
	var at []byte
	for {
		res, err := rep.deps.Peers.Load(ctx, from, &wire.LoadRequest{Host: r.Host, Cursor: at})
		var chunk frontier.Chunk
		if err == nil {
			chunk, err = chunkFromWire(res.GetChunk())
		}
		if err == nil {
			err = rep.unite(ctx, r, chunk)
		}
		if err != nil {
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

// unite unites a part of a copy with what this node has of the host. It ends the wait for the copy of a host that was taken over, if the part
// comes with another owner's record or brings something new. What this node's own replica gives back does neither.
func (rep *replicator) unite(ctx context.Context, r Record, chunk frontier.Chunk) error {
	rep.mu.Lock()
	_, awaited := rep.awaited[r.Host]
	rep.mu.Unlock()
	var before, after frontier.Digest
	var err error
	if awaited {
		if before, err = rep.deps.Frontier.DigestOf(ctx, r.Host); err != nil {
			return err
		}
	}
	added, err := rep.deps.Frontier.Import(ctx, r.Host, chunk, r.origin())
	if err == nil && awaited {
		if after, err = rep.deps.Frontier.DigestOf(ctx, r.Host); r.Owner != rep.self() || added > 0 || after.Done > before.Done {
			rep.found(r.Host)
		}
	}
	return err
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
		return nil, fmt.Errorf("load %s: %w: %w", req.GetHost(), peer.ErrMalformed, err)
	}
	if err := rep.secure(ctx, req.GetHost(), 0); err != nil { // this node may have owned it until now
		return nil, fmt.Errorf("load %s: %w", req.GetHost(), err)
	}
	chunk, next, end, err := rep.deps.Frontier.Export(ctx, req.GetHost(), at, rep.cfg.ChunkURLs, chunkBytes)
	if err != nil {
		return nil, err
	}
	return &wire.LoadResponse{Chunk: chunkToWire(chunk), Next: next.Append(nil), End: end}, nil
}

// mendReplica makes this node, the owner, and the node with the replica have the same of a host. Changes go out meanwhile.
func (rep *replicator) mendReplica(ctx context.Context, r Record, v view.View) error {
	to := v.Replica(r.Host, r.Owner)
	if to == "" || !v.IsAlive(to) {
		return nil // when a peer comes back its replicas are compared
	}
	over := rep.stream.mend(r.Host)
	a, err := rep.push(ctx, to, r, false)
	over(err) // the replica lacks nothing any more, even if it cannot give what it has
	if err != nil || a.equal {
		return err
	}
	if err := rep.pull(ctx, to, r); err != nil {
		return err
	}
	if now, err := rep.records.get(r.Host); err != nil || now != r {
		return err
	}
	return rep.own(ctx, r)
}

// repeat gives replicas links that this node knows already, because they may not know them. It enters hosts whose replicas do not store them into
// late.
func (rep *replicator) repeat(ctx context.Context, links []frontier.Link, late map[string]bool) error {
	v, chunks, items := rep.view(), make(map[string]*frontier.Chunk), make(comparison)
	for _, l := range links {
		c := chunks[l.URL.Host]
		if c == nil {
			d, err := rep.deps.Frontier.DigestOf(ctx, l.URL.Host)
			if err != nil {
				return err
			}
			c = &frontier.Chunk{Drops: d.Drops}
			chunks[l.URL.Host] = c
		}
		c.Pending = append(c.Pending, frontier.PendingURL{Path: l.URL.Path, Sitemap: l.Sitemap, Depth: l.Depth, Hops: l.Hops})
	}
	for host, c := range chunks {
		r, err := rep.records.get(host)
		if err != nil {
			return err
		}
		if to := v.Replica(host, v.Self); to != "" && !late[host] && r.Owner == v.Self {
			items[to] = append(items[to], &wire.StoreItem{Record: r.wire(), Chunk: chunkToWire(*c)})
		}
	}
	for to, items := range items {
		err := rep.stuck(to)
		var res *wire.StoreResponse
		if err == nil {
			res, err = rep.askToStore(ctx, to, items...)
		}
		for i, item := range items {
			stored := err == nil && i < len(res.GetAnswers())
			if stored {
				_, err := rep.readAnswer(to, item, res.GetAnswers()[i])
				stored = err == nil
			}
			if !stored {
				late[item.GetRecord().GetHost()] = true
			}
		}
	}
	return nil
}

// own makes the frontier crawl a host that this node owns. The host may have come to it only now, by data of a peer.
func (rep *replicator) own(ctx context.Context, r Record) error {
	role, known, err := rep.deps.Frontier.RoleOf(ctx, r.Host)
	if err != nil || !known || role == frontier.Owned {
		return err
	}
	return rep.deps.Frontier.SetRole(ctx, r.Host, frontier.Owned)
}

// comparison gathers hosts to be compared, by peer.
type comparison map[string][]*wire.StoreItem

// comparedAtOnce is how many hosts one message compares.
const comparedAtOnce = 200

// compareLater adds a host to a comparison, unless the stream will compare it anyway. A full message is sent.
func (rep *replicator) compareLater(ctx context.Context, c comparison, to string, r Record) error {
	if !rep.stream.begins() && rep.stream.busy(r.Host) {
		return nil
	}
	d, err := rep.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return err
	}
	if c[to] = append(c[to], &wire.StoreItem{Record: r.wire(), Digest: digestToWire(d)}); len(c[to]) == comparedAtOnce {
		rep.compareNow(ctx, c, to)
	}
	return nil
}

// compareNow sends the comparison with one peer, and queues the hosts that differ.
func (rep *replicator) compareNow(ctx context.Context, c comparison, to string) {
	items := c[to]
	delete(c, to)
	var res *wire.StoreResponse
	err := rep.stuck(to)
	if err == nil {
		res, err = rep.askToStore(ctx, to, items...)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, errLater) {
		rep.deps.Warn(fmt.Errorf("compare %d hosts with their replicas at %s: %w", len(items), to, err))
	}
	for i, item := range items {
		host := item.GetRecord().GetHost()
		var a verdict
		var e error
		if err == nil && i < len(res.GetAnswers()) {
			if a, e = rep.readAnswer(to, item, res.GetAnswers()[i]); e == nil && a.equal {
				continue
			}
		}
		if item.GetRecord().GetOwner() == rep.self() {
			rep.stream.differs(host)
		}
		if errors.Is(e, errNotTheirs) || errors.Is(e, errLater) { // the peer may have lost the host without knowing it yet
			rep.queue.add(host, true)
			continue
		}
		rep.queue.add(host, false) // its owner mends it
	}
}
