package peer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/node/bell"
	"proxima/node/wire"
)

// OutboxDeps is what an outbox works with. Callbacks must be quick. Several goroutines may call them at once; the outbox
// holds no lock meanwhile.
type OutboxDeps struct {
	// Shelf keeps the links.
	Shelf Shelf
	// Deliver sends a message to a peer (Client.Deliver), or to this node itself where Route says so.
	Deliver func(ctx context.Context, to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error)
	// Route returns the node that a link belongs to now, "" while nobody knows. It is asked for links that moved and for
	// those of peers that are gone.
	Route func(*wire.Link) (to string)
	// Moved gets the record by which a peer names the next owner of a host, before Route is asked. One without an epoch says that a peer, its
	// Home, does not know the host, or does not answer.
	Moved func(*wire.Record)
	// Custodian names a live peer, none of those given, to keep copies of links that are not answered soon; ""
	// for none.
	Custodian func(not ...string) string
	// Gone reports whether a peer is gone for good. It is asked before each message, and again after Review.
	Gone func(id string) bool
	// Refused is told of each link that its receiver refuses for good.
	Refused func(to string, link *wire.Link, reason string)
	// Aside is told of links set aside because their receiver, or this node, cannot read them.
	Aside func(to string, links int, err error)
}

// Outbox is the durable list of links that peers have not answered yet, one queue per peer. It sends links at least once,
// in no order, until they are answered. It is safe for concurrent use.
//
// Adding never waits for sending, so a peer that takes no links holds nobody up. Memory per queue is bounded; the rest of
// a long queue is on disk only, and only the disk bounds it.
type Outbox struct {
	cfg  Config
	deps OutboxDeps
	// start is the origin of all times in the queues.
	start time.Time
	// wake tells Run that a queue needs a sender.
	wake bell.Bell
	// turn is held by the caller that writes.
	turn chan struct{}
	// keeping is held by the call of Keep that writes: what one of them has put into held is on disk before the next one looks.
	keeping chan struct{}

	// mu guards what follows.
	mu     sync.Mutex
	seq    uint64 // of the block added last
	queues map[string]*queue
	// urged is just after the last call of Hurry.
	urged   time.Duration
	writes  []*write // wait to be written
	written uint64   // the last block that was written and queued
	kept    int      // bytes of block values that are also in memory
	held    held     // links that another node is not to have kept here twice
	stats   OutboxStats
}

// OutboxStats counts final answers to links since the start, and the links set aside on disk.
type OutboxStats struct{ Accepted, Duplicate, Refused, SetAside uint64 }

// NewOutbox loads what earlier lives of the node left. It sends nothing before Run.
func NewOutbox(cfg Config, deps OutboxDeps) (*Outbox, error) {
	o := &Outbox{cfg: cfg, deps: deps, start: time.Now(), wake: bell.New(), turn: make(chan struct{}, 1), keeping: make(chan struct{}, 1),
		queues: map[string]*queue{}, held: held{}}
	err := deps.Shelf.Scan([]byte{keyVersion}, func(key, value []byte) error {
		k, err := decodeKey(key)
		if err != nil {
			return err
		}
		o.seq = max(o.seq, k.seq)
		if k.kind == kindAside {
			o.stats.SetAside += uint64(claimed(value))
			return nil
		}
		if len(o.held) < maxHeld {
			links, _ := decodeBlock(value) //nolint:errcheck // an unreadable block is set aside when it is sent
			o.held.add(links)
		}
		o.push(&block{peer: k.peer, seq: k.seq, links: claimed(value), bytes: len(value), born: -1})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	o.written = o.seq
	return o, nil
}

// Add keeps links, keyed by the peer that they are for: they are on disk when it returns. It never refuses for lack of
// room. After an error some links may have been added.
func (o *Outbox) Add(ctx context.Context, links map[string][]*wire.Link) error {
	return o.add(ctx, links, block{born: o.now()})
}

func (o *Outbox) add(ctx context.Context, links map[string][]*wire.Link, like block) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("add to outbox: %w", err)
	}
	var all write
	for to, links := range links {
		if err := checkID(to); err != nil {
			return fmt.Errorf("add to outbox: %w", err)
		}
		if err := o.pack(&all, to, links, like); err != nil {
			return err
		}
	}
	var each []*write // no two need to be in one batch
	for i := range all.adds {
		each = append(each, &write{adds: all.adds[i : i+1]})
	}
	return o.write(each...)
}

