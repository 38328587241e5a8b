package frontier

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// ErrClosed is returned by calls to a frontier whose Run has ended.
var ErrClosed = errors.New("the frontier is closed")

// ledger is the durable half of the frontier. Its goroutine (run) owns all its state. It carries out the requests that are waiting,
// builds one transaction for them, and hands it to a second goroutine (commit). That one writes the transactions in order, tells the
// workbench, and only then answers the requests.
type ledger struct {
	cfg      Config
	mostURLs atomic.Int64 // Config.MaxHostURLs in force
	store    *store
	seen     *seen
	sets     *sets
	hosts    *simplelru.LRU[string, *hostEntry] // those used last
	marked   marks                              // hosts that are not owned or were given up, and hosts whose digest is kept
	seq      uint64
	requests chan *request
	commits  chan *batch
	closed   chan struct{}
	// tell passes on the news of a committed batch. The batches come in order.
	tell     func([]news)
	site     func(host string) *Site
	feed     *feed // nil unless Config.Shared
	count    counters
	longest  atomic.Int64  // bounds the waits of hosts that other nodes send, in nanoseconds
	endedFor time.Duration // how long a host that was given up is left alone
	late     []string      // hosts with pages that are due later than Recrawl.Max allows, as recover found them
	// failure is the error of the first commit that failed. From then on every request fails with it, and with ErrClosed after run.
	failure atomic.Pointer[error]
}

// request is a change that a caller wants written, and its answer.
type request struct {
	joins joins
	op    func(b *batch) error // puts the change into a batch; the ledger's goroutine calls it
	// claimed is set once: by the ledger before it carries out the request, or by a caller that withdraws it before that.
	claimed atomic.Bool
	err     error
	done    chan struct{}
}

// joins says how a request shares a transaction with others.
type joins uint8

const (
	together joins = iota
	alone          // no other request joins: it reads the store, so everything before it must be on disk
	readOnly       // the request writes nothing, so it does not wait while the disk is full
)

// addition is a link in the form that the ledger takes.
type addition struct {
	host   string
	origin Origin
	entry  entry
}

// blockRef names a block on disk.
type blockRef struct {
	seq    uint64
	n      int // the URLs in it
	origin Origin
}

// block is a block of pending URLs with its place on disk.
type block struct {
	ref     *blockRef
	entries []entry
}

// news is what a batch changes on the workbench. It is called with the frontier's lock held when the batch is on disk. By then the
// ledger's goroutine may have gone on, so it must not read what that goroutine changes.
type news func(t *transfers, now time.Time)

// batch is one transaction and everything that waits for it.
type batch struct {
	*tx
	added    map[queueKey]*newURLs
	order    []*newURLs // the same in the order in which they came
	touched  map[string]*hostEntry
	requests []*request
	news     []news
	// changes are what the batch does to owned hosts; nil unless Config.Shared is set.
	changes map[string]*Change
	urls    int
	bytes   int // as the store counts them, without the records of the hosts in touched
	settled chan struct{}
}

// queueKey names a queue of a host.
type queueKey struct {
	host   string
	origin Origin
}

// newURLs are the URLs that a batch adds to a queue of a host.
type newURLs struct {
	queueKey
	entries []entry
	first   bool // the host had no URL before, and has no record
	away    bool // the host is not owned
}

// newLedger makes a ledger. recover must fill it before run. tell gets the news of each batch that is on disk.
func newLedger(cfg Config, s *store, tell func([]news)) *ledger {
	// A record that falls out of the cache must be on disk, or it would be read back too old. Three batches can be on their way to the disk.
	// They touch fewer than 10,240 hosts.
	hosts, _ := simplelru.NewLRU[string, *hostEntry](max(4*cfg.FrontHosts, 10_240), nil)
	l := &ledger{
		cfg: cfg, store: s, tell: tell,
		site:     func(string) *Site { return nil },
		seen:     newSeen(cfg.filterMiB()),
		sets:     newSets(cfg.setsMiB() << 20),
		hosts:    hosts,
		marked:   make(marks),
		requests: make(chan *request, 64),
		commits:  make(chan *batch, 1),
		closed:   make(chan struct{}),
		count:    counters{due: make(map[stamp]int64), t: Totals{Reasons: make(map[string]uint64)}},
	}
	l.mostURLs.Store(int64(cfg.MaxHostURLs))
	if cfg.Shared {
		l.feed = newFeed()
	}
	return l
}

// do hands an operation to the ledger and waits until its changes are on disk. If the context ends before the operation has begun, the
// operation is withdrawn. Therefore op never runs after do has returned, and may write to variables of the caller.
func (l *ledger) do(ctx context.Context, joins joins, op func(b *batch) error) error {
	r := &request{joins: joins, op: op, done: make(chan struct{})}
	if joins != readOnly {
		if err := l.store.gate.pass(ctx); err != nil {
			return err
		}
	}
	select {
	case l.requests <- r:
	case <-l.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-r.done:
		return r.err
	case <-l.closed:
	case <-ctx.Done():
	}
	if r.claimed.CompareAndSwap(false, true) {
		return cmp.Or(ctx.Err(), ErrClosed)
	}
	<-r.done
	return r.err
}

// onHost has an operation on the record of a host carried out. See do.
func (l *ledger) onHost(ctx context.Context, joins joins, host string, op func(b *batch, h *hostEntry) error) error {
	return l.do(ctx, joins, func(b *batch) error {
		h, err := l.entry(b, host)
		if err != nil {
			return err
		}
		return op(b, h)
	})
}

