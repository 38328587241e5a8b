package frontier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Export reads a part of a host, of maxURLs pending and done URLs together at most, and the position of the next part;
// end says that there is none. A part ends with the URL by which it takes maxBytes of memory or more. It reads what is on disk, whatever the role of the host. Of a host that changes meanwhile
// the parts together may miss or repeat what changed: with the changes since before the first (Deps.Changed) they are
// whole, where done wins over pending. The state of the host is in the part that begins at the zero Cursor.
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

// StateOf reads the state of a host as it is on disk; nil where nothing is known of it.
func (t *transfers) StateOf(ctx context.Context, host string) (*HostState, error) {
	var state *HostState
	err := t.store.view(ctx, func(txn *badger.Txn) error {
		rec, known, err := readRecord(txn, host)
		if err != nil || !known {
			return err
		}
		state, err = readState(txn, host, &rec, time.Now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read state of %s: %w", host, err)
	}
	return state, nil
}

// export is the reading of one chunk from one view of the store.
type export struct {
	store *store
	host  string
	room  int // URLs that may still be read
	bytes int // memory that they may take
	at    Cursor
	rec   record
	chunk Chunk
	end   bool
}

// pendingCost is about what a pending URL takes in memory, and in a message, besides its path.
const pendingCost = 24

// full says that nothing more may be read.
func (x *export) full() bool { return x.room <= 0 || x.bytes <= 0 }

// take makes room for up to n hashes, and says for how many there was.
func (x *export) take(n int) int {
	n = max(0, min(n, x.room, (x.bytes+7)/8))
	x.room -= n
	x.bytes -= 8 * n
	return n
}

func (x *export) read(txn *badger.Txn) (err error) {
	if x.rec, _, err = readRecord(txn, x.host); err != nil {
		return err
	}
	x.chunk.Drops = x.rec.digest.Drops
	if x.at == (Cursor{}) {
		if x.chunk.State, err = readState(txn, x.host, &x.rec, time.Now()); err != nil {
			return err
		}
	}
	if x.at.pages {
		return x.pages(txn)
	}
	if !x.at.seen {
		for ; x.at.origin < Revisit; x.at = (Cursor{origin: x.at.origin + 1}) {
			if more, err := x.blocks(txn); err != nil || more {
				return err
			}
		}
		x.at = Cursor{seen: true}
	}
	// What ends meanwhile moves from the blocks to the record and from there to a run: in this order nothing is missed.
	before := x.at.seq
	if more, err := x.runs(txn); err != nil || more {
		return err
	}
	if x.at.seq != before { // what stood in the record is in a run now
		x.at.fresh = 0
	}
	x.at.fresh = min(x.at.fresh, len(x.rec.fresh))
	n := x.take(len(x.rec.fresh) - x.at.fresh)
	x.chunk.Done = append(x.chunk.Done, x.rec.fresh[x.at.fresh:][:n]...)
	x.at.fresh += n
	if x.at.fresh == len(x.rec.fresh) {
		x.at = Cursor{seen: true, pages: true}
		return x.pages(txn)
	}
	return nil
}

// pages reads the pages that are visited again, in the order of their hashes.
func (x *export) pages(txn *badger.Txn) error {
	prefix := hostKey(kindPage, x.host)
	start := prefix
	if x.at.index > 0 {
		start = append(pageKey(x.host, x.at.seq), 0)
	}
	b := batch{txn: txn}
	x.end = true
	err := eachIn(txn, prefix, start, false, func(item *badger.Item) (bool, error) {
		if x.full() {
			x.end = false
			return false, nil
		}
		hash := binary.BigEndian.Uint64(item.Key()[len(prefix):])
		p, err := b.page(x.host, hash)
		if err != nil || p == nil {
			return false, errors.Join(err, errPage)
		}
		x.chunk.Pages = append(x.chunk.Pages, *p)
		x.room--
		x.bytes -= p.memory()
		x.at.seq, x.at.index = hash, 1
		return true, nil
	})
	return err
}

// blocks reads pending URLs of one origin; more says that the chunk is full.
func (x *export) blocks(txn *badger.Txn) (more bool, err error) {
	depths, err := readDepths(txn, x.host)
	if err != nil {
		return false, err
	}
	prefix := append(hostKey(kindPending, x.host), byte(x.at.origin))
	return x.each(txn, prefix, pendingKey(x.host, x.at.origin, x.at.seq), func(seq uint64, value []byte) error {
		entries, err := x.store.codec.open(x.host, value)
		if err != nil {
			return err
		}
		if x.at.of != len(entries) { // it was written anew, without some that are done
			x.at.index, x.at.of = 0, len(entries)
		}
		done := x.rec.find(seq)
		for ; x.at.index < len(entries) && !x.full(); x.at.index++ {
			if done != nil && done.has(x.at.index) {
				continue
			}
			e := entries[x.at.index]
			if depth, ok := depths[e.hash]; ok {
				e.depth = depth
			}
			x.chunk.Pending = append(x.chunk.Pending, e.pendingURL())
			x.room--
			x.bytes -= len(e.path) + pendingCost
		}
		if x.at.index >= len(entries) {
			x.at.seq, x.at.index, x.at.of = seq+1, 0, 0
		}
		return nil
	})
}

// runs reads the seen set but for what stands in the record.
func (x *export) runs(txn *badger.Txn) (more bool, err error) {
	return x.each(txn, hostKey(kindSeen, x.host), seenKey(x.host, x.at.seq), func(seq uint64, value []byte) error {
		n := x.take(len(value)/8 - x.at.index)
		for range n {
			x.chunk.Done = append(x.chunk.Done, binary.LittleEndian.Uint64(value[8*x.at.index:]))
			x.at.index++
		}
		if 8*x.at.index >= len(value) {
			x.at.seq, x.at.index, x.at.of = seq+1, 0, 0
		}
		return nil
	})
}

// each visits the values below prefix from start on while there is room; more says that there was none for all.
func (x *export) each(txn *badger.Txn, prefix, start []byte, visit func(seq uint64, value []byte) error) (more bool, err error) {
	err = eachIn(txn, prefix, start, false, func(item *badger.Item) (bool, error) {
		key := item.Key()
		seq := binary.BigEndian.Uint64(key[len(key)-8:])
		if seq != x.at.seq { // the one that the last chunk ended in is gone
			x.at.seq, x.at.index, x.at.of = seq, 0, 0
		}
		if more = x.full(); more {
			return false, nil
		}
		value, err := item.ValueCopy(nil)
		if err == nil {
			err = visit(seq, value)
		}
		more = x.at.seq == seq // it did not fit
		return !more, err
	})
	return more, err
}

// readState makes ages and remaining times of a record.
func readState(txn *badger.Txn, host string, rec *record, now time.Time) (*HostState, error) {
	s := &HostState{SinceRequest: -1, Wait: max(0, rec.notBefore.Sub(now)), CrawlDelay: rec.crawlDelay, Level: rec.level,
		Done: rec.done, Failed: rec.failed, Dropped: rec.dropped}
	if !rec.lastRequest.IsZero() {
		s.SinceRequest = max(0, now.Sub(rec.lastRequest))
	}
	if rec.notBefore.IsZero() {
		s.Wait = 0
	}
	if until := rec.robotsUntil; until.After(now) {
		body, err := readValue(txn, robotsKey(host))
		if err != nil {
			return nil, err
		}
		s.Robots = &RobotsFile{Body: body, Valid: until.Sub(now)}
	}
	return s, nil
}