// maxKept bounds the bytes of blocks kept in memory until they are sent, so that most need not be read back.
const maxKept = 4 << 20

// push queues a block that is on disk. It is called with mu held.
func (o *Outbox) push(b *block) {
	q := o.queues[b.peer]
	if q == nil {
		q = &queue{peer: b.peer, wake: bell.New(), copy: bell.New()}
		o.queues[b.peer] = q
	}
	if q.links >= o.cfg.OutboxLinks || q.beyond > 0 {
		if q.beyond == 0 || b.born < q.born {
			q.born = min(b.born, o.now())
		}
		q.beyond += b.links
		return // refill reads it later
	}
	if o.kept += len(b.value); o.kept > maxKept {
		o.kept -= len(b.value)
		b.value = nil
	}
	q.push(b)
	if q.running {
		q.wake.Ring()
	} else {
		o.wake.Ring()
	}
}

// Pending returns the number of links not answered yet.
func (o *Outbox) Pending() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queues {
		n += q.links + q.beyond
	}
	return n
}

// PendingOf returns the number of links that one peer has not answered yet.
func (o *Outbox) PendingOf(id string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q := o.queues[id]; q != nil {
		return q.links + q.beyond
	}
	return 0
}

// Settled reports whether all links added up to a time, including those of earlier lives, have been answered or copied.
func (o *Outbox) Settled(until time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	early := func(born time.Duration) bool { return born <= until.Sub(o.start) }
	for _, q := range o.queues {
		if q.beyond > 0 && early(q.born) || slices.ContainsFunc(q.blocks, func(b *block) bool { return early(b.born) }) {
			return false
		}
	}
	return true
}

// Hurry has what was added up to now copied at once, without waiting for CopyAfter.
func (o *Outbox) Hurry() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.urged = o.now() + 1
	for _, q := range o.queues {
		q.copy.Ring()
	}
}

// Stats counts what became of links.
func (o *Outbox) Stats() OutboxStats {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stats
}

// Review makes the outbox try all peers at once and ask Gone and Route again. Call it when members or records have changed.
func (o *Outbox) Review() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queues {
		q.retry = 0
		for _, b := range q.blocks {
			b.due = min(b.due, 1)
		}
		q.wake.Ring()
	}
}

// Run, called once, sends until ctx ends; links not answered by then wait for the next start. Its error comes from the shelf: no link is
// lost, but only a new outbox finds them all.
func (o *Outbox) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for ctx.Err() == nil {
		o.mu.Lock()
		for _, q := range o.queues {
			if !q.running {
				q.running = true
				group.Go(func() error {
					ctx, cancel := context.WithCancel(ctx)
					defer cancel()
					group.Go(func() error { return o.copyOut(ctx, q) })
					return o.serve(ctx, q)
				})
			}
		}
		o.mu.Unlock()
		select {
		case <-o.wake:
		case <-ctx.Done():
		}
	}
	return group.Wait()
}

func (o *Outbox) now() time.Duration { return time.Since(o.start) }

const (
	firstBackoff = 500 * time.Millisecond
	// laterBackoff is the longest pause after an answer: the peer lives, and the end of a crawl waits for its links.
	laterBackoff = 5 * time.Second
)

func (o *Outbox) backoff(n int, most time.Duration) time.Duration {
	return bell.Backoff(n, firstBackoff, min(most, o.cfg.OutboxBackoff))
}

// errFault is a peer that fails over a message.
var errFault = errors.New("fault of the peer")

// Shelf is the outbox's own space on disk: ordered keys with values. It is safe for concurrent use. It keeps no slice that
// it is given; what it passes to visit is valid until visit returns.
type Shelf interface {
	// Get returns nil for a key that is not there.
	Get(key []byte) ([]byte, error)
	// Scan visits the keys with a prefix in order. If visit returns an error, Scan stops and returns it.
	Scan(prefix []byte, visit func(key, value []byte) error) error
	// Batch makes all changes that fill asks for, or none; durable when it returns. With the default configuration the
	// outbox asks for at most 1 MiB and some 2,000 keys at a time.
	Batch(fill func(set func(key, value []byte), del func(key []byte))) error
}
