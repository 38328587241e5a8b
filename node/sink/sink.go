// Package sink keeps what a node downloads and delivers it in packages to a directory, an HTTP collector or an S3 store.
// Each download is in exactly one package of each format, even if the node is killed at any moment:
//
//   - Put writes the record of a download into a spool and returns once it is synced. Only then may the frontier record the
//     end of the download; it stores a receipt for the record in the same transaction.
//   - When every download in a spool has ended, the sink makes packages from exactly those records that have a receipt.
//   - The sink removes a package when the destination has acknowledged it. Package names are unique, so a package that is
//     sent again replaces its first copy.
//
// The space that undelivered packages take is bounded. Near the bound, and while the disk refuses writes, the sink asks its
// node to pause downloads. The package does not decide what is worth keeping: its caller does.
package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"proxima/fetch/warc"
	"proxima/node/bell"
)

// Errors of Put. After all but ErrUnfit the download must be made again.
var (
	// ErrUnfit means that this download can never be kept: its exchange cannot be archived faithfully, or it is too large for
	// the bound on disk space. It counts as made.
	ErrUnfit = errors.New("it cannot be kept")
	// ErrFull means that the record does not fit within the bound now.
	ErrFull = errors.New("the sink is full")
	// ErrClosed means that Run has ended.
	ErrClosed = errors.New("the sink is closed")
)

// Receipts is the shelf of the frontier that holds this sink's receipts and nothing else.
type Receipts interface {
	Scan(prefix []byte, visit func(key, value []byte) error) error
	Batch(fill func(set func(k, v []byte), del func(k []byte))) error
}

// Deps are what a sink needs from its node. Functions other than Sync must not block, and none may call the sink.
type Deps struct {
	Receipts Receipts
	// Sync returns when all receipts written so far would survive a power failure.
	Sync func(ctx context.Context) error
	// Hold pauses downloads for the given reason; "" resumes them.
	Hold func(why string)
	// Log gets deliveries, and the beginning and end of trouble. Warn gets errors that stop nothing.
	Log  *slog.Logger
	Warn func(error)
	// Node and Boot identify the node and its life. Run is the name of the crawl, Version the program's, Operator a
	// contact.
	Node, Run, Version, Operator string
	Boot                         uint64
	// Transport carries HTTP requests. It must be set where packages go by HTTP.
	Transport http.RoundTripper
}

// Sink keeps records and delivers packages. Make one with Open. Its methods are safe for concurrent use.
type Sink struct {
	cfg      Config
	deps     Deps
	dir      string
	disk     disk
	archive  *warc.Encoder
	to       destination
	puts     chan *put
	closings bell.Bell     // asks the writer to close the open spool
	done     chan struct{} // closed when Run has ended
	changed  bell.Bell     // wakes the packer
	work     bell.Bell     // wakes the deliverer
	settled  bell.Bell     // wakes Flush: a spool was closed or packed, or a package delivered
	reached  bool          // the destination is open; only Open and the deliverer use it

	// mu guards the fields below. It is never held during I/O.
	mu          sync.Mutex
	open        *spool   // only the writer changes it
	closed      []*spool // to be packed, in order
	ready       []*madePackage
	spooled     int64  // bytes of all spools
	packed      int64  // bytes of all packages
	flushing    bool   // the crawl is over
	full        bool   // the bound is near
	unwritten   string // why records cannot be written
	unpacked    string // why packages cannot be made
	undelivered string // why packages cannot be delivered
	held        string // the last reason given to Deps.Hold
	stats       Status
}

// put is a record on its way to the disk.
type put struct {
	spooled
	ticket *Ticket
	err    error
	done   chan struct{}
}

// Ticket stands for a record on disk.
type Ticket struct {
	sink   *Sink
	spool  *spool
	record uint32
	stored func()
}

// Key returns the key of the receipt, which the frontier must store together with the end of the download.
func (t *Ticket) Key() []byte { return t.spool.receiptKey(t.record) }

// End tells the sink whether the end of the download was written. Call it exactly once.
func (t *Ticket) End(written bool) {
	if written && t.stored != nil {
		t.stored()
	}
	t.sink.mu.Lock()
	t.spool.out--
	t.sink.mu.Unlock()
	t.sink.changed.Ring()
}

