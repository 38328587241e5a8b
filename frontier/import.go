package frontier

import (
	"context"
	"fmt"
	"time"
)

// Import unites a chunk with what is here of its host, and says how many pending URLs were new; it is on disk on return.
// Unknown pending URLs become pending, unless the host was given up here since; where it was given up there since, those
// pending here are forgotten first. Hashes that are done become done, also where they are pending here, and stay done
// whatever comes later; of the two states the stricter politeness and the younger robots.txt win, and of two records of a page that of
// the later visit. Importing twice changes
// nothing. With too little disk left it is ErrDiskFull, and who sends the host keeps it. Config.MaxHostURLs does not
// apply. A host that nothing is known of is a replica from then on.
//
// For a host owned, what is done elsewhere and the state are taken over while none of its tasks is out; those that
// are out are waited for, bounded by the context.
func (t *transfers) Import(ctx context.Context, host string, c Chunk, origin Origin) (added int, err error) {
	if origin >= origins {
		return 0, fmt.Errorf("import %s: no origin %d", host, origin)
	}
	t.mu.Lock()
	full := t.full != ""
	t.mu.Unlock()
	if full && len(c.Pending)+len(c.Done)+len(c.Pages) > 0 {
		return 0, fmt.Errorf("import %s: %w", host, ErrDiskFull)
	}
	if c.State != nil || len(c.Done)+len(c.Pages) > 0 || c.Drops > 0 {
		if err := t.freeze(ctx, host); err != nil {
			return 0, fmt.Errorf("import %s: %w", host, err)
		}
		defer t.thaw(host)
	}
	state := c.State
	if c.Drops > 0 { // what is forgotten has to be so on disk before the same URLs can come again
		if err := t.unite(ctx, &union{host: host, origin: origin, drops: c.Drops}); err != nil {
			return 0, err
		}
	}
	for first := true; first || len(c.Pending)+len(c.Done)+len(c.Pages) > 0; first = false {
		// What is done comes first: a URL that is in both is done.
		u := &union{host: host, origin: origin, state: state, drops: c.Drops}
		size := 0
		if state != nil && state.Robots != nil {
			size = len(state.Robots.Body)
		}
		state = nil
		n := min(len(c.Done), maxRequestHashes)
		u.done, c.Done = c.Done[:n], c.Done[n:]
		size += 8 * n
		for n == 0 && len(c.Pages) > 0 && len(u.pages) < maxRequestURLs && size < maxRequestBytes {
			u.pages = append(u.pages, c.Pages[0])
			size += 4*cost(host, "") + c.Pages[0].memory()
			c.Pages = c.Pages[1:]
		}
		for len(c.Done)+len(c.Pages) == 0 && u.pages == nil && len(c.Pending) > 0 && len(u.entries) < maxRequestURLs && size < maxRequestBytes {
			u.entries = append(u.entries, c.Pending[0].entryOf(host))
			size += len(c.Pending[0].Path)
			c.Pending = c.Pending[1:]
		}
		if err := t.unite(ctx, u); err != nil {
			return added, err
		}
		added += u.added
	}
	return added, nil
}

func (t *transfers) unite(ctx context.Context, u *union) error {
	alone := u.state != nil || u.pages != nil || u.drops > 0 && u.entries == nil && u.done == nil
	if err := t.ledger.change(ctx, alone, func(b *batch) error { return t.ledger.decideUnion(b, u) }); err != nil {
		return fmt.Errorf("import %s: %w", u.host, err)
	}
	return nil
}

// Remove forgets everything about a host, whatever its role: URLs that come later are new, and the host is Owned
// again by the first. It waits until no task of the host is out, bounded by the context. After a crash in between the host
// keeps its role, and Remove can be called again.
func (t *transfers) Remove(ctx context.Context, host string) error {
	if err := t.freeze(ctx, host); err != nil {
		return fmt.Errorf("remove %s: %w", host, err)
	}
	defer t.thaw(host)
	if err := t.ledger.change(ctx, true, func(b *batch) error { return t.ledger.decideRemove(b, host) }); err != nil {
		return fmt.Errorf("remove %s: %w", host, err)
	}
	return nil
}

// DigestOf sums up the URLs of a host. The first time all of them are read; from then on the digest is kept.
func (t *transfers) DigestOf(ctx context.Context, host string) (Digest, error) {
	var d Digest
	l := t.ledger
	err := l.change(ctx, false, func(b *batch) error {
		h, err := l.entry(b, host)
		if err != nil {
			return err
		}
		if known, err := l.known(b, host, h); err != nil || !known {
			return err // asking about a host leaves nothing behind
		}
		err = l.track(b, host, h)
		d = h.rec.digest
		return err
	})
	if err != nil {
		return Digest{}, fmt.Errorf("digest %s: %w", host, err)
	}
	return d, nil
}

