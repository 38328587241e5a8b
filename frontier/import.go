package frontier

import (
	"context"
	"fmt"
	"time"
)

// Import merges a chunk with what is here of its host, and returns how many pending URLs were new. On return everything is on disk.
// Importing a chunk twice has the same result. A host that was unknown becomes a replica.
//
//   - Unknown pending URLs become pending, unless the host was given up here since. If it was given up there since, the pending URLs here
//     are forgotten first. Config.MaxHostURLs does not apply.
//   - Done hashes become done, even if they are pending here, and stay done.
//   - Of two states the stricter politeness and the younger robots.txt win. A host that was given up there is given up here, unless it is
//     owned. Of two records of a page the later visit wins.
//
// If the disk is full, Import returns ErrDiskFull, and the sender keeps the host. If the host is owned, Import waits until none of its tasks
// is out before it takes over done URLs, pages and state. The context bounds that wait.
func (t *transfers) Import(ctx context.Context, host string, c Chunk, origin Origin) (added int, err error) {
	if origin >= origins {
		return 0, fmt.Errorf("import %s: no origin %d", host, origin)
	}
	t.mu.Lock()
	full := t.full
	t.mu.Unlock()
	if full && len(c.Pending)+len(c.Done)+len(c.Pages) > 0 {
		return 0, fmt.Errorf("import %s: %w", host, ErrDiskFull)
	}
	if c.State != nil || len(c.Done)+len(c.Pages) > 0 {
		if err := t.freeze(ctx, host); err != nil {
			return 0, fmt.Errorf("import %s: %w", host, err)
		}
		defer t.thaw(host)
	}
	finished := false // no URL of the replica is left, but its blocks still hold those that are done
	unite := func(u union, joins joins) error {
		u.origin, u.Drops = origin, c.Drops
		err := t.ledger.onHost(ctx, joins, host, func(b *batch, h *hostEntry) error {
			err := t.ledger.decideUnion(b, h, &u)
			finished = h.rec.role == Replica && h.rec.loose && h.rec.digest.Pending() == 0
			return err
		})
		if added += u.added; err == nil && u.dropped > 0 {
			t.deps.Event(Event{Kind: HostDropped, Host: host, Reason: droppedThere, URLs: u.dropped})
		}
		return wrap(err, "import %s", host)
	}
	if c.Drops > 0 { // the URLs must be forgotten on disk before the same URLs can come again
		if err := unite(union{}, alone); err != nil {
			return 0, err
		}
	}
	for first := true; first || len(c.Pending)+len(c.Done)+len(c.Pages) > 0; first = false {
		u, joins := c.cut(host, first)
		if err := unite(u, joins); err != nil {
			return added, err
		}
	}
	if finished {
		err = t.ledger.onHost(ctx, alone, host, t.ledger.decideReconcile)
	}
	return added, wrap(err, "import %s", host)
}

// cut takes the next part off the chunk, small enough for one request to the ledger. The first part has the state. Done URLs and pages come before
// pending URLs, because a URL that is both done and pending is done.
func (c *Chunk) cut(host string, first bool) (u union, joins joins) {
	size := 0
	if joins = together; first && c.State != nil {
		u.State, joins = c.State, alone
		if r := c.State.Robots; r != nil {
			size = len(r.Body)
		}
	}
	n := min(len(c.Done), maxRequestHashes)
	u.Done, c.Done = c.Done[:n], c.Done[n:]
	size += 8 * n
	switch {
	case n == 0 && len(c.Pages) > 0:
		n := within(size, len(c.Pages), func(i int) int { return 4*cost(host, "") + c.Pages[i].memory() })
		u.Pages, c.Pages = c.Pages[:n], c.Pages[n:]
		joins = alone
	case len(c.Done)+len(c.Pages) == 0:
		n := within(size, len(c.Pending), func(i int) int { return len(c.Pending[i].Path) })
		for _, url := range c.Pending[:n] {
			u.entries = append(u.entries, newEntry(host, url))
		}
		c.Pending = c.Pending[n:]
	}
	return u, joins
}

// Remove forgets everything about a host, whatever its role. URLs that come later are new, and the first makes the host Owned again. Remove
// waits until no task of the host is out; the context bounds that wait. If the process dies during the call, the host keeps its role, and
// Remove can be called again.
func (t *transfers) Remove(ctx context.Context, host string) error {
	err := t.freeze(ctx, host)
	if err == nil {
		defer t.thaw(host)
		err = t.ledger.onHost(ctx, alone, host, t.ledger.decideRemove)
	}
	return wrap(err, "remove %s", host)
}

// DigestOf sums up the URLs of a host. The first call for a host reads all of them; from then on the digest is kept.
func (t *transfers) DigestOf(ctx context.Context, host string) (d Digest, err error) {
	l := t.ledger
	err = l.onHost(ctx, together, host, func(b *batch, h *hostEntry) error {
		if known, err := l.known(b, h); err != nil || !known {
			return err // a question about an unknown host must not create a record
		}
		err := l.track(b, h)
		d = h.rec.digest
		return err
	})
	return d, wrap(err, "digest %s", host)
}

// union is a part of a chunk, small enough for one request.
type union struct {
	Chunk
	origin  Origin
	entries []entry // what Chunk.Pending would hold
	added   int     // answer
	dropped int     // answer: pending URLs of an owned host that were dropped
}