// Open opens a sink in a directory of its own and recovers what earlier lives left there. Run starts it.
func Open(dir string, cfg Config, deps Deps) (*Sink, error) { return openOn(disk{}, dir, cfg, deps) }

func openOn(d disk, dir string, cfg Config, deps Deps) (*Sink, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	archive, err := warc.New(warc.Config{Software: strings.TrimSpace("proxima " + deps.Version), Operator: deps.Operator, Revisits: revisits})
	if err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	s := &Sink{cfg: cfg, deps: deps, dir: dir, disk: d, archive: archive, puts: make(chan *put), closings: bell.New(),
		done: make(chan struct{}), changed: bell.New(), work: bell.New(), settled: bell.New()}
	if s.to, err = newDestination(cfg, d, deps); err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	if err := s.reach(ctx); err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("open sink: %w", err)
	}
	return s, s.recover()
}

// openPatience is how long the start waits for a directory. One that does not answer by then is like one that hangs later.
const openPatience = 5 * time.Second

// reach opens the destination, if it is a directory that has not been opened yet.
func (s *Sink) reach(ctx context.Context) error {
	if to, ok := s.to.(directory); ok && !s.reached {
		err := guarded(ctx, func(ctx context.Context, _ func()) error {
			return to.patiently(ctx, func() error { return to.open(s.dir) })
		})
		if err != nil {
			return err
		}
	}
	s.reached = true
	return nil
}

// Wants reports whether Put has a use for records of this format.
func (s *Sink) Wants(format string) bool { return slices.Contains(s.cfg.Formats, format) }

// Put writes the record of a download and returns when it is on disk. The download may then count as made; the caller must end
// the ticket.
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
	p := &put{spooled: spooled{page: r.IsPage, time: r.Time, parts: parts}, done: make(chan struct{})}
	select {
	case s.puts <- p:
	case <-s.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	<-p.done // the writer always answers
	if p.err != nil {
		return nil, fmt.Errorf("keep a download: %w", p.err)
	}
	p.ticket.stored = stored
	return p.ticket, nil
}

// size returns the bytes of all parts of a record.
func size(parts [][]byte) (n int64) {
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}

// Run writes, packs and delivers until ctx ends. The next Open continues with what is left.
func (s *Sink) Run(ctx context.Context) error {
	defer close(s.done)
	var parts sync.WaitGroup
	parts.Go(func() { s.write(ctx) })
	parts.Go(func() { s.repeat(ctx, s.changed, s.packNext, &s.unpacked) })
	parts.Go(func() { s.repeat(ctx, s.work, s.deliverNext, &s.undelivered) })
	parts.Wait()
	return nil
}

// repeat calls step until ctx ends. When step finds nothing to do, repeat waits for a signal. When it fails, repeat reports the
// error, which goes to trouble, and waits, longer after each failure in a row, with jitter.
func (s *Sink) repeat(ctx context.Context, wake <-chan struct{}, step func(context.Context) (worked bool, err error), trouble *string) {
	const least, most = 200 * time.Millisecond, time.Minute
	for failures := 0; ctx.Err() == nil; {
		worked, err := step(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			s.fail(err, trouble)
			failures++
			_ = bell.Sleep(ctx, bell.Backoff(failures, least, most))
		case worked:
			failures = 0
		default:
			select {
			case <-wake:
			case <-ctx.Done():
			}
		}
	}
}

// Flush closes the open spool and waits until everything is delivered or ctx ends. It returns how many packages are left.
// Put must not be called after it, nor Flush meanwhile.
func (s *Sink) Flush(ctx context.Context) (left int) {
	s.mu.Lock()
	s.flushing = true
	s.mu.Unlock()
	for {
		s.mu.Lock()
		if s.open != nil {
			s.closings.Ring()
		}
		left = len(s.closed) + len(s.ready)
		if s.open != nil {
			left++
		}
		s.mu.Unlock()
		if left == 0 {
			return 0
		}
		select {
		case <-s.settled:
		case <-s.done:
			return left
		case <-ctx.Done():
			return left
		}
	}
}
