package frontier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Deps are what the frontier needs from outside.
type Deps struct {
	// Blocked says why a host, or an address, must not be crawled, or "": asked when the host comes off the disk.
	Blocked func(host string) string
	// Site says what is set for one host, nil for nothing; asked when the host comes off the disk, and for each of its new
	// URLs. Nil sets nothing for any. It must not block.
	Site func(host string) *Site
	// FreeBytes is the free space where the store is; nil reads it from the file system.
	FreeBytes func() (uint64, error)
	// Rand drives the draws and the jitter; nil seeds one.
	Rand *rand.Rand
	// Event tells of what the frontier did by itself. It must not block.
	Event func(Event)
}

// Event is something that the frontier did by itself.
type Event struct {
	Kind   EventKind
	Host   string
	Reason string
	URLs   int
	Free   uint64 // bytes free on disk
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	HostDropped    EventKind = iota // a host was given up, its pending URLs dropped
	DiskFull                        // the watermark was reached: no new downloads
	DiskOK                          // there is room again
	OwnTrouble                      // this node itself cannot download, and why
	OwnTroubleOver                  // it can again
)

// Frontier holds the URLs of one node. All methods are safe for concurrent use. Take and Finish need Run.
type Frontier struct {
	cfg    Config
	deps   Deps
	store  *store
	ledger *ledger

	waitMille atomic.Int64 // chance of a fetcher to wait, by SetPace
	troubled  atomic.Bool  // there is an outage
	quiet     chan struct{}
	kick      chan struct{}
	wanted    chan struct{}
	hungry    chan struct{}
	dry       chan struct{}
	arrived   chan struct{}

	// mu guards what follows. It is never held across I/O.
	mu         sync.Mutex
	bench      *workbench
	waiters    fifo[*waiter[*Task]]
	craving    bool // a fetcher got a remote fetch where no host was ready
	resolvers  fifo[*waiter[*host]]
	candidates fifo[string]        // hosts with URLs on disk that could enter the bench
	candidate  map[string]struct{} // the same as a set
	scan       bool                // hosts wait on disk that are not candidates
	cursor     string              // the last host that the scan looked at
	found      bool                // somebody waits on disk, or may, since the scan began at the front
	useful     bool                // somebody came in since the scan began at the front who need not wait on
	wrapped    bool                // the scan found nobody, or none but sleepers, since it last began at the front
	clockAt    time.Time           // when the clock wakes next
	ending     int                 // calls whose changes the bench knows and the disk does not yet
	full       string              // why nothing is taken for want of room on the disk, "" when something is
	held       map[string]string   // why Hold wants nothing to be taken, by who said so
	outage     outage
	entered    []string // hosts that came onto the bench and are not checked yet
	takers     []*taker
	away       marks                // hosts not owned
	frozen     map[string]*freezing // hosts that must not enter the bench
}

// maxCandidates bounds the names of hosts held beside the bench; the rest is found by scanning.
const maxCandidates = 4096

