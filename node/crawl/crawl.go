// Package crawl is the loop of a node: take a task from the frontier, download it, and give back what became of it and
// the links it held. It owns the fetchers and resolvers and the judgement on answers; it owns no queue, no clock of
// politeness and no file. The rooms it joins (frontier, fetch) know nothing of each other: here their words meet.
package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/fetch"
	"proxima/fetch/blocklist"
	"proxima/fetch/page"
	"proxima/fetch/resolve"
	"proxima/fetch/robots"
	"proxima/fetch/sitemap"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
	"proxima/node/sink"
	"proxima/node/site"
)

// Deps are the rooms that the loop joins.
type Deps struct {
	Frontier  *frontier.Frontier
	Client    *fetch.Client
	Resolver  *resolve.Resolver
	Blocklist *blocklist.List
	Rules     *identity.Rules
	Sites     *site.Table
	RunLog    *runlog.Writer
	// Sink keeps what is downloaded, and Receipts is its shelf. Where it is nil, pages are discarded once their links are read.
	Sink     *sink.Sink
	Receipts *frontier.Shelf
	Page     *page.Parser
	Sitemap  sitemap.Config
	// Files are the directories that sites are read from, by their names in Sites; those that this node does not have are missing.
	Files map[string]*fetch.Files
	// Elsewhere says that another node has the directory of a host's site, and this one has not: the host goes there. Nil: never.
	Elsewhere func(host string) bool
	// Agent is the product token that robots.txt files are read for.
	Agent string
	// TrackDepth offers every link again and again, so that the frontier sees the smallest depth of each URL.
	TrackDepth bool
	// Recrawl says that pages are visited again: the frontier is told what was found of each.
	Recrawl bool
	// SharedLimits says that the limits are those of the whole overlay: Allow and End tell what they leave to this node.
	SharedLimits bool
	// Home is the name that stands in the log as the node that decided about the host, where there is no overlay.
	Home string
	// Overlay is nil where the node crawls alone.
	Overlay Overlay
	// MayAsk says whether this node has the right to ask a server at this instant; nil: always. It is asked right before
	// the first bytes of each request go out, and must not block. Remote fetches are under the lease of the node that
	// wants them: see Visit.MayAsk.
	MayAsk func(addr netip.Addr) error
}

// Loop crawls.
type Loop struct {
	cfg    Config
	live   *atomic.Pointer[Config] // what may change meanwhile (Adjust)
	pool   fetchers
	deps   Deps
	robots *robotsCache
	known  *known
	jar    *site.Jar
	near   *near // nil where near-duplicates are followed
	stats  statistics
	limits *limits
	moved  *moved
	spare  sync.Pool    // of *gather
	heard  atomic.Int64 // when a server answered last, in nanoseconds since began
	began  time.Time
}

// New makes a loop; Run starts it.
func New(cfg Config, deps Deps) *Loop {
	if deps.Overlay == nil {
		deps.Overlay = alone{deps.Home}
	}
	live := new(atomic.Pointer[Config])
	live.Store(&cfg)
	return &Loop{cfg: cfg, live: live, pool: fetchers{wanted: cfg.Fetchers}, deps: deps, robots: newRobotsCache(cfg.RobotsCacheMiB << 20), known: new(known), jar: site.NewJar(), limits: newLimits(cfg, deps.SharedLimits), moved: newMoved(),
		near: newNear(cfg.NearDuplicates), began: time.Now()}
}

// Forget must be called when URLs of a host are gone: links to it are offered again.
func (l *Loop) Forget(host string) {
	l.known.forget(host)
	l.Moved(host)
}

// Moved must be called when a host leaves or comes: its robots.txt is that of the disk, which may have been read at another node
// since it was read here, and so is the number of its pages. Links to it stay known, for its owner has them.
func (l *Loop) Moved(host string) {
	l.robots.drop(host)
	l.limits.forget(host)
}

// Stats says what was downloaded so far.
func (l *Loop) Stats() Stats { return l.stats.snapshot() }

// Limit is the key of the limit that ended the crawl: "max_pages", "max_bytes" or "max_time"; "" where none did.
func (l *Loop) Limit() string { return l.limits.why() }

// grace is how long downloads may go on that are under way when a limit is reached.
const grace = 10 * time.Second

