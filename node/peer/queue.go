package peer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"proxima/node/bell"
)

// block is what memory holds of a block of links on disk. Times count from the start of the outbox. Once it is queued, the lock of
// the outbox guards what changes.
type block struct {
	peer  string
	seq   uint64
	links int
	bytes int
	at    time.Duration // when it was added; zero if in an earlier life

	born  time.Duration // when its links were first added to any block; negative if in an earlier life, or copied
	other string        // the node whose outbox has these links too, if they are copied
	due   time.Duration // not to be sent before; zero if it waits for company
	value []byte        // what is on disk, if it is kept in memory
	tries int           // answers that did not settle its links
	// bad counts answers that it is unreadable, and peer failures that it may have caused. A bad block is sent alone.
	bad  int
	left bool // it has left its queue
}

func (b *block) key() []byte { return encodeKey(kindQueued, b.peer, b.seq) }

// get reads a block from disk.
func (o *Outbox) get(b *block) ([]byte, error) {
	value, err := o.deps.Shelf.Get(b.key())
	if err != nil {
		err = fmt.Errorf("read outbox: %w", err)
	}
	return value, err
}

// queue is what waits for one peer. The lock of the outbox guards it.
type queue struct {
	peer    string
	running bool      // a goroutine sends it
	wake    bell.Bell // wakes that goroutine
	copy    bell.Bell // wakes the one that copies links

	blocks []*block      // in memory, also those of the message under way
	links  int           // in these
	top    uint64        // the last block read into memory
	beyond int           // links in the blocks after it, which are on disk only
	born   time.Duration // of the oldest of those

	failures int // in a row
	retry    time.Duration
}

func (q *queue) push(b *block) {
	q.blocks = append(q.blocks, b)
	q.links += b.links
	q.top = max(q.top, b.seq)
}

func (q *queue) leave(blocks ...*block) {
	for _, b := range blocks {
		b.left = true
		q.links -= b.links
	}
	q.blocks = slices.DeleteFunc(q.blocks, func(b *block) bool { return b.left })
}

// take returns the blocks of the next message, or says how long to wait for one. If the peer is gone, it waits neither for
// more links nor for the peer.
func (q *queue) take(now time.Duration, cfg Config, gone bool) (blocks []*block, wait time.Duration) {
	if q.retry > now && !gone {
		return nil, q.retry - now
	}
	var bad *block
	links, bytes, enough := 0, 0, gone
	wait = math.MaxInt64
	for _, b := range q.blocks {
		switch {
		case b.due > now:
			wait = min(wait, b.due-now)
			continue
		case b.bad > 0:
			if bad == nil || b.due < bad.due {
				bad = b
			}
			continue
		case b.due > 0:
			enough = true
		default:
			wait = min(wait, b.at+cfg.OutboxWait-now)
		}
		if len(blocks) > 0 && !cfg.fits(links+b.links, bytes+b.bytes) {
			enough = true
			break
		}
		blocks, links, bytes = append(blocks, b), links+b.links, bytes+b.bytes
	}
	switch {
	case bad != nil && (len(blocks) == 0 || q.failures == 0): // it is sent alone, in turn with the others
		return []*block{bad}, 0
	case len(blocks) > 0 && (enough || wait <= 0 || bad != nil || !cfg.fits(links+1, bytes+1)):
		return blocks, 0
	}
	return nil, wait
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

// refill reads blocks that are on disk only, once few are left in memory.
func (o *Outbox) refill(q *queue) error {
	o.mu.Lock()
	top, last, room := q.top, o.written, o.cfg.OutboxLinks-q.links
	few := q.beyond > 0 && q.links <= o.cfg.OutboxLinks/2
	o.mu.Unlock()
	if !few {
		return nil
	}
	var found []*block
	prefix := encodeKey(kindQueued, q.peer, 0)
	err := o.deps.Shelf.Scan(prefix[:len(prefix)-8], func(key, value []byte) error {
		k, err := decodeKey(key)
		switch {
		case err != nil || k.seq <= top:
			return err
		case k.seq > last:
			return errEnough // its writer is about to queue it
		}
		b := &block{peer: k.peer, seq: k.seq, links: claimed(value), bytes: len(value)}
		found = append(found, b)
		if room -= b.links; room <= 0 {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read outbox: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range found {
		b.born = q.born
		q.beyond -= b.links
		q.push(b)
	}
	return nil
}
