// Package crawl is the loop of a node: it takes a task from the frontier, downloads it, and gives back what became of it with the
// links that it found. It owns the fetchers, the limits of a crawl, and the judgement on answers. The frontier owns the queues and
// the spacing of requests, and package fetch the connections.
//
// New makes a Loop, and Run crawls. Placement carries out single tasks by Do, and ends those that another node carried out by Finish. The other
// nodes are an Overlay to the loop (overlay.go), which owns hosts, too, and asks for pages.
//
// A task passes these files (Loop.do in task.go):
//
//	policy.go, hostlimits.go, moved.go  may it be carried out, or something else instead?
//	request.go                          the request, with the settings of its site
//	outcome.go                          what the answer, or the lack of one, means for the URL and its host
//	read.go, robots.go                  what the body says: the links of a page or a sitemap, the rules of a robots.txt
//	gather.go, known.go                 which links go to the frontier
//	nearduplicates.go                   pages whose links are not followed
//	revisit.go                          what has changed since the last visit
//	archive.go                          what the sink keeps
//
// Beside that, fetchers.go keeps as many fetchers at work as are wanted, limits.go ends the crawl at its limits, and resolve.go looks up names.
package crawl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/fetch"
	"proxima/fetch/page"
	"proxima/fetch/resolve"
	"proxima/fetch/sitemap"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
	"proxima/node/sink"
	"proxima/node/site"
)

// Deps are the parts of a node that the loop connects.
type Deps struct {
	Frontier *frontier.Frontier
	Client   *fetch.Client
	Resolver *resolve.Resolver
	Policy   *Policy
	RunLog   *runlog.Writer
	// Sink keeps what is downloaded; Receipts is its shelf. If Sink is nil, pages are discarded once their links are read.
	Sink     *sink.Sink
	Receipts *frontier.Shelf
	Page     page.Config
	Sitemap  sitemap.Config
	// Elsewhere reports whether another node has the directory that a host is read from, and this one has not. The host then goes to
	// the other node. Nil: never.
	Elsewhere func(host string) bool
	// TrackDepth offers every link again and again, so that the frontier learns the smallest depth of each URL.
	TrackDepth bool
	// Recrawl means that pages are visited again: the frontier is told what each visit found.
	Recrawl bool
	// ScopeSince is when the scope was changed, or zero. Pages seen before are had whole once more: "not modified" has no links.
	ScopeSince time.Time
	// Widen makes a URL a seed. It is nil if seeds bring nothing into scope.
	Widen func(seed identity.URL) error
	// Limits are those that the node shares with the rest of its overlay. They are nil where the node crawls alone.
	Limits *Limits
	// Overlay is Alone where the node crawls alone.
	Overlay Overlay
}

// Loop crawls.
type Loop struct {
	cfg      Config       // as it was at the start; Adjust changes fetchers and patience
	pool     fetchers     // the goroutines that download
	patience atomic.Int64 // Config.Patience, in nanoseconds
	deps     *Deps
	reader   *reader
	jar      *site.Jar // the cookies of the sites that are set to have them
	walls    *site.Jar // the cookies without which pages of other sites redirect to themselves
	stats    *statistics
	limits   *Limits
	hosts    *hostLimits
	moved    *moved        // the hosts that redirect all their pages
	sitemaps chan struct{} // has an element for each sitemap whose URLs are in memory
	heard    atomic.Int64  // when a server last answered, in nanoseconds since began
	began    time.Time
}

// New makes a loop. Run starts it.
func New(cfg Config, deps Deps) *Loop {
	stats := new(statistics)
	l := &Loop{cfg: cfg, deps: &deps, stats: stats, reader: newReader(cfg, &deps, stats), jar: site.NewJar(), walls: site.NewJar(),
		limits: deps.Limits, moved: newMoved(),
		sitemaps: make(chan struct{}, maxSitemaps), began: time.Now()}
	if l.limits == nil {
		l.limits = NewLimits(cfg, nil)
	}
	l.hosts = newHostLimits(cfg, l.requested)
	l.Adjust(cfg)
	return l
}

// requested returns how many pages of a host were requested at all nodes, or how many pages and sitemaps since the crawl began where the node
// crawls alone.
func (l *Loop) requested(ctx context.Context, host string) (int64, error) {
	if l.limits.shared() {
		had, err := l.deps.Frontier.DigestOf(ctx, host)
		return int64(had.Done), err
	}
	had, err := l.deps.Frontier.StateOf(ctx, host)
	if err != nil || had == nil {
		return 0, err
	}
	return int64(had.Done + had.Failed), nil
}

// Adjust takes over those values of a configuration that may change while the loop runs.
func (l *Loop) Adjust(cfg Config) {
	l.patience.Store(int64(cfg.Patience))
	l.pool.want(cfg.Fetchers)
}

// Forget must be called when URLs of a host are lost from the disk: links to them are then offered again.
func (l *Loop) Forget(host string) {
	l.reader.known.forget(host)
	l.Moved(host)
}

