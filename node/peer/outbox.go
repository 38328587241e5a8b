package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"proxima/node/wire"
)

// OutboxDeps is what an outbox works with. Callbacks must be quick, and may be called by several goroutines at once;
// none is called under a lock of the outbox.
type OutboxDeps struct {
	// Shelf keeps the links.
	Shelf Shelf
	// Deliver sends a message to a peer: Client.Deliver. It is called for this node's own id too, where Route names it.
	Deliver func(ctx context.Context, to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error)
	// Route says which node a link belongs to now, "" where nobody knows yet. It is asked for links that moved and for
	// those of peers that are gone.
	Route func(*wire.Link) (to string)
	// Moved, if set, takes the record by which a peer refers to the next owner, before Route is asked.
	Moved func(*wire.Record)
	// Custodian, if set, names a peer that keeps copies of links that are not answered soon: one that is there and none of
	// those; "" for nobody.
	Custodian func(not ...string) string
	// Gone, if set, says that a peer is gone for good. It is asked before each message; Review makes it be asked again.
	Gone func(id string) bool
	// Refused, if set, is told of each link that its receiver will not have.
	Refused func(to string, link *wire.Link, reason string)
	// Aside, if set, is told of links that were set aside: their receiver, or this node, cannot read them.
	Aside func(to string, links int, err error)
}

// Outbox is the durable list of links that peers have not answered yet, a queue for each. Links are sent at least once,
// in no order, until they are answered. It is safe for concurrent use.
//
// Adding never waits for sending: a peer that takes no links holds nobody up. What is in memory of a queue is bounded; the
// rest of a long one lies on disk only, and the disk is what bounds it.
type Outbox struct {
	cfg  Config
	deps OutboxDeps
	// start is the origin of the times in the queues.
	start time.Time
	// kick tells Run that a queue has to be looked at.
	kick chan struct{}

	// mu guards what follows.
	mu     sync.Mutex
	seq    uint64 // of the block that was added last
	queues map[string]*queue
	links  int
	// born counts blocks by when their links were added first, in steps of bornStep.
	born map[time.Duration]int
	// writes are blocks to be written; while writing, who adds some leaves them to who writes.
	writes  []*write
	writing bool
	kept    int                 // bytes of blocks that are in memory, too
	coming  map[uint64]struct{} // blocks that have a number and are not in a queue yet
	stats   OutboxStats
}

// OutboxStats counts links since the start, but for SetAside, which counts what lies on disk.
type OutboxStats struct {
	Messages  uint64 `json:"messages"` // answered
	Failed    uint64 `json:"failed"`   // messages that were not
	Accepted  uint64 `json:"accepted"`
	Duplicate uint64 `json:"duplicate"`
	Refused   uint64 `json:"refused"`
	Moved     uint64 `json:"moved"`    // answered so
	Later     uint64 `json:"later"`    // answered so, each time
	Rerouted  uint64 `json:"rerouted"` // because their peer was gone
	SetAside  uint64 `json:"set_aside"`
}