// Run crawls until the context ends, or until the crawl ends by itself as configured. Downloads under way when the context
// ends are broken off and stay pending; when a limit is reached, they are finished. The error is the frontier's: nothing that the
// web does is one.
func (l *Loop) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	taking, full := context.WithCancel(ctx)
	defer full()
	if l.cfg.MaxTime > 0 && !l.deps.SharedLimits {
		defer time.AfterFunc(l.cfg.MaxTime, func() { l.limits.end("max_time") }).Stop()
	}
	g, ctx := errgroup.WithContext(ctx)
	for range l.cfg.Resolvers {
		g.Go(func() error { return l.resolveAll(taking) })
	}
	var fetchers errgroup.Group
	fetchers.Go(func() error {
		l.pool.run(func() { fetchers.Go(func() error { return l.fetchAll(ctx, taking) }) }, taking.Done())
		return nil
	})
	fetched := make(chan struct{})
	g.Go(func() error {
		defer close(fetched)
		return fetchers.Wait()
	})
	g.Go(func() error {
		defer stop()
		l.awaitEnd(ctx)
		if l.limits.sated() {
			full()
			late := time.NewTimer(grace)
			defer late.Stop()
			select {
			case <-ctx.Done():
			case <-fetched:
			case <-late.C:
			}
		}
		return nil
	})
	return g.Wait()
}

// awaitEnd returns when the crawl has ended by itself, or with the context.
func (l *Loop) awaitEnd(ctx context.Context) {
	if l.cfg.End != EndIdle {
		select {
		case <-ctx.Done():
		case <-l.limits.enough:
		}
		return
	}
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
		if idle, _ := l.deps.Frontier.Idle(l.live.Load().Patience); idle || l.deps.Frontier.Hopeless() {
			return
		}
	}
}

// ended says whether an error only means that the crawl is over.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, frontier.ErrClosed) ||
		errors.Is(err, frontier.ErrDiskFull) // it waited for room until the end
}

func (l *Loop) resolveAll(ctx context.Context) error {
	for {
		u, err := l.deps.Frontier.Resolve(ctx)
		if err != nil {
			if ended(err) {
				return nil
			}
			return err
		}
		if err := l.resolve(ctx, u); err != nil && !ended(err) {
			return err
		}
	}
}

// resolve finds the addresses of a host, leaving out those that must not be dialled.
func (l *Loop) resolve(ctx context.Context, u frontier.Unplaced) error {
	if l.files(u.Host) != nil && u.Name == identity.Name(u.Host) {
		l.deps.Frontier.Place(u, []netip.Addr{frontier.FileServer(u.Host)}, 24*time.Hour, 0)
		return nil
	}
	if l.deps.Elsewhere != nil && l.deps.Elsewhere(u.Host) {
		_, err := l.deps.Frontier.Lost(ctx, u, "its files are at another node", true, false)
		return err
	}
	answer, err := l.deps.Resolver.Lookup(ctx, u.Name)
	if err != nil {
		ours := ctx.Err() != nil || errors.Is(err, resolve.ErrClosed)
		if why, own := fetch.OwnTrouble(err); own && !ours {
			ours = true
			l.deps.Frontier.OwnTrouble(why, true)
		}
		if !ours {
			l.deps.Frontier.Answered(true)
			l.stats.update(func(s *Stats) { s.row(RowDNS) })
			l.deps.RunLog.Events().Warn(runlog.EventDNS, runlog.KeyHost, u.Host, runlog.KeyReason, err.Error())
		}
		_, err = l.deps.Frontier.Lost(ctx, u, "DNS: "+reasonOf(err), ours, errors.Is(err, resolve.ErrNotFound) || errors.Is(err, resolve.ErrInvalid))
		return err
	}
	if answer.Elapsed > 0 {
		l.deps.Frontier.Answered(true)
	}
	usable := answer.Addrs[:0:0]
	reason, lasts := "", true
	for _, a := range answer.Addrs {
		if rule, blocked := l.deps.Blocklist.Addr(a); blocked {
			reason = "blocked: " + rule
		} else if class, err := l.deps.Client.Check(a); err != nil {
			reason = words(string(class)) + ": " + err.Error()
			if class == fetch.NoIdentity {
				lasts = false // the operator can mend that
				l.stats.update(func(s *Stats) { s.NoIdentity = true })
			}
		} else {
			usable = append(usable, a)
		}
	}
	if len(usable) == 0 {
		_, err := l.deps.Frontier.Refuse(ctx, u, reason, lasts)
		return err
	}
	l.deps.Frontier.Place(u, usable, answer.TTL, answer.Elapsed)
	return nil
}

