package frontier

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// ErrClosed is returned by calls to a frontier whose Run has ended.
var ErrClosed = errors.New("the frontier is closed")

// ledger is the durable half of the frontier. One goroutine (decide) owns all its state: it says what is new, builds
// transactions for as many requests as are waiting, and hands them to a second one (commit) that writes them in
// order, tells the workbench, and only then answers.
type ledger struct {
	cfg      Config
	mostURLs atomic.Int64 // Config.MaxHostURLs in force
	store    *store
	seen     *seen
	sets     *sets
	hosts    *hostCache
	marked   marks // hosts not owned, and those whose digest is kept
	seq      uint64
	requests chan *request
	commits  chan *batch
	closed   chan struct{}
	// offer tells the workbench of committed blocks, in order.
	offer func([]offered)
	site  func(host string) *Site
	feed  *feed // nil where nobody reads it
	count counters
	// longest is the longest that a host may have to wait, whatever another node says, and ended how long one that was given
	// up does.
	longest, ended time.Duration
	// failure is the first commit that went wrong: from then on nothing is accepted.
	failure atomic.Pointer[error]
}

// request is what a caller wants written, and its answer.
type request struct {
	host   string
	adds   []addition
	finish *finished
	robots *robotsRecord
	// receipt is written with finish, or by itself.
	receipt *Receipt
	// holdBack keeps the finish back when a link gets NotOwned.
	holdBack bool
	// op is a change of another kind; alone says that everything before it has to be on disk, reads that it changes nothing.
	op       func(b *batch) error
	alone    bool
	reads    bool
	heldBack bool // answer: finish was not done
	err      error
	done     chan struct{}
	verdict  []Verdict
}

// addition is one URL that may be new.
type addition struct {
	host   string
	origin Origin
	entry  entry
	// at is the place of its verdict in the request.
	at int
}

// blockRef names a block on disk.
type blockRef struct {
	seq    uint64
	n      int
	origin Origin
}

// offered is a committed block; without one, the news that all blocks of the host up to droppedAt are gone.
type offered struct {
	host      string
	ref       *blockRef
	entries   []entry
	first     bool // the host had no URL before, and has no record
	away      bool // the host is not owned
	droppedAt uint64
	// role, if set, is that of the host from now on.
	role *Role
	// lowered says that a pending URL of the host was found less deep.
	lowered bool
	hash    uint64
	depth   uint8
}

// batch is one transaction and everything that waits for it.
type batch struct {
	txn      *badger.Txn
	builders map[builderKey]*builder
	order    []*builder
	touched  map[string]*hostEntry
	requests []*request
	offers   []offered
	// changes are what it does to hosts owned, nil where nobody wants to know.
	changes map[string]*Change
	urls    int
	bytes   int // as the store counts them, without the records of touched
	settled chan struct{}
}

type builderKey struct {
	host   string
	origin Origin
}

type builder struct {
	builderKey
	entries []entry
	first   bool
	away    bool
}

func newLedger(cfg Config, s *store, offer func([]offered)) *ledger {
	return &ledger{
		cfg: cfg, store: s, offer: offer,
		seen:     newSeen(cfg.filterMiB()),
		sets:     newSets(cfg.setsMiB() << 20),
		hosts:    newHostCache(4 * cfg.FrontHosts),
		marked:   make(marks),
		requests: make(chan *request, 64),
		commits:  make(chan *batch, 1),
		closed:   make(chan struct{}),
	}
}

