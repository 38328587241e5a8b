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
	*front
	*activation
	*transfers
	*leases
	*placing

	waitMille atomic.Int64 // chance of a fetcher to wait, by SetPace
	troubled  atomic.Bool  // there is an outage
}

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
	common := newFront(cfg, deps, s, newWorkbench(cfg, rules{Politeness: polite, prefixes: prefixes}, deps.Rand))
	act := newActivation(common)
	f := &Frontier{front: common, activation: act, transfers: &transfers{act}, leases: &leases{common}, placing: &placing{act}}
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
	f.starveLocked()
	f.mu.Unlock()
	return w.wait(ctx, f.front)
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

// SetPace slows this node down while something else needs the network quiet: each fetcher waits Config.WaitTime before a
// task, with the chance that is missing to share (1 is full speed). Config.WaitShare holds as well.
func (f *Frontier) SetPace(share float64) {
	f.waitMille.Store(int64(1000 * (1 - min(max(share, 0), 1))))
}

// waitShare is the chance that a fetcher waits.
func (f *Frontier) waitShare() float64 {
	return max(f.cfg.WaitShare, float64(f.waitMille.Load())/1000)
}

// Adjust changes, while the frontier runs, those values of its configuration that are marked as live.
func (f *Frontier) Adjust(cfg Config, p Politeness) {
	f.ledger.mostURLs.Store(int64(cfg.MaxHostURLs))
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.bench.rules
	r.MinGap, r.Factor, r.MaxGap, r.OwnGap, r.BackoffMin = p.MinGap, p.Factor, p.MaxGap, p.OwnGap, p.BackoffMin
	r.RetryConnect, r.RetryName, r.RetryPage = p.RetryConnect, p.RetryName, p.RetryPage
}