// reasonOf is the kind of a failed lookup, in words that can be counted.
func reasonOf(err error) string {
	for _, kind := range []error{resolve.ErrNotFound, resolve.ErrInvalid, resolve.ErrTemporary} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return err.Error()
}

// Do carries out one task.
func (l *Loop) Do(ctx context.Context, task *frontier.Task) error {
	l.limits.join()
	return l.carryOut(ctx, task)
}

// carryOut carries out a task that has a place, unless that was withdrawn.
func (l *Loop) carryOut(ctx context.Context, task *frontier.Task) (err error) {
	begun, page := l.limits.begin(), false
	defer func() { l.limits.giveBack(begun, page) }()
	if !begun {
		return l.putBack(ctx, task)
	}
	page, err = l.do(ctx, task)
	return err
}

// putBack ends a task that is not carried out now.
func (l *Loop) putBack(ctx context.Context, task *frontier.Task) error {
	_, err := l.deps.Frontier.Finish(context.WithoutCancel(ctx), task, frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted})
	return err
}

// do carries out a task, and says whether it counts as a page.
func (l *Loop) do(ctx context.Context, task *frontier.Task) (page bool, err error) {
	// The end of a task is written even when the crawl is being stopped: it is what the next start goes on from.
	keep := context.WithoutCancel(ctx)
	var visit Visit
	wanted := !l.limits.sated()
	if wanted {
		visit, wanted = l.deps.Overlay.Begin(task)
	}
	if !wanted {
		return false, l.putBack(ctx, task)
	}
	if done, err := l.leaveOut(keep, task); done || err != nil {
		return false, err
	}
	defer func() {
		if !page {
			l.limits.unadmit(task)
		}
	}()
	url := task.URL.String()
	res := l.get(ctx, task, url, visit)
	defer res.Release()
	out := judge(&res, time.Now())
	if unasked(&res) {
		return false, l.unasked(ctx, task, url, &res, out)
	}
	l.limits.received(res.WireBytes)
	onDisk := res.Protocol == fetch.ProtocolFile // that says nothing about the network
	if !onDisk {
		l.ownTrouble(&res, &out)
	}
	if task.Kind == frontier.Page && !task.IsRemoteFetch() && !onDisk {
		l.moved.learn(task.URL, &res, l.deps.Rules, time.Now())
	}
	found := 0
	links := l.gather()
	switch {
	case task.Kind == frontier.Robots:
		l.readRobots(task, &res, &out)
	case visit.Quiet:
	case out.Ending == frontier.Done && task.Kind == frontier.Sitemap:
		found = l.readSitemap(task, &res, &out)
	case out.Ending == frontier.Done:
		found = l.readPage(task, &res, &out, links)
	}
	change := ""
	if l.deps.Recrawl && !visit.Quiet {
		out.Visit, change = l.visit(task, &res, &out, links, time.Now())
	}
	written := false
	if ticket := l.keep(keep, task, visit, &res, &out, links); ticket != nil {
		defer func() { ticket.End(written) }()
	}
	fin, err := l.finish(keep, task, out)
	if err != nil {
		return false, err
	}
	written = true
	if fin.Refused == 0 {
		for i := range links.fresh { // only now: what is remembered is on disk
			links.fresh[i].remember()
		}
	}
	l.release(links)
	l.deps.Overlay.Ended(task, Download{Outcome: out, Status: res.Status, Timing: res.Timing, Bytes: res.WireBytes, HTML: !onDisk && isHTML(&res)})
	page = l.record(task, url, visit, &res, out, fin, found)
	l.logChange(task, url, res.Status, out.Visit, change)
	return page, nil
}