// run works until stop is closed, and then finishes what was handed in.
func (l *ledger) run(stop <-chan struct{}) error {
	defer close(l.closed)
	var committer sync.WaitGroup
	committer.Go(l.commit)
	defer committer.Wait()
	defer close(l.commits)
	for {
		select {
		case r := <-l.requests:
			l.batchFrom(r)
		case <-stop:
			for {
				select {
				case r := <-l.requests:
					l.batchFrom(r)
				default:
					return nil
				}
			}
		}
		if err := l.failure.Load(); err != nil {
			return *err
		}
	}
}

// batchFrom builds one transaction from a request and those that wait behind it.
func (l *ledger) batchFrom(r *request) {
	runtime.Gosched() // a transaction costs more than a request: let callers join that are about to make one
	b := l.batchFor(r)
	for more := true; more; {
		if err := l.decide(b, r); err != nil {
			r.err = err
			close(r.done)
		} else {
			b.requests = append(b.requests, r)
		}
		// Badger refuses transactions above a sixth of a memtable.
		if r.joins == alone || b.urls >= 2000 || b.size() >= maxBatchBytes || len(b.requests) >= 256 {
			break
		}
		select {
		case r = <-l.requests:
			if r.joins == alone {
				l.submit(b)
				b = l.batchFor(r)
			}
		default:
			more = false
		}
	}
	l.submit(b)
}

// decide carries out a request in a batch, unless it was withdrawn.
func (l *ledger) decide(b *batch, r *request) error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	if !r.claimed.CompareAndSwap(false, true) {
		return context.Canceled
	}
	err := r.op(b)
	if b.err != nil {
		err = errors.Join(err, fmt.Errorf("write to store: %w", b.err))
		b.err = nil
	}
	return err
}

// batchFor begins a batch whose first request is r.
func (l *ledger) batchFor(r *request) *batch {
	if r.joins == alone {
		l.settle() // a transaction does not see what is written after it began
	}
	return l.newBatch()
}

// newBatch begins an empty batch.
func (l *ledger) newBatch() *batch {
	b := &batch{
		tx:      l.store.begin(),
		added:   make(map[queueKey]*newURLs),
		touched: make(map[string]*hostEntry),
	}
	if l.feed != nil {
		b.changes = make(map[string]*Change)
	}
	return b
}

// size is what the batch counts to the store, in bytes.
func (b *batch) size() int { return b.bytes + recordCost*len(b.touched) }

// submit completes a batch and hands it over for writing.
func (l *ledger) submit(b *batch) {
	if err := l.seal(b); err != nil {
		l.fail(err)
	}
	l.commits <- b
}

// settle returns when every submitted batch is on disk.
func (l *ledger) settle() {
	done := make(chan struct{})
	l.commits <- &batch{settled: done}
	<-done
}

// writeApart makes a part of a change to a host in a transaction before that of its batch, and writes a record that is right after that
// part. After an error everything ends, because what is in memory may no longer be what is on disk.
func (l *ledger) writeApart(h *hostEntry, rec *record, change func(txn *tx)) error {
	err := l.store.write(func(txn *tx) {
		if change(txn); h.stored {
			txn.set(hostKey(kindHost, h.host), rec.bytes(time.Now()))
		}
	})
	if err != nil {
		err = fmt.Errorf("write to store: %w", err)
		l.fail(err)
	}
	return err
}

// fail makes every request fail from now on.
func (l *ledger) fail(err error) { l.failure.CompareAndSwap(nil, &err) }

// commit writes batches in order and answers their requests.
func (l *ledger) commit() {
	for b := range l.commits {
		if b.settled != nil {
			close(b.settled)
			continue
		}
		failure := l.failure.Load()
		if failure != nil {
			b.Discard()
		} else if err := l.store.commit(b.tx); err != nil {
			l.fail(fmt.Errorf("write to store: %w", err))
			failure = l.failure.Load()
		} else {
			l.feed.add(b.changes)
			l.tell(b.news)
		}
		for _, r := range b.requests {
			if failure != nil {
				r.err = *failure
			}
			close(r.done)
		}
	}
}

// seal writes what the batch gathered into its transaction: blocks of new URLs, and records that changed.
func (l *ledger) seal(b *batch) error {
	var body []byte
	for _, urls := range b.order {
		for entries := urls.entries; len(entries) > 0; {
			body = body[:0]
			n := 0
			for n < len(entries) && n < maxBlockURLs && len(body) < maxBlockBytes {
				body = appendEntry(body, entries[n])
				n++
			}
			l.seq++
			b.put(badger.NewEntry(pendingKey(urls.host, urls.origin, l.seq), l.store.codec.seal(body)).WithMeta(byte(n)))
			written := block{&blockRef{seq: l.seq, n: n, origin: urls.origin}, entries[:n:n]}
			b.news = append(b.news, func(t *transfers, now time.Time) { t.offeredLocked(urls.host, written, urls.first, urls.away, now) })
			entries = entries[n:]
		}
	}
	for host, h := range b.touched {
		l.write(b, host, h)
	}
	for host, c := range b.changes {
		h, err := l.entry(b, host)
		if err != nil {
			return err
		}
		c.Digest, c.Tracked = h.rec.digest, h.rec.tracked
	}
	return wrap(b.err, "write blocks and records of hosts")
}

// write writes the record of a host, and a run of its seen set when enough hashes have come together.
func (l *ledger) write(b *batch, host string, h *hostEntry) {
	if len(h.rec.fresh) >= maxFresh {
		l.seq++
		run := make([]byte, 0, 8*len(h.rec.fresh))
		for _, hash := range h.rec.fresh {
			run = binary.LittleEndian.AppendUint64(run, hash)
		}
		b.set(numberKey(kindSeen, host, l.seq), run)
		h.rec.fresh = nil
	}
	b.set(hostKey(kindHost, host), h.rec.bytes(time.Now()))
	h.stored = true
	h.setNext(b, h.rec.nextAt())
}
