package frontier

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
)

// Export reads the next part of a host: pending URLs, done URLs and pages together. The part ends with the block or run that brings it to
// maxURLs URLs, or its memory to maxBytes, because those are read whole. next is the position of the following part; end says that there is
// none. The part at the zero Cursor has the state of the host. Export reads what is on disk, whatever the role of the host. If the host
// changes between two parts, they may miss or repeat what changed. Together with the Changes since before the first part they are complete,
// if done wins over pending.
func (t *transfers) Export(ctx context.Context, host string, at Cursor, maxURLs, maxBytes int) (c Chunk, next Cursor, end bool, err error) {
	if maxURLs < 1 || maxBytes < 1 {
		return c, at, false, fmt.Errorf("export %s: no room for a URL", host)
	}
	x := &export{store: t.store, host: host, room: maxURLs, bytes: maxBytes, at: at}
	if err := t.store.view(ctx, x.read); err != nil {
		return Chunk{}, at, false, fmt.Errorf("export %s: %w", host, err)
	}
	return x.chunk, x.at, x.end, nil
}

// StateOf reads the state of a host from disk; nil if the host has no record.
func (t *transfers) StateOf(ctx context.Context, host string) (*HostState, error) {
	var state *HostState
	err := t.store.view(ctx, func(txn *tx) error {
		rec, known, err := readRecord(txn, host)
		if err == nil && known {
			state, err = readState(txn, host, &rec, time.Now())
		}
		return err
	})
	return state, wrap(err, "read state of %s", host)
}

// export reads one part of a host.
type export struct {
	store  *store
	host   string
	room   int // how many URLs may still be read
	bytes  int // how much memory they may take
	at     Cursor
	rec    record
	depths map[uint64]uint8 // smaller depths of pending URLs
	chunk  Chunk
	end    bool
}

// pendingCost estimates what a pending URL takes besides its path, in memory and in a message, in bytes.
const pendingCost = 24

// full reports whether the part has as much as it may have.
func (x *export) full() bool { return x.room <= 0 || x.bytes <= 0 }

func (x *export) spend(bytes int) {
	x.room--
	x.bytes -= bytes
}

// read reads the part, from the position at on, and moves at behind it.
func (x *export) read(txn *tx) (err error) {
	if x.rec, _, err = readRecord(txn, x.host); err != nil {
		return err
	}
	x.chunk.Drops = x.rec.digest.Drops
	if x.at == (Cursor{}) {
		if x.chunk.State, err = readState(txn, x.host, &x.rec, time.Now()); err != nil {
			return err
		}
	}
	if x.at.stage == exportPending {
		if x.depths, err = x.store.depths(txn, x.host); err != nil {
			return err
		}
	}
	// A URL that ends moves from its block to the record, and from there to a run. Reading in this order misses none.
	kinds := [...]byte{exportPending: kindPending, exportDone: kindSeen, exportPages: kindPage}
	for ; int(x.at.stage) < len(kinds); x.at = (Cursor{stage: x.at.stage + 1}) {
		prefix := hostKey(kinds[x.at.stage], x.host)
		start := append(append(prefix, x.at.after...), 0) // all of these keys go on behind the host
		for r, err := range x.store.rows(txn, prefix, start, inTurn) {
			if err == nil && x.full() {
				return nil
			}
			if err == nil {
				err = x.add(txn, r)
			}
			if err != nil {
				return err
			}
			x.at.after = string(r.key[len(prefix):])
		}
		if x.at.stage == exportDone && len(x.rec.fresh) > 0 {
			if x.full() {
				return nil
			}
			for _, hash := range x.rec.fresh {
				x.done(hash)
			}
		}
	}
	x.end = true
	return nil
}

// add adds what a row holds: a block, a run or a page.
func (x *export) add(txn *tx, r row) error {
	switch x.at.stage {
	case exportPending:
		entries, err := x.store.codec.open(x.host, r.value)
		if err != nil {
			return err
		}
		for i, e := range entries {
			if x.rec.isDone(r.seq(), i) {
				continue
			}
			if depth, ok := x.depths[e.hash]; ok {
				e.Depth = depth
			}
			x.chunk.Pending = append(x.chunk.Pending, e.PendingURL)
			x.spend(len(e.Path) + pendingCost)
		}
	case exportDone:
		for v := r.value; len(v) >= 8; v = v[8:] {
			x.done(binary.LittleEndian.Uint64(v))
		}
	case exportPages:
		p, err := readPage(txn, x.host, r.seq())
		if err != nil {
			return err
		}
		x.chunk.Pages = append(x.chunk.Pages, *p)
		x.spend(p.memory())
	}
	return nil
}

func (x *export) done(hash uint64) {
	x.chunk.Done = append(x.chunk.Done, hash)
	x.spend(8)
}

// readState returns the state in a record, with ages and remaining times instead of points in time.
func readState(txn *tx, host string, rec *record, now time.Time) (*HostState, error) {
	s := &HostState{SinceRequest: -1, CrawlDelay: rec.crawlDelay, Level: rec.level, Retries: rec.retries, Done: rec.done, Failed: rec.failed,
		Dropped: rec.dropped, TriedBy: rec.triedBy, ReachedSince: rec.reachedSince}
	if !rec.lastRequest.IsZero() {
		s.SinceRequest = now.Sub(rec.lastRequest)
	}
	if !rec.notBefore.IsZero() && rec.failures == 0 { // another node may well reach it
		s.Wait = max(0, rec.notBefore.Sub(now))
	}
	if rec.endedUntil.After(now) {
		s.GivenUp, s.WhyGivenUp = rec.endedUntil.Sub(now), rec.endReason
	}
	if until := rec.robotsUntil; until.After(now) {
		body, err := readValue(txn, hostKey(kindRobots, host))
		if err != nil {
			return nil, err
		}
		s.Robots = &RobotsFile{Body: body, Valid: until.Sub(now)}
	}
	return s, nil
}