// union is what a chunk, or a part of it, adds to a host.
type union struct {
	host    string
	origin  Origin
	entries []entry
	done    []uint64
	state   *HostState
	drops   uint64
	pages   []PageRecord
	added   int // answer
}

// maxRequestHashes bounds the done URLs of a request to the ledger.
const maxRequestHashes = 4096

// decideUnion unites a host with what another node has of it.
func (l *ledger) decideUnion(b *batch, u *union) error {
	h, err := l.entry(b, u.host)
	if err != nil {
		return err
	}
	known, err := l.known(b, u.host, h)
	if err != nil {
		return err
	}
	if !known {
		if err := l.decideRole(b, u.host, Replica); err != nil {
			return err
		}
	}
	if err := l.track(b, u.host, h); err != nil {
		return err
	}
	b.touched[u.host] = h
	switch drops := &h.rec.digest.Drops; {
	case u.drops > *drops:
		if _, err := l.decideDrop(b, h, "given up by its owner", time.Time{}); err != nil {
			return err
		}
		*drops = u.drops
	case u.drops < *drops:
		u.entries = nil // they were given up
	}
	if len(u.entries) > 0 { // accepted after the last giving up: the host lives again
		h.rec.endedUntil, h.rec.endReason = time.Time{}, ""
	}
	if u.state != nil {
		if err := l.unite(b, h, u.state, time.Now()); err != nil {
			return err
		}
	}
	ended, err := l.decidePages(b, h, u.pages)
	if err != nil {
		return err
	}
	for _, hash := range u.done {
		is, err := l.decideDone(b, h, hash)
		if err != nil {
			return err
		}
		if is {
			ended++
		}
	}
	for _, e := range u.entries {
		a := addition{host: u.host, origin: u.origin, entry: e}
		set, state, known, err := l.lookup(b, u.host, e.hash)
		switch {
		case err != nil:
			return err
		case !known:
			l.seen.count(u.host, 1)
			l.accept(b, a, set, h, false)
			u.added++
		case l.cfg.TrackDepth && state.deeper(e.depth):
			if err := l.lower(b, set, a); err != nil {
				return err
			}
		}
	}
	for _, e := range u.entries {
		b.bytes += cost(u.host, e.path)
	}
	b.bytes += 8 * len(u.done)
	b.urls += len(u.entries)
	l.count.moved(h.rec.role, u.added, ended)
	return nil
}

// known says that URLs of a host without a record are on disk or on their way there.
func (l *ledger) known(b *batch, host string, h *hostEntry) (bool, error) {
	if h.stored || b.touched[host] != nil {
		return true, nil
	}
	if l.seen.count(host, 0) == 0 {
		return false, nil
	}
	set, err := l.exact(b, host)
	return err == nil && len(set.hashes) > 0, err
}

// decideDone notes that a URL is done elsewhere; it reports whether it was pending here. Its block stays as it is until
// the host is taken up (decideReconcile): to find it would take a look at all of them.
func (l *ledger) decideDone(b *batch, h *hostEntry, hash uint64) (ended bool, err error) {
	set, state, known, err := l.lookup(b, h.host, hash)
	if err != nil || known && state == isDone {
		return false, err
	}
	rec := &h.rec
	if known {
		rec.loose = true
	} else {
		l.seen.count(h.host, 1)
		rec.digest.accept(hash)
	}
	rec.digest.end(hash)
	rec.fresh = append(rec.fresh, hash)
	l.seen.remember(hash)
	if set != nil {
		l.sets.add(set, hash, isDone)
	}
	if rec.role == Owned {
		b.changed(h.host, func(c *Change) { c.Done = append(c.Done, hash) })
	}
	return known, nil
}

// unite makes the politeness of a host the stricter of two, and its robots.txt the one that holds longer.
func (l *ledger) unite(b *batch, h *hostEntry, s *HostState, now time.Time) error {
	rec := &h.rec
	if s.SinceRequest >= 0 {
		rec.lastRequest = later(rec.lastRequest, now.Add(-s.SinceRequest))
	}
	if s.Wait > 0 {
		rec.notBefore = later(rec.notBefore, now.Add(min(s.Wait, l.longest)))
	}
	rec.crawlDelay, rec.level = max(rec.crawlDelay, s.CrawlDelay), max(rec.level, s.Level)
	rec.done, rec.failed, rec.dropped = max(rec.done, s.Done), max(rec.failed, s.Failed), max(rec.dropped, s.Dropped)
	if r := s.Robots; r != nil {
		if until := now.Add(min(r.Valid, maxRobotsAge)); until.After(rec.robotsUntil) {
			rec.robotsUntil = until
			if err := b.txn.Set(robotsKey(h.host), r.Body); err != nil {
				return fmt.Errorf("write robots.txt of %s: %w", h.host, err)
			}
		}
	}
	if rec.role == Owned {
		b.changed(h.host, func(c *Change) { c.State = true })
	}
	return nil
}