// Open opens the frontier in a directory; an empty name keeps everything in memory. It reads what is there.
func Open(dir string, cfg Config, polite Politeness, deps Deps) (*Frontier, error) {
	if err := errors.Join(cfg.Validate(), polite.Validate()); err != nil {
		return nil, fmt.Errorf("open frontier: %w", err)
	}
	prefixes, err := polite.own()
	if err != nil {
		return nil, err
	}
	if deps.Rand == nil {
		deps.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if deps.Blocked == nil {
		deps.Blocked = func(string) string { return "" }
	}
	if deps.Event == nil {
		deps.Event = func(Event) {}
	}
	s, err := openStore(dir, cfg.memtableMiB())
	if err != nil {
		return nil, err
	}
	if deps.FreeBytes == nil {
		deps.FreeBytes = func() (uint64, error) { return freeBytes(dir) }
	}
	f := &Frontier{
		cfg: cfg, deps: deps, store: s,
		bench:     newWorkbench(cfg, rules{Politeness: polite, prefixes: prefixes}, deps.Rand),
		candidate: make(map[string]struct{}),
		held:      make(map[string]string),
		frozen:    make(map[string]*freezing),
		quiet:     make(chan struct{}, 1),
		kick:      make(chan struct{}, 1),
		wanted:    make(chan struct{}, 1),
		hungry:    make(chan struct{}, 1),
		dry:       make(chan struct{}, 1),
		arrived:   make(chan struct{}, 1),
	}
	f.ledger = newLedger(cfg, s, f.offered)
	f.ledger.mostURLs.Store(int64(cfg.MaxHostURLs))
	f.ledger.longest, f.ledger.ended = f.bench.rules.longest(), polite.EndedFor
	f.bench.site, f.ledger.site = f.deps.siteOf, f.deps.siteOf
	if cfg.Shared {
		f.ledger.feed = newFeed()
	}
	if f.away, err = f.ledger.recover(); err != nil {
		if !errors.Is(err, ErrOldLayout) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return nil, errors.Join(fmt.Errorf("open frontier %s: %w", dir, err), s.close())
	}
	if err := f.openRecrawl(); err != nil {
		return nil, errors.Join(fmt.Errorf("open frontier %s: %w", dir, err), s.close())
	}
	if f.ledger.count.totals().Pending > 0 {
		f.scan, f.bench.resumed = true, time.Now()
	}
	return f, nil
}

// Run keeps the frontier going until the context ends, then finishes what callers have handed in and closes the
// store. Calls that come later get ErrClosed.
func (f *Frontier) Run(ctx context.Context) error {
	var g errgroup.Group
	stop := make(chan struct{})
	var once sync.Once
	end := func() { once.Do(func() { close(stop); f.Stopping() }) }
	defer context.AfterFunc(ctx, end)()
	for _, part := range []func(<-chan struct{}) error{
		f.ledger.run, f.store.tend, f.runClock, f.runActivation, f.runRefills, f.runPlan, f.watchDisk,
	} {
		g.Go(func() error {
			err := part(stop)
			if err != nil {
				end() // one part that fails takes the others along
			}
			return err
		})
	}
	err := g.Wait()
	return errors.Join(err, f.store.close())
}

// Add offers URLs, and returns the verdict on each when those accepted are on disk. With too little disk left nothing
// is accepted and ErrDiskFull is returned.
func (f *Frontier) Add(ctx context.Context, links []Link) ([]Verdict, error) {
	f.mu.Lock()
	full := f.full != ""
	f.mu.Unlock()
	if full {
		return nil, ErrDiskFull
	}
	verdicts := make([]Verdict, 0, len(links))
	for len(links) > 0 {
		n := portion(links)
		r := &request{adds: additions(links[:n])}
		if err := f.ledger.do(ctx, r); err != nil {
			return verdicts, fmt.Errorf("add %d URLs: %w", n, err)
		}
		verdicts = append(verdicts, r.verdict...)
		links = links[n:]
	}
	return verdicts, nil
}

// Bounds on a request to the ledger, and so on a transaction: URLs, and bytes as the store counts them. A batch that is not
// full yet and one more request fit into the smallest transaction, 15 % of 4 MiB.
const (
	maxRequestURLs  = 500
	maxRequestBytes = 200 << 10
	maxBatchBytes   = 2 * maxRequestBytes
)

// cost is what an entry counts to the store at most, in bytes, with what it holds of a path.
func cost(host, path string) int { return len(host) + len(path) + 32 }

// recordCost is what a record counts at most: values above 255 bytes count as pointers.
const recordCost = 3 + 260 + 255 + 12

// portion is how many of the links go into one request: 0 only where there is none.
func portion(links []Link) int {
	size := 0
	for n := range min(len(links), maxRequestURLs) {
		if n == 0 || links[n].URL.Host != links[n-1].URL.Host {
			size += recordCost
		}
		if size += cost(links[n].URL.Host, links[n].URL.Path); size > maxRequestBytes && n > 0 {
			return n
		}
	}
	return min(len(links), maxRequestURLs)
}

func additions(links []Link) []addition {
	adds := make([]addition, len(links))
	for i, l := range links {
		e := entry{path: l.URL.Path, hash: l.URL.Hash(), depth: l.Depth, hops: l.Hops}
		if l.Sitemap {
			e.flags |= flagSitemap
		}
		adds[i] = addition{host: l.URL.Host, origin: l.Origin, entry: e, at: i}
	}
	return adds
}

// Take returns the next task as soon as there is one. It blocks until then or until the context ends.
func (f *Frontier) Take(ctx context.Context) (*Task, error) {
	if err := f.chance(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	if t := f.take(time.Now()); t != nil {
		f.mu.Unlock()
		return t, nil
	}
	w := newWaiter[*Task]()
	f.waiters.push(w)
	signal(f.hungry)
	f.mu.Unlock()
	return w.wait(ctx, f)
}

// chance lets a fetcher wait before it takes, with the configured probability.
func (f *Frontier) chance(ctx context.Context) error {
	share := f.waitShare()
	if share == 0 {
		return ctx.Err()
	}
	f.mu.Lock()
	wait := f.deps.Rand.Float64() < share
	f.mu.Unlock()
	if !wait {
		return ctx.Err()
	}
	timer := time.NewTimer(f.cfg.WaitTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take needs mu held.
func (f *Frontier) take(now time.Time) *Task {
	if f.full != "" || len(f.held) > 0 || f.outage.keepsTasks(now) {
		return nil
	}
	task := f.bench.take(now)
	if f.bench.recrawl.wanted {
		signal(f.hungry)
	}
	if task != nil {
		task.try = f.outage.try(true, now)
	}
	if task != nil && task.remote && !f.bench.anyReady(now) {
		// Whoever works for others only, because no host here is ready, starves as well.
		f.craving = true
		signal(f.hungry)
	}
	return task
}

// dispatch serves those who wait, after anything that may have made a task ready. It needs mu held.
func (f *Frontier) dispatch(now time.Time) {
	for f.waiters.len() > 0 {
		w := *f.waiters.peek()
		if !w.gone {
			t := f.take(now)
			if t == nil {
				signal(f.hungry)
				break
			}
			w.answer <- t
		}
		f.waiters.pop()
	}
	for f.resolvers.len() > 0 {
		r := *f.resolvers.peek()
		if !r.gone {
			h := f.nextUnresolved(now)
			if h == nil {
				break
			}
			r.answer <- h
		}
		f.resolvers.pop()
	}
	if len(f.bench.refills) > 0 {
		signal(f.dry)
	}
	if f.bench.recrawl.wanted {
		signal(f.hungry)
	}
	f.serveTakers(now)
	due, ok := f.bench.nextWake(now)
	if o := &f.outage; o.why != "" && now.Before(o.next) && (!ok || o.next.Before(due)) {
		due, ok = o.next, true
	}
	if ok && (f.clockAt.IsZero() || due.Before(f.clockAt)) {
		f.clockAt = due
		signal(f.kick)
	}
	if len(f.bench.wants) > 0 {
		signal(f.wanted)
	}
	if len(f.bench.expired) > 0 {
		signal(f.kick)
	}
	if f.bench.inFlight == 0 && f.bench.resolving == 0 && f.bench.remote.out == 0 {
		signal(f.quiet)
	}
}

// runClock dispatches what time alone makes ready.
func (f *Frontier) runClock(stop <-chan struct{}) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-f.kick:
		case <-timer.C:
		}
		f.mu.Lock()
		now := time.Now()
		f.bench.advance(now)
		f.clockAt = time.Time{}
		f.dispatch(now)
		select {
		case <-f.kick: // dispatch meant this goroutine, which looks at clockAt anyway
		default:
		}
		if f.clockAt.IsZero() {
			timer.Reset(time.Hour)
		} else {
			// Timers stand still while the machine sleeps, the hours of sites do not.
			timer.Reset(min(f.clockAt.Sub(now), time.Minute))
		}
		f.mu.Unlock()
		f.tell()
	}
}

// signal wakes a goroutine that looks at shared state; one waiting signal is as good as many.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// offered is called by the ledger with what has just been committed, in order.
func (f *Frontier) offered(offers []offered) {
	if len(offers) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, o := range offers {
		switch {
		case o.role != nil:
			f.changedRole(o.host, *o.role, now)
		case o.lowered:
			if h := f.bench.hosts[o.host]; h != nil {
				h.lower(o.hash, o.depth)
			}
		case o.ref == nil:
			if h := f.bench.hosts[o.host]; h != nil {
				h.forget(o.droppedAt)
				if !h.reading {
					f.bench.settle(h, now)
				}
			}
		case f.bench.offer(o, now):
		case o.away:
		case o.first && f.frozen[o.host] == nil && len(f.bench.hosts) < f.cfg.FrontHosts && f.waiters.len() > 0 &&
			f.deps.Blocked(o.host) == "":
			// A host that nobody knows needs no look at the disk.
			h := f.bench.enter(o.host)
			f.checkInLocked(h)
			h.take(o.ref, cloned(o.entries))
			f.bench.loadedHost(h, record{}, now)
		default:
			f.nominate(o.host)
		}
	}
	f.dispatch(now)
}

// nominate notes that a host on disk has something to crawl. It needs mu held.
func (f *Frontier) nominate(name string) {
	if _, ok := f.candidate[name]; ok {
		return
	}
	if len(f.candidate) >= maxCandidates {
		f.rescan()
		return
	}
	f.candidate[name] = struct{}{}
	f.candidates.push(name)
	if f.waiters.len() > 0 {
		signal(f.hungry)
	}
}

// rescan notes that a host waits on disk that is no candidate. It needs mu held.
func (f *Frontier) rescan() { f.scan, f.wrapped, f.found = true, false, true }
