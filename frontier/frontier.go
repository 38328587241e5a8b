package frontier

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Deps are what the frontier needs from outside. Every field may be nil.
type Deps struct {
	// Blocked says why a host or an address must not be crawled, or returns "". It is called when a host is read from disk.
	Blocked func(host string) string
	// Site returns the settings for a host, or nil. It is called when a host is read from disk, and for each of its new URLs. It must
	// not block.
	Site func(host string) *Site
	// FreeBytes returns the free space where the store is. If it is nil, the frontier asks the file system of a store that is on disk.
	FreeBytes func() (uint64, error)
	// Self returns the id of this node, of at most MaxID bytes. It is called when a host is asked, or cannot be reached.
	Self func() string
	// Rand drives the draws of queues and the jitter of waits.
	Rand *rand.Rand
	// Event is called with what the frontier does by itself. It must not block.
	Event func(Event)
}

// Event is something that the frontier did by itself.
type Event struct {
	Kind   EventKind
	Host   string
	Reason string
	URLs   int
	Free   uint64 // bytes free on disk
	Need   uint64 // bytes that must be free for new downloads
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events.
const (
	HostDropped    EventKind = iota // a host was given up and its pending URLs were dropped
	DiskFull                        // less disk is free than the watermark: no new downloads
	DiskOK                          // there is room again
	OwnTrouble                      // this node itself cannot download, for the reason given
	OwnTroubleOver                  // it can download again
)

// Frontier holds the URLs of one node. All methods are safe for concurrent use. Take and Finish need Run.
type Frontier struct {
	*front
	*activation
	*transfers
	*leases
	*placing

	slow atomic.Bool // see SetSlow
}

// Open opens the frontier in a directory and reads what is there. If the name of the directory is empty, everything stays in memory.
func Open(dir string, cfg Config, polite Politeness, deps Deps) (*Frontier, error) {
	if err := errors.Join(cfg.Validate(), polite.Validate()); err != nil {
		return nil, fmt.Errorf("open frontier: %w", err)
	}
	prefixes, _ := polite.own() // it is valid
	if deps.Rand == nil {
		deps.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if deps.Blocked == nil {
		deps.Blocked = func(string) string { return "" }
	}
	if deps.Site == nil {
		deps.Site = func(string) *Site { return nil }
	}
	if deps.Self == nil {
		deps.Self = func() string { return "self" }
	}
	if deps.Event == nil {
		deps.Event = func(Event) {}
	}
	s, err := openStore(dir, cfg.memtableMiB(), cfg.Compactors)
	if err != nil {
		return nil, err
	}
	if deps.FreeBytes == nil && dir != "" {
		deps.FreeBytes = func() (uint64, error) { return FreeBytes(dir) }
	}
	common := newFront(cfg, deps, s, newWorkbench(cfg, rules{Politeness: polite, prefixes: prefixes}, deps.Rand))
	act := newActivation(common)
	f := &Frontier{front: common, activation: act, transfers: &transfers{act}, leases: &leases{common}, placing: &placing{act}}
	f.ledger = newLedger(cfg, s, f.hear)
	f.ledger.endedFor = polite.EndedFor
	f.ledger.longest.Store(int64(f.bench.rules.longest()))
	f.bench.site, f.ledger.site = deps.Site, deps.Site
	f.bench.self = deps.Self
	if f.away, err = f.ledger.recover(); err != nil && !errors.Is(err, ErrOldLayout) {
		err = damaged(err)
	}
	if err == nil {
		err = f.openRecrawl()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open frontier %s: %w", dir, err), s.close())
	}
	t := f.ledger.count.totals()
	if f.scan = t.Pending > 0; f.scan || t.Pages > 0 {
		f.bench.resumed = time.Now()
	}
	return f, nil
}

// Run keeps the frontier going until the context ends. Then it carries out the requests that it has already received, and closes the
// store. Later calls get ErrClosed. If the disk takes nothing any more, Run returns after a minute, or after six seconds where a part has
// failed, and leaves behind what waits for the disk.
func (f *Frontier) Run(ctx context.Context) error {
	g, running := errgroup.WithContext(ctx) // it ends with the first part that fails, too
	stop := running.Done()
	if f.deps.FreeBytes != nil {
		err := f.checkDisk() // before anything else runs
		g.Go(func() error { return err })
		g.Go(whenever(stop, time.Tick(diskInterval), f.checkDisk))
	}
	g.Go(func() error { return f.ledger.run(stop) })
	g.Go(whenever(stop, f.clock.C, f.advance))
	g.Go(whenever(stop, f.hungry, f.bringIn))
	g.Go(whenever(stop, time.Tick(rescanAfter), f.lookAgain))
	g.Go(whenever(stop, f.dry, f.refill))
	g.Go(whenever(stop, time.Tick(time.Second), f.store.tend))
	g.Go(whenever(stop, time.Tick(time.Minute), f.store.collect))
	if f.bench.recrawl.continuous() {
		g.Go(whenever(stop, time.Tick(planEvery), f.replan))
	}
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(g.Wait(), f.store.close()) }()
	<-running.Done()
	f.Stopping()
	patience, err := f.store.patience, context.Cause(running)
	if errors.Is(err, context.Cause(ctx)) {
		err = nil
	} else {
		patience /= 10 // a part has failed
	}
	select {
	case err := <-closed:
		return err
	case <-time.After(patience):
		return errors.Join(err, fmt.Errorf("close store: the disk has taken nothing for %v", patience))
	}
}

// whenever returns a function that calls do at each signal, until stop is closed or do fails.
func whenever[T any](stop <-chan struct{}, signals <-chan T, do func() error) func() error {
	return func() error {
		for {
			select {
			case <-stop:
				return nil
			case <-signals:
			}
			switch err := do(); {
			case errors.Is(err, ErrClosed), errors.Is(err, ErrDiskFull):
				return nil // the ledger has stopped, and reports any error itself; or Stopping was called
			case err != nil:
				return err
			}
		}
	}
}

// Add offers URLs. It returns the verdicts when the accepted URLs are on disk. If the disk is full, it accepts nothing and returns
// ErrDiskFull.
func (f *Frontier) Add(ctx context.Context, links []Link) ([]Verdict, error) {
	f.mu.Lock()
	full := f.full
	f.mu.Unlock()
	if full {
		return nil, ErrDiskFull
	}
	all := make([]Verdict, 0, len(links))
	for len(links) > 0 {
		n := portion(links)
		adds := additions(links[:n])
		var verdicts []Verdict
		err := f.ledger.do(ctx, together, func(b *batch) (err error) {
			verdicts, err = f.ledger.decideAdds(b, adds)
			return err
		})
		if err != nil {
			return all, fmt.Errorf("add %d URLs: %w", n, err)
		}
		all = append(all, verdicts...)
		links = links[n:]
	}
	return all, nil
}

// Bounds on a request to the ledger, in URLs and in bytes as the store counts them. An item may exceed the latter. One more request fits into
// a batch that is not full: the smallest transaction holds 15 % of 4 MiB.
const (
	maxRequestURLs  = 500
	maxRequestBytes = 200 << 10
	maxBatchBytes   = 2 * maxRequestBytes
)

// cost is the most that the store counts for an entry with its path, in bytes.
func cost(host, path string) int { return len(host) + len(path) + 32 }

// recordCost is the most that the store counts for a record. It counts a value above 255 bytes as a pointer.
const recordCost = 3 + 260 + 255 + 12

// within returns how many of n items fit into a request to the ledger that already has some bytes. The last may exceed the bound.
func within(size, n int, bytes func(i int) int) int {
	for i := range min(n, maxRequestURLs) {
		if size >= maxRequestBytes {
			return i
		}
		size += bytes(i)
	}
	return min(n, maxRequestURLs)
}

// portion returns how many of the links go into one request. It is 0 only if there are no links.
func portion(links []Link) int {
	return within(0, len(links), func(i int) int {
		n := cost(links[i].URL.Host, links[i].URL.Path)
		if i == 0 || links[i].URL.Host != links[i-1].URL.Host {
			n += recordCost
		}
		return n
	})
}

// additions returns links in the form that the ledger takes.
func additions(links []Link) []addition {
	adds := make([]addition, len(links))
	for i, l := range links {
		e := newEntry(l.URL.Host, PendingURL{Path: l.URL.Path, Sitemap: l.Sitemap, Depth: l.Depth, Hops: l.Hops})
		adds[i] = addition{host: l.URL.Host, origin: l.Origin, entry: e}
	}
	return adds
}

// Adjust changes the configuration values that are marked as live. The frontier may be running.
func (f *Frontier) Adjust(cfg Config, p Politeness) {
	f.ledger.mostURLs.Store(int64(cfg.MaxHostURLs))
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.bench.rules
	r.MinGap, r.Factor, r.MaxGap, r.OwnGap, r.BackoffMin = p.MinGap, p.Factor, p.MaxGap, p.OwnGap, p.BackoffMin
	r.RetryConnect, r.RetryName, r.RetryPage = p.RetryConnect, p.RetryName, p.RetryPage
	f.ledger.longest.Store(int64(r.longest()))
}