// droppedThere is the reason why URLs of a host are dropped that another node has given up.
const droppedThere = "given up by its owner"

// maxRequestHashes bounds the done URLs of a request to the ledger.
const maxRequestHashes = 4096

// decideUnion merges a part of a chunk with what is here of its host.
func (l *ledger) decideUnion(b *batch, h *hostEntry, u *union) error {
	known, err := l.known(b, h)
	if err != nil {
		return err
	}
	if !known {
		if err := l.decideRole(b, h, Replica); err != nil {
			return err
		}
	}
	if err := l.track(b, h); err != nil {
		return err
	}
	b.touched[h.host] = h
	switch drops := &h.rec.digest.Drops; {
	case u.Drops > *drops:
		n, err := l.decideDrop(b, h, droppedThere, time.Time{})
		if err != nil {
			return err
		}
		if h.rec.role == Owned {
			u.dropped = n
		}
		*drops = u.Drops
	case u.Drops < *drops:
		u.entries = nil // they were given up here
	}
	if len(u.entries) > 0 { // they were found after the host was given up, so it is crawled again
		h.rec.giveUp(time.Time{}, "")
	}
	if u.State != nil {
		l.unite(b, h, u, time.Now())
	}
	b.bytes += 8 * len(u.Done)
	b.urls += len(u.entries)
	// What is decided before an error is written, too.
	ended := 0
	defer func() { l.count.moved(h.rec.role, u.added, ended) }()
	if ended, err = l.decidePages(b, h, u.Pages); err != nil {
		return err
	}
	if rec := &h.rec; rec.digest.Pages > 0 && rec.endedUntil.After(time.Now()) { // they wait until it may be taken up again
		rec.next = max(rec.next, stampOf(rec.endedUntil))
	}
	for _, hash := range u.Done {
		was, err := l.decideDone(b, h, hash)
		if err != nil {
			return err
		}
		ended += was
	}
	for _, e := range u.entries {
		b.bytes += cost(h.host, e.Path)
		verdict, err := l.put(b, addition{host: h.host, origin: u.origin, entry: e}, h, false)
		if err != nil {
			return err
		}
		if verdict == Accepted {
			u.added++
		}
	}
	return nil
}

// known says whether a host has a record or URLs, on disk or on their way there.
func (l *ledger) known(b *batch, h *hostEntry) (bool, error) {
	if h.stored || b.touched[h.host] != nil {
		return true, nil
	}
	if l.seen.count(h.host, 0) == 0 {
		return false, nil
	}
	set, err := l.exact(b, h.host)
	return err == nil && len(set) > 0, err
}

// decideDone notes that a URL is done elsewhere, and returns 1 if it was pending here. The URL stays in its block until decideReconcile,
// because finding the block would mean reading all blocks. So does the smaller depth that was found for it.
func (l *ledger) decideDone(b *batch, h *hostEntry, hash uint64) (ended int, err error) {
	state, err := l.lookup(b, h.host, hash)
	if err != nil || state == isDone {
		return 0, err
	}
	if state == unknown {
		l.seen.count(h.host, 1)
		h.rec.digest.accept(hash)
	} else {
		h.rec.loose = true
		ended = 1
	}
	l.seen.remember(hash)
	l.markDone(b, h, hash)
	return ended, nil
}

// unite gives a host the stricter politeness of two, and the robots.txt that stays valid longer. What Retry ended in one of them counts in
// neither.
func (l *ledger) unite(b *batch, h *hostEntry, u *union, now time.Time) {
	rec, s := &h.rec, u.State
	most := time.Duration(l.longest.Load())
	if s.SinceRequest >= 0 {
		rec.lastRequest = later(rec.lastRequest, now.Add(-s.SinceRequest))
	}
	if s.Retries > rec.retries {
		rec.retries, rec.notBefore, rec.level = s.Retries, time.Time{}, 0
		rec.triedBy, rec.reachedSince = "", false
		rec.giveUp(time.Time{}, "")
	}
	if s.Retries == rec.retries {
		if s.Wait > 0 {
			rec.notBefore = later(rec.notBefore, now.Add(min(s.Wait, most)))
		}
		rec.level = max(rec.level, s.Level)
		if rec.role != Owned { // else a replica repeats what the owner has told it before
			rec.triedBy, rec.reachedSince = s.TriedBy, s.ReachedSince
			if s.GivenUp > 0 && u.Drops == rec.digest.Drops && rec.digest.Pending() == 0 { // else it was taken up again, or given up anew
				rec.giveUp(later(rec.endedUntil, now.Add(min(s.GivenUp, most))), s.WhyGivenUp)
			}
		}
	}
	rec.crawlDelay = max(rec.crawlDelay, s.CrawlDelay)
	rec.done, rec.failed, rec.dropped = max(rec.done, s.Done), max(rec.failed, s.Failed), max(rec.dropped, s.Dropped)
	if r := s.Robots; r != nil {
		if until := now.Add(min(r.Valid, maxRobotsAge)); until.After(rec.robotsUntil) {
			rec.robotsUntil = until
			b.set(hostKey(kindRobots, h.host), r.Body)
		}
	}
	if rec.role == Owned {
		b.changed(h.host, func(c *Change) { c.State = true })
	}
}