// NewOutbox finds what earlier lives have left. Nothing is sent before Run.
func NewOutbox(cfg Config, deps OutboxDeps) (*Outbox, error) {
	o := &Outbox{cfg: cfg, deps: deps, start: time.Now(), kick: make(chan struct{}, 1), queues: map[string]*queue{}, born: map[time.Duration]int{},
		coming: map[uint64]struct{}{}}
	err := deps.Shelf.Scan([]byte{keyVersion}, func(key, value []byte) error {
		k, err := decodeKey(key)
		if err != nil {
			return err
		}
		// A value that cannot be read stays for when it is sent: it is set aside then.
		n, _ := blockLinks(value) //nolint:errcheck // see above
		o.seq = max(o.seq, k.seq)
		if k.kind == kindAside {
			o.stats.SetAside += uint64(n)
			return nil
		}
		o.push(stored{peer: k.peer, block: block{seq: k.seq, links: int32(n), bytes: int32(len(value)), born: -bornStep}})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	return o, nil
}

// Add keeps links, by the peers that they are for: they are on disk when it returns. It never refuses for lack of room. Links
// that could not be sent in any message (not UTF-8) go to Refused. After an error some may have been added.
func (o *Outbox) Add(ctx context.Context, links map[string][]*wire.Link) error {
	return o.add(ctx, links, block{born: o.now().Truncate(bornStep)})
}

func (o *Outbox) add(ctx context.Context, links map[string][]*wire.Link, like block) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("add to outbox: %w", err)
	}
	w := &write{like: like}
	for to, links := range links {
		if err := checkID(to); err != nil {
			return fmt.Errorf("add to outbox: %w", err)
		}
		for links = o.sendable(to, links); len(links) > 0; {
			n := fit(links, o.cfg.OutboxMessageLinks, o.cfg.OutboxMessageKiB<<10)
			body, err := encodeLinks(nil, links[:n])
			if err != nil {
				return fmt.Errorf("add to outbox of %s: %w", to, err)
			}
			if w.keys > 0 && (w.keys >= maxBatch || w.bytes+len(body) > maxBatchBytes) {
				if err := o.write(w); err != nil {
					return err
				}
				w = &write{like: like}
			}
			w.adds = append(w.adds, addition{to, n, body})
			w.keys, w.bytes = w.keys+1, w.bytes+len(body)
			links = links[n:]
		}
	}
	if w.keys == 0 {
		return nil
	}
	return o.write(w)
}

// sendable leaves out links that protobuf does not carry.
func (o *Outbox) sendable(to string, links []*wire.Link) []*wire.Link {
	good := make([]*wire.Link, 0, len(links))
	for _, l := range links {
		switch {
		case utf8.ValidString(l.GetUrl()):
			good = append(good, l)
		default:
			o.count(func(s *OutboxStats) { s.Refused++ })
			if o.deps.Refused != nil {
				o.deps.Refused(to, l, "URL is not UTF-8")
			}
		}
	}
	return good
}

// stored is a block as it goes to the shelf, and its place in the index.
type stored struct {
	peer  string
	block block
	value []byte
}

// pack adds blocks of links to a write, each small enough for a message and like another in all else.
func (o *Outbox) pack(w *write, to string, links []*wire.Link, like block) error {
	from := len(w.set)
	for len(links) > 0 {
		n := fit(links, o.cfg.OutboxMessageLinks, o.cfg.OutboxMessageKiB<<10)
		value, err := encodeBlock(links[:n])
		if err != nil {
			return fmt.Errorf("add to outbox of %s: %w", to, err)
		}
		like.links, like.bytes, like.at = int32(n), int32(len(value)), o.now()
		w.set = append(w.set, stored{to, like, value})
		w.keys, w.bytes = w.keys+1, w.bytes+len(value)
		links = links[n:]
	}
	o.number(w.set[from:])
	return nil
}

// number gives blocks their numbers.
func (o *Outbox) number(set []stored) []stored {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range set {
		o.seq++
		set[i].block.seq = o.seq
		o.coming[o.seq] = struct{}{}
	}
	return set
}

// maxKept bounds the bytes of blocks that are kept in memory until they are sent, so that most need not be read again.
const maxKept = 4 << 20

// push queues a block that is on disk. It is called under the lock.
func (o *Outbox) push(s stored) {
	q := o.queues[s.peer]
	if q == nil {
		q = newQueue(s.peer)
		o.queues[s.peer] = q
	}
	o.links += int(s.block.links)
	if (q.links >= o.cfg.OutboxLinks || q.spilled > 0) && s.block.seq > q.top {
		if q.spilled++; q.spilled == 1 {
			q.born = min(s.block.born, o.now()) // all that are on disk only count as old as the first of them
		}
		o.born[q.born]++
		q.beyond += int(s.block.links)
		return // its sender comes to it after the others
	}
	if o.kept+len(s.value) <= maxKept {
		o.kept += len(s.value)
		s.block.value = s.value
	}
	q.push(s.block)
	o.born[s.block.born]++
	switch {
	case !q.running:
		poke(o.kick)
	case len(q.ready) <= 1 || s.block.due > 0 || s.block.bad > 0 || q.readyLinks >= o.cfg.OutboxMessageLinks || q.readyBytes >= o.cfg.OutboxMessageKiB<<10:
		poke(q.wake) // else its sender knows already how long to wait
	}
}