// Moved must be called when a host leaves or comes. Another node may have read its robots.txt since, and requested pages of it: what
// this node remembers of both is no longer true. Links to the host stay known, because its owner has them.
func (l *Loop) Moved(host string) {
	l.reader.robots.drop(host)
	l.hosts.forget(host)
}

// Stats counts what was downloaded so far.
func (l *Loop) Stats() Stats { return l.stats.snapshot() }

// DropLinks counts links that are not offered to the frontier.
func (l *Loop) DropLinks(reason string, n int) { l.stats.drop(drop{reason, n}) }

// Limit is the key of the limit that ended the crawl: "max_pages", "max_bytes" or "max_time"; or "" if none did.
func (l *Loop) Limit() string { return l.limits.why() }

// Downloads that are under way may go on for so long.
const (
	grace   = 10 * time.Second // when a limit is reached
	parting = time.Second      // when the node stops: most of them end in it, and are not asked for again
)

// Run crawls until the context ends, or until the crawl ends by itself as configured. Downloads that are under way then may end, within
// bounds. Those that do not are broken off and stay pending. The error is one of the frontier: no failure on the web is an error here.
func (l *Loop) Run(ctx context.Context) error {
	// There are three contexts. stopped ends when the node stops, taking when no further task is begun (then, or at the end of the crawl), and ctx
	// when downloads under way are broken off.
	stopped := ctx
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if most := l.cfg.MaxTime; most > 0 {
		if l.limits.shared() {
			most += grace // the overlay ends the crawl before, unless this node is cut off
		}
		defer time.AfterFunc(most, func() { l.limits.End("max_time") }).Stop()
	}
	g, ctx := errgroup.WithContext(ctx)
	taking, stopTaking := context.WithCancel(ctx)
	defer context.AfterFunc(stopped, stopTaking)()
	for range l.cfg.Resolvers {
		g.Go(func() error { return l.placeAll(taking) })
	}
	var fetchers errgroup.Group
	fetchers.Go(func() error {
		l.pool.run(func() {
			fetchers.Go(func() error {
				err := l.fetchAll(ctx, taking)
				if err != nil {
					stop()
				}
				return err
			})
		}, taking.Done())
		return nil
	})
	fetched := make(chan struct{})
	g.Go(func() error {
		defer close(fetched)
		return fetchers.Wait()
	})
	g.Go(func() error {
		defer stop()
		l.awaitEnd(taking)
		stopTaking()
		late := time.AfterFunc(grace, stop)
		defer late.Stop()
		defer context.AfterFunc(stopped, func() { late.Reset(parting) })()
		select {
		case <-ctx.Done():
		case <-fetched:
		}
		return nil
	})
	return g.Wait()
}

// awaitEnd returns when the crawl has ended by itself, or with the context.
func (l *Loop) awaitEnd(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.limits.enough:
			return
		case <-l.deps.Frontier.Quiet():
		case <-tick.C:
		}
		if l.cfg.End != EndIdle {
			continue
		}
		if l.deps.Frontier.Idle(time.Duration(l.patience.Load())) || l.deps.Frontier.Hopeless() {
			return
		}
	}
}

// unlessOver returns an error, or nil if it only means that the crawl is over.
func unlessOver(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, frontier.ErrClosed) ||
		errors.Is(err, frontier.ErrDiskFull) { // a full disk makes callers wait until the end
		return nil
	}
	return err
}

// fetchAll carries out tasks until taking ends, or until there are more fetchers than wanted. A task that is under way goes on until ctx ends.
func (l *Loop) fetchAll(ctx, taking context.Context) error {
	for !l.pool.excess() && l.limits.reserve(taking) {
		task, err := l.deps.Frontier.Take(taking)
		if err == nil {
			err = l.carryOut(ctx, task)
		} else {
			l.limits.giveBack(false, false)
		}
		if err != nil {
			return unlessOver(err)
		}
	}
	return nil
}

// Seed offers URLs as seeds, with depth 0. It returns how many were refused, by reason.
func (l *Loop) Seed(ctx context.Context, seeds []identity.URL) (refused map[string]int, err error) {
	refused = make(map[string]int)
	var links []frontier.Link
	for _, u := range seeds {
		if reason := l.deps.Policy.Refuse(frontier.Link{URL: u}); reason != "" {
			refused[reason]++
		} else {
			links = append(links, frontier.Link{URL: u})
		}
	}
	mine, err := l.deps.Overlay.Route(ctx, links)
	if err != nil {
		return nil, fmt.Errorf("add seeds: %w", err)
	}
	verdicts, err := l.deps.Frontier.Add(ctx, mine)
	if err != nil {
		return nil, fmt.Errorf("add seeds: %w", err)
	}
	var away []frontier.Link
	for i, v := range verdicts {
		switch v {
		case frontier.Accepted, frontier.Duplicate:
		case frontier.NotOwned:
			away = append(away, mine[i])
		default:
			refused[v.String()]++
		}
	}
	if len(away) > 0 {
		if err := l.deps.Overlay.PassOn(ctx, away); err != nil {
			return nil, fmt.Errorf("add seeds: %w", err)
		}
	}
	return refused, nil
}
