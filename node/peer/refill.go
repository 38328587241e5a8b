package peer

import (
	"errors"
	"fmt"
)

// errEnough ends a scan.
var errEnough = errors.New("enough")

// refill takes blocks into memory that are on disk only, when those in memory have become few.
func (o *Outbox) refill(q *queue) error {
	o.mu.Lock()
	top, room := q.top, o.cfg.OutboxLinks-q.links
	few := q.spilled > 0 && q.links <= o.cfg.OutboxLinks/2
	o.mu.Unlock()
	if !few {
		return nil
	}
	var found []block
	prefix := encodeKey(kindQueued, q.peer, 0)
	err := o.deps.Shelf.Scan(prefix[:len(prefix)-8], func(key, value []byte) error {
		k, err := decodeKey(key)
		if err != nil || k.seq <= top {
			return err
		}
		n, _ := blockLinks(value) //nolint:errcheck // one that cannot be read is set aside when it is sent
		found = append(found, block{seq: k.seq, links: int32(n), bytes: int32(len(value))})
		if room -= max(n, 1); room <= 0 {
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
		if _, coming := o.coming[b.seq]; coming {
			q.top = max(q.top, b.seq) // it was written meanwhile: who wrote it puts it into the queue
			continue
		}
		b.born = q.born
		q.spilled--
		q.beyond -= int(b.links)
		q.push(b)
	}
	return nil
}