// bornStep keeps the ages of links few.
const bornStep = 100 * time.Millisecond

// answered takes links that are no longer in a queue out of its count. It is called under the lock.
func (o *Outbox) answered(q *queue, links int, blocks []block) {
	for _, b := range blocks {
		o.dropBorn(b.born)
	}
	q.links -= links
	o.links -= links
}

// dropBorn takes a block out of the count of those that were born at a time. It is called under the lock.
func (o *Outbox) dropBorn(born time.Duration) {
	if o.born[born]--; o.born[born] <= 0 {
		delete(o.born, born)
	}
}

// Pending is the number of links that are not answered yet.
func (o *Outbox) Pending() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.links
}

// PendingOf is the number of links that one peer has not answered yet.
func (o *Outbox) PendingOf(id string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q := o.queues[id]; q != nil {
		return q.links + q.beyond
	}
	return 0
}

// Settled says that all links that were added up to a time have been answered, or copied, those of earlier lives among them.
func (o *Outbox) Settled(until time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for born := range o.born {
		if born <= until.Sub(o.start) {
			return false
		}
	}
	return true
}

// Stats counts what became of links.
func (o *Outbox) Stats() OutboxStats {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stats
}

// Review tries all peers again now, and asks Gone and Route again: members or records have changed.
func (o *Outbox) Review() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queues {
		q.retry = 0
		q.hurry()
		poke(q.wake)
	}
}

// Run sends until ctx ends; links that are not answered by then wait for the next start. An error is that of the shelf:
// no link is lost, but the outbox must be made anew to find them all.
func (o *Outbox) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	defer o.stop()
	for {
		for _, q := range o.idle() {
			group.Go(func() error { return o.serve(ctx, q) })
		}
		select {
		case <-o.kick:
		case <-ctx.Done():
			return group.Wait()
		}
	}
}

// idle returns the queues that have links and nobody to send them, and marks them as served.
func (o *Outbox) idle() []*queue {
	o.mu.Lock()
	defer o.mu.Unlock()
	var idle []*queue
	for _, q := range o.queues {
		if !q.running {
			q.running = true
			idle = append(idle, q)
		}
	}
	return idle
}

// stop leaves the queues for another Run.
func (o *Outbox) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queues {
		q.running = false
	}
}

func (o *Outbox) now() time.Duration { return time.Since(o.start) }

func (o *Outbox) count(f func(*OutboxStats)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(&o.stats)
}

// backoff is the pause after the n-th failure in a row, from 1: doubling, bounded, and half of it drawn by lot, so that
// nodes do not come back together.
func (o *Outbox) backoff(n int) time.Duration {
	d := o.cfg.OutboxBackoff
	if n < 16 {
		d = min(d, firstBackoff<<(max(n, 1)-1))
	}
	return d/2 + rand.N(d/2+1)
}

const firstBackoff = 500 * time.Millisecond

// poke wakes whoever waits, or will wait, for a channel with room for one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

var (
	// errShelf is a failure of this node's own disk, not of a peer.
	errShelf = errors.New("disk")
	// errFault is a peer that broke down over a message.
	errFault   = errors.New("fault of the peer")
	errAnswers = fmt.Errorf("%w: it has not answered every link", errFault)
)

// Shelf is a room on disk of the outbox's own: ordered keys with values. It is safe for concurrent use. It does not keep
// what it is given, and what it gives to visit is valid until visit returns.
type Shelf interface {
	// Get returns nil for a key that is not there.
	Get(key []byte) ([]byte, error)
	// Put and Delete are durable when they return.
	Put(key, value []byte) error
	Delete(key []byte) error
	// Scan visits the keys with a prefix in order, until visit returns an error, which it returns.
	Scan(prefix []byte, visit func(key, value []byte) error) error
	// Batch makes all changes that fill asks for, or none; durable when it returns. The outbox asks for no more than 1 MiB
	// and some 2,000 keys at a time with the default configuration.
	Batch(fill func(set func(key, value []byte), del func(key []byte))) error
}
