package frontier

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"
)

// Export reads the next part of a host: at most maxURLs pending URLs, done URLs and pages together. The part ends with the one that brings
// its memory to maxBytes or more. next is the position of the following part; end says that there is none. The part at the zero Cursor has
// the state of the host. Export reads what is on disk, whatever the role of the host. If the host changes between two parts, they may miss
// or repeat what changed. Together with the Changes since before the first part they are complete, if done wins over pending.
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
	if err != nil {
		return nil, fmt.Errorf("read state of %s: %w", host, err)
	}
	return state, nil
}

// export reads one chunk from one view of the store.
type export struct {
	store *store
	host  string
	room  int // how many URLs may still be read
	bytes int // how much memory they may take
	at    Cursor
	rec   record
	chunk Chunk
	end   bool
}

// pendingCost estimates what a pending URL takes besides its path, in memory and in a message, in bytes.
const pendingCost = 24

func (x *export) full() bool { return x.room <= 0 || x.bytes <= 0 }

// spend counts one URL of some bytes.
func (x *export) spend(bytes int) {
	x.room--
	x.bytes -= bytes
}

// read fills the chunk.
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
	// A URL that ends moves from its block to the record, and from there to a run. Reading in this order misses none.
	if x.at.stage == exportPending {
		for ; x.at.origin < Revisit; x.at = (Cursor{origin: x.at.origin + 1}) {
			if more, err := x.blocks(txn); err != nil || more {
				return err
			}
		}
		x.at = Cursor{stage: exportDone}
	}
	if x.at.stage == exportDone {
		if more, err := x.done(txn); err != nil || more {
			return err
		}
		x.at = Cursor{stage: exportPages}
	}
	return x.pages(txn)
}

// done reads the hashes of done URLs: from runs, then from the record. more means that the chunk is full.
func (x *export) done(txn *tx) (more bool, err error) {
	before := x.at.seq
	more, err = x.each(txn, hostKey(kindSeen, x.host), numberKey(kindSeen, x.host, x.at.seq), func(value []byte) error {
		for ; 8*x.at.index < len(value) && !x.full(); x.at.index++ {
			x.chunk.Done = append(x.chunk.Done, binary.LittleEndian.Uint64(value[8*x.at.index:]))
			x.spend(8)
		}
		if 8*x.at.index >= len(value) {
			x.at.seq, x.at.index, x.at.of = x.at.seq+1, 0, 0
		}
		return nil
	})
	if err != nil || more {
		return more, err
	}
	if x.at.seq != before { // what was in the record is in a run now
		x.at.fresh = 0
	}
	for ; x.at.fresh < len(x.rec.fresh) && !x.full(); x.at.fresh++ {
		x.chunk.Done = append(x.chunk.Done, x.rec.fresh[x.at.fresh])
		x.spend(8)
	}
	return x.at.fresh < len(x.rec.fresh), nil
}

// pages reads the pages that are visited again, in the order of their hashes.
func (x *export) pages(txn *tx) error {
	prefix := hostKey(kindPage, x.host)
	start := prefix
	if x.at.index > 0 {
		start = append(numberKey(kindPage, x.host, x.at.seq), 0)
	}
	for r, err := range x.store.rows(txn, prefix, start, keysOnly) {
		if err != nil {
			return err
		}
		if x.full() {
			return nil
		}
		p, err := readPage(txn, x.host, r.seq())
		if err != nil {
			return err
		}
		x.chunk.Pages = append(x.chunk.Pages, *p)
		x.spend(p.memory())
		x.at.seq, x.at.index = r.seq(), 1
	}
	x.end = true
	return nil
}

// blocks reads pending URLs of one origin. more means that the chunk is full.
func (x *export) blocks(txn *tx) (more bool, err error) {
	depths, err := x.store.depths(txn, x.host)
	if err != nil {
		return false, err
	}
	prefix := append(hostKey(kindPending, x.host), byte(x.at.origin))
	return x.each(txn, prefix, pendingKey(x.host, x.at.origin, x.at.seq), func(value []byte) error {
		entries, err := x.store.codec.open(x.host, value)
		if err != nil {
			return err
		}
		if x.at.of != len(entries) { // the block was rewritten without some done URLs
			x.at.index, x.at.of = 0, len(entries)
		}
		for ; x.at.index < len(entries) && !x.full(); x.at.index++ {
			if x.rec.isDone(x.at.seq, x.at.index) {
				continue
			}
			e := entries[x.at.index]
			if depth, ok := depths[e.hash]; ok {
				e.Depth = depth
			}
			x.chunk.Pending = append(x.chunk.Pending, e.PendingURL)
			x.spend(len(e.Path) + pendingCost)
		}
		if x.at.index >= len(entries) {
			x.at.seq, x.at.index, x.at.of = x.at.seq+1, 0, 0
		}
		return nil
	})
}

// each visits the values below prefix, from start on, while there is room. visit advances x.at.seq when it has used a whole value. more
// means that not all fit.
func (x *export) each(txn *tx, prefix, start []byte, visit func(value []byte) error) (more bool, err error) {
	for r, err := range x.store.rows(txn, prefix, start, inTurn) {
		if err != nil {
			return false, err
		}
		seq := r.seq()
		if seq != x.at.seq { // the value in which the last chunk ended is gone
			x.at.seq, x.at.index, x.at.of = seq, 0, 0
		}
		if x.full() {
			return true, nil
		}
		if err := visit(r.value); err != nil || x.at.seq == seq {
			return true, err
		}
	}
	return false, nil
}

// readState returns the state in a record, with ages and remaining times instead of points in time.
func readState(txn *tx, host string, rec *record, now time.Time) (*HostState, error) {
	s := &HostState{SinceRequest: -1, CrawlDelay: rec.crawlDelay, Level: rec.level,
		Done: rec.done, Failed: rec.failed, Dropped: rec.dropped}
	if !rec.lastRequest.IsZero() {
		s.SinceRequest = now.Sub(rec.lastRequest)
	}
	if !rec.notBefore.IsZero() {
		s.Wait = max(0, rec.notBefore.Sub(now))
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
