// Package sink keeps what a node downloads and hands it over, in packages of a format, to a directory, an HTTP collector or
// an S3 store. A download is in exactly one package of each format, whatever is killed when:
//
//   - Put writes its record into a spool and returns when it is on the disk; only then may the end of the download be
//     written, and with it, in one transaction, goes a receipt for the record;
//   - a package is made of a spool when every download in it has ended: of the records that have a receipt, and of no other;
//   - it is removed here when its destination has acknowledged it. Its name is its own, so what is sent again replaces itself.
//
// The room the packages take here is bounded; near the bound, and while nothing can be written, downloads are held.
package sink

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/fetch/warc"
)

// Errors of Put. But for ErrUnfit, the download must not count as made: it is made again later.
var (
	// ErrUnfit says that the download cannot be kept, now or later: its exchange cannot be archived truthfully, or it is larger
	// than what may wait here. It may count as made.
	ErrUnfit = errors.New("it cannot be kept")
	// ErrFull says that there is no room for the record within the bound.
	ErrFull = errors.New("the sink is full")
	// ErrClosed says that Run has ended.
	ErrClosed = errors.New("the sink is closed")
)

// Receipts is the shelf of the frontier with the receipts of this sink, and nothing else on it.
type Receipts interface {
	Scan(prefix []byte, visit func(key, value []byte) error) error
	Batch(fill func(set func(k, v []byte), del func(k []byte))) error
}

// Deps are what a sink needs from outside. Its methods must not block but Sync, and not call the sink.
type Deps struct {
	Receipts Receipts
	// Sync returns when the receipts written before survive the death of the machine.
	Sync func(ctx context.Context) error
	// Hold says that nothing must be downloaded, and why, or with "" that it may be again.
	Hold func(why string)
	// Event tells of what happened, Warn of what went wrong and does no harm.
	Event func(Event)
	Warn  func(error)
	// Node, Boot, Run, Version and Operator say who downloads: the id and the life of the node, the name of the crawl, the program,
	// and a contact.
	Node, Run, Version, Operator string
	Boot                         uint64
	// Transport carries packages over HTTP; nil is the machine's network.
	Transport http.RoundTripper
	// Env reads an environment variable.
	Env func(name string) string
}

// Event is a package that was delivered, or the beginning or end of trouble.
type Event struct {
	Kind   EventKind
	Name   string
	Pages  int
	Bytes  int64
	Reason string
}

// EventKind says what happened.
type EventKind uint8

// Kinds of events.
const (
	Delivered   EventKind = iota // a package was acknowledged
	Trouble                      // packages cannot be written or delivered; Reason says why
	TroubleOver                  // they can again
)

// Sink is what Open opens. Its methods are safe for concurrent use.
type Sink struct {
	cfg     Config
	deps    Deps
	dir     string
	disk    disk
	archive *warc.Encoder
	to      destination
	puts    chan *put
	turns   chan struct{} // asks the writer to close the package
	done    chan struct{} // Run has ended
	changed chan struct{} // wakes the packer
	work    chan struct{} // wakes who delivers

	// mu guards what follows. It is never held across input or output.
	mu        sync.Mutex
	open      *spool
	closed    []*spool // to be packed, in order
	ready     []*parcel
	spooled   int64  // bytes of all spools
	packed    int64  // bytes of all packages
	flushing  bool   // the crawl is over
	full      bool   // there is no room for more
	unwritten string // why nothing can be written
	undone    string // why no package can be made or delivered
	held      string
	stats     Status
	settled   chan struct{} // closed and renewed when something was packed or delivered
}

// put is a record on its way to the disk.
type put struct {
	parts  [][]byte
	page   bool
	time   time.Time
	ticket *Ticket
	err    error
	done   chan struct{}
}

// Ticket is a record that is on the disk.
type Ticket struct {
	sink   *Sink
	spool  *spool
	record uint32
	stored func()
}

// Key is the key of the receipt, to be written with the end of the download.
func (t *Ticket) Key() []byte { return t.spool.receiptKey(t.record) }

// End must be called once when the end of the download is written, or is known not to be.
func (t *Ticket) End(written bool) {
	if written && t.stored != nil {
		t.stored()
	}
	t.sink.mu.Lock()
	t.spool.out--
	t.sink.mu.Unlock()
	signal(t.sink.changed)
}