// get makes the request of a task. It is broken off when the right to ask the server ends.
func (l *Loop) get(ctx context.Context, task *frontier.Task, url string, visit Visit) fetch.Result {
	if task.MayExpire() || !visit.Until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		task.OnExpire(cancel)
		if !visit.Until.IsZero() {
			defer time.AfterFunc(time.Until(visit.Until), cancel).Stop()
		}
	}
	req := fetch.Request{URL: url, Addr: task.Server, Fresh: visit.Fresh, Capture: l.deps.Sink != nil && l.deps.Sink.Wants(sink.WARC), Until: visit.Until}
	if files := l.files(task.Host); files != nil && task.Server == frontier.FileServer(task.Host) {
		req.Files = files // no server is asked: no lease is needed
	} else if visit.MayAsk != nil {
		req.Gate = visit.MayAsk
	} else if l.deps.MayAsk != nil && !task.IsRemoteFetch() {
		req.Gate = func() error { return l.deps.MayAsk(task.Server) }
	}
	settings := l.deps.Sites.For(task.URL)
	l.customize(&req, task, settings)
	req.IfNoneMatch, req.IfModifiedSince = conditions(task)
	switch task.Kind {
	case frontier.Robots:
		req.MaxBody = robots.MaxBytes + 1
	case frontier.Sitemap:
		req.MaxBody = l.deps.Sitemap.MaxBytes
	}
	res := l.deps.Client.Get(ctx, req)
	if settings.Cookies {
		l.jar.Learn(task.URL, res.Header)
	}
	return res
}

// unasked says that the server was not asked, for want of the right to.
func unasked(res *fetch.Result) bool { return res.Class == fetch.NoRight && !res.Sent }

// unaskedPause is how long a fetcher waits with a task that it had no right to carry out. The frontier hears of the end of a
// lease a little later than the gate, and would give the task out again at once.
const unaskedPause = 100 * time.Millisecond

// unasked gives a task back as it was. It was no download: no line of the log tells of one.
func (l *Loop) unasked(ctx context.Context, task *frontier.Task, url string, res *fetch.Result, out frontier.Outcome) error {
	l.deps.RunLog.Events().Info(runlog.EventWarning, runlog.KeyHost, task.Host, runlog.KeyURL, url, runlog.KeyReason, res.Err.Error())
	select {
	case <-ctx.Done():
	case <-time.After(unaskedPause):
	}
	_, err := l.deps.Frontier.Finish(context.WithoutCancel(ctx), task, out)
	l.deps.Overlay.Ended(task, Download{Outcome: out})
	return err
}

// Refuse says why a task must not be carried out: the blocklist, the settings of its site, or the host's robots.txt.
func (l *Loop) Refuse(task *frontier.Task) (string, error) {
	if rule, blocked := l.blocked(task.URL); blocked {
		return "blocked: " + rule, nil
	}
	if rule, blocked := l.deps.Blocklist.Addr(task.Server); blocked {
		return "blocked: " + rule, nil
	}
	if task.Kind == frontier.Page { // what the operator leaves out now may have been accepted before
		if reason := l.deps.Sites.For(task.URL).Refuse(task.URL); reason != "" {
			return reason, nil
		}
	}
	if task.Kind == frontier.Robots || task.IsRemoteFetch() {
		return "", nil // of a remote fetch, who asks for it has read the robots.txt
	}
	rules, err := l.robotsOf(task.URL)
	if err != nil {
		return "", err
	}
	if !rules.Allowed(task.URL.Path) {
		return "robots.txt disallows", nil
	}
	return "", nil
}

// blocked asks the blocklist about a URL.
func (l *Loop) blocked(u identity.URL) (rule string, blocked bool) {
	if rule, blocked = l.deps.Blocklist.Host(u.Host); blocked {
		return rule, true
	}
	if l.deps.Blocklist.HasPatterns() {
		return l.deps.Blocklist.URL(u.String())
	}
	return "", false
}

// Seed offers URLs as seeds: depth 0. It returns how many were refused, by reason.
func (l *Loop) Seed(ctx context.Context, seeds []identity.URL) (refused map[string]int, err error) {
	refused = make(map[string]int)
	var links []frontier.Link
	for _, u := range seeds {
		if reason := l.Admit(frontier.Link{URL: u}); reason != "" {
			refused[reason]++
		} else if rule, blocked := l.blocked(u); blocked {
			refused["blocked: "+rule]++
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