// do hands a request to the ledger and waits until it is on disk. A context that ends takes the caller away; the
// request may still be carried out.
func (l *ledger) do(ctx context.Context, r *request) error {
	r.done = make(chan struct{})
	if !r.reads {
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
		// The last batch may have been answered between the two.
		select {
		case <-r.done:
			return r.err
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change carries out a change of another kind than adding and ending URLs. Alone it begins when everything before it is on disk.
func (l *ledger) change(ctx context.Context, alone bool, op func(b *batch) error) error {
	return l.do(ctx, &request{op: op, alone: alone})
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
	runtime.Gosched() // a transaction costs more than a request: who is about to make one comes along
	b := l.newBatch()
	for {
		if err := l.decide(b, r); err != nil {
			r.err = err
			close(r.done)
		} else {
			b.requests = append(b.requests, r)
		}
		// Bounds on a transaction: Badger refuses those beyond a sixth of a memtable. A robots.txt may be large.
		if r.alone || r.robots != nil || b.urls >= 2000 || b.size() >= maxBatchBytes || len(b.requests) >= 256 {
			break
		}
		select {
		case r = <-l.requests:
			if !r.alone {
				continue
			}
			// It reads what is on disk: everything before it has to be there.
			l.submit(b)
			b = l.newBatch()
			continue
		default:
		}
		break
	}
	l.submit(b)
}

func (l *ledger) newBatch() *batch {
	b := &batch{
		txn:      l.store.db.NewTransaction(true),
		builders: make(map[builderKey]*builder),
		touched:  make(map[string]*hostEntry),
	}
	if l.feed != nil {
		b.changes = make(map[string]*Change)
	}
	return b
}

// size is what the batch counts to the store.
func (b *batch) size() int { return b.bytes + recordCost*len(b.touched) }

func (l *ledger) submit(b *batch) {
	if err := l.seal(b); err != nil {
		l.fail(err)
	}
	l.commits <- b
}

// settle returns when every batch that was submitted is on disk.
func (l *ledger) settle() {
	done := make(chan struct{})
	l.commits <- &batch{settled: done}
	<-done
}

func (l *ledger) fail(err error) {
	l.failure.CompareAndSwap(nil, &err)
}

// commit writes batches in order and answers their requests.
func (l *ledger) commit() {
	for b := range l.commits {
		if b.settled != nil {
			close(b.settled)
			continue
		}
		failure := l.failure.Load()
		if failure == nil {
			if err := l.store.commit(b.txn); err != nil {
				l.fail(fmt.Errorf("write to store: %w", err))
				failure = l.failure.Load()
			} else {
				l.feed.add(b.changes)
				l.offer(b.offers)
			}
		} else {
			b.txn.Discard()
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
	for _, bl := range b.order {
		for entries := bl.entries; len(entries) > 0; {
			body = body[:0]
			n := 0
			for n < len(entries) && n < maxBlockURLs && len(body) < maxBlockBytes {
				body = appendEntry(body, entries[n])
				n++
			}
			l.seq++
			e := badger.NewEntry(pendingKey(bl.host, bl.origin, l.seq), l.store.codec.seal(body)).WithMeta(byte(n))
			if err := b.txn.SetEntry(e); err != nil {
				return fmt.Errorf("write block of %s: %w", bl.host, err)
			}
			ref := &blockRef{seq: l.seq, n: n, origin: bl.origin}
			b.offers = append(b.offers, offered{host: bl.host, ref: ref, entries: entries[:n:n],
				first: bl.first, away: bl.away})
			bl.first = false
			entries = entries[n:]
		}
	}
	for host, h := range b.touched {
		if err := l.write(b, host, h); err != nil {
			return err
		}
	}
	for host, c := range b.changes {
		h, err := l.entry(b, host)
		if err != nil {
			return err
		}
		c.Digest, c.Tracked = h.rec.digest, h.rec.tracked
	}
	return nil
}

func (l *ledger) write(b *batch, host string, h *hostEntry) error {
	if len(h.rec.fresh) >= maxFresh {
		l.seq++
		if err := b.txn.Set(seenKey(host, l.seq), appendHashes(nil, h.rec.fresh)); err != nil {
			return fmt.Errorf("write seen set of %s: %w", host, err)
		}
		h.rec.fresh = nil
	}
	if err := b.txn.Set(hostKey(kindHost, host), h.rec.append(nil)); err != nil {
		return fmt.Errorf("write record of %s: %w", host, err)
	}
	h.stored = true
	return h.writeNext(b)
}