// Open opens a sink in a directory of its own; Run starts it.
func Open(dir string, cfg Config, deps Deps) (*Sink, error) { return openOn(disk{}, dir, cfg, deps) }

func openOn(d disk, dir string, cfg Config, deps Deps) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	w := warc.Default()
	w.Software, w.Operator, w.RevisitEntries = strings.TrimSpace("proxima "+deps.Version), deps.Operator, cfg.Revisits
	archive, err := warc.New(w, rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	s := &Sink{cfg: cfg, deps: deps, dir: dir, disk: d, archive: archive, puts: make(chan *put), turns: make(chan struct{}, 1),
		done: make(chan struct{}), changed: make(chan struct{}, 1), work: make(chan struct{}, 1), settled: make(chan struct{})}
	if s.to, err = newDestination(cfg, d, deps); err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	return s, s.recover()
}

// WantsExchanges and WantsPages say what Put has a use for.
func (s *Sink) WantsExchanges() bool { return s.wants(WARC) }

// WantsPages is said with WantsExchanges.
func (s *Sink) WantsPages() bool { return s.wants(Pages) }

func (s *Sink) wants(format string) bool {
	for _, f := range s.cfg.Formats {
		if f == format {
			return true
		}
	}
	return false
}

// Put writes the record of a download and returns when it is on the disk. The download may be counted as made then, and the
// ticket must be ended.
func (s *Sink) Put(ctx context.Context, r Record) (*Ticket, error) {
	parts, stored, err := s.encode(r)
	if errors.Is(err, warc.ErrInvalid) {
		err = fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	if err == nil && size(parts) > min(maxFrame/2, s.cfg.DiskBytes/leastPackages) {
		err = fmt.Errorf("%w: it has %s", ErrUnfit, bytesText(size(parts)))
	}
	if err != nil {
		return nil, fmt.Errorf("keep a download: %w", err)
	}
	p := &put{parts: parts, page: r.IsPage, time: r.Time, done: make(chan struct{})}
	select {
	case s.puts <- p:
	case <-s.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	<-p.done // the writer answers what it has taken
	if p.err != nil {
		return nil, fmt.Errorf("keep a download: %w", p.err)
	}
	p.ticket.stored = stored
	return p.ticket, nil
}

// size is what the parts of a record take, in bytes.
func size(parts [][]byte) (n int64) {
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}

// Run writes, packs and delivers until the context ends. What is left then waits for the next Open.
func (s *Sink) Run(ctx context.Context) error {
	defer close(s.done)
	var g errgroup.Group
	for _, part := range []func(context.Context){s.write, s.packAll, s.deliverAll} {
		g.Go(func() error { part(ctx); return nil })
	}
	signal(s.changed)
	signal(s.work)
	return g.Wait()
}

// Flush closes the open package and waits until everything is delivered, or until the context ends. It returns how many
// packages are left. Nothing may be put any more.
func (s *Sink) Flush(ctx context.Context) (left int) {
	s.mu.Lock()
	s.flushing = true
	s.mu.Unlock()
	for {
		s.mu.Lock()
		if s.open != nil {
			signal(s.turns)
		}
		left, settled := len(s.closed)+len(s.ready), s.settled
		if s.open != nil {
			left++
		}
		s.mu.Unlock()
		if left == 0 {
			return 0
		}
		select {
		case <-settled:
		case <-s.done:
			return left
		case <-ctx.Done():
			return left
		}
	}
}

// settle tells Flush that something has moved. It needs mu held.
func (s *Sink) settleLocked() {
	close(s.settled)
	s.settled = make(chan struct{})
}

// pause waits with jitter, longer after each failure: the n-th from 1 on. It returns false when the context ends.
func pause(ctx context.Context, n int) bool {
	const least, most = 200 * time.Millisecond, time.Minute
	wait := most
	if n < 10 {
		wait = min(most, least<<(n-1))
	}
	timer := time.NewTimer(wait/2 + mathrand.N(wait/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// signal wakes a goroutine that looks at shared state; one waiting signal is as good as many.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
