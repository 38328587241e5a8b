package frontier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"proxima/frontier/identity"
)

// life is a frontier that runs.
type life struct {
	*Frontier
	t    testing.TB
	end  context.CancelFunc
	over chan error
}

// begin opens a frontier and runs it until the test ends or stop is called.
func begin(t testing.TB, dir string, cfg Config, polite Politeness, deps Deps) *life {
	t.Helper()
	return beginWith(t, dir, cfg, polite, deps, func(*Frontier) {})
}

// inMemory begins a frontier without a directory and with nothing from outside.
func inMemory(t testing.TB) func(cfg Config, polite Politeness) *life {
	return func(cfg Config, polite Politeness) *life { return begin(t, "", cfg, polite, Deps{}) }
}

// beginWith is begin with a change of what is inside.
func beginWith(t testing.TB, dir string, cfg Config, polite Politeness, deps Deps, change func(*Frontier)) *life {
	t.Helper()
	f, err := Open(dir, cfg, polite, deps)
	must(t, err)
	change(f)
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{Frontier: f, t: t, end: cancel, over: make(chan error, 1)}
	go func() { l.over <- f.Run(ctx) }()
	t.Cleanup(l.stop)
	return l
}

// opened is a frontier in memory that does not run. It is closed when the test ends.
func opened(t testing.TB, cfg Config, polite Politeness) *Frontier {
	t.Helper()
	f, err := Open("", cfg, polite, Deps{})
	must(t, err)
	t.Cleanup(func() { must(t, f.store.close()) })
	return f
}

// crawling begins a frontier whose hosts are all at one address, and may all be crawled.
func crawling(t testing.TB, dir string, cfg Config, polite Politeness) *life {
	t.Helper()
	l := begin(t, dir, cfg, polite, Deps{})
	l.placing(addr1)
	if cfg.Shared {
		go l.letAll()
	}
	return l
}

func (l *life) stop() {
	if l.end == nil {
		return
	}
	if err := l.halt(); err != nil {
		l.t.Error(err)
	}
}

// halt is stop for a frontier that may have failed. It returns the error.
func (l *life) halt() error {
	l.end()
	l.end = nil
	return <-l.over
}

func (l *life) add(links ...Link) []Verdict {
	l.t.Helper()
	verdicts, err := l.Add(l.t.Context(), links)
	must(l.t, err)
	return verdicts
}

func (l *life) role(host string, h Role) {
	l.t.Helper()
	must(l.t, l.SetRole(l.t.Context(), host, h))
}

func (l *life) roleIs(host string, want Role, known bool) {
	l.t.Helper()
	if h, k, err := l.RoleOf(l.t.Context(), host); err != nil || h != want || k != known {
		l.t.Errorf("%s is %v, known %v, %v; want %v, %v", host, h, k, err, want, known)
	}
}

func (l *life) digest(host string) Digest {
	l.t.Helper()
	d, err := l.DigestOf(l.t.Context(), host)
	must(l.t, err)
	return d
}

// export reads a host in chunks of n, from a position on.
func (l *life) export(host string, at Cursor, n int) (chunks []Chunk) {
	l.t.Helper()
	for {
		c, next, end, err := l.Export(l.t.Context(), host, at, n, 1<<20)
		must(l.t, err)
		if all := len(c.Pending) + len(c.Done) + len(c.Pages); all >= n+maxBlockURLs+maxFresh { // the last block, and what is in the record
			l.t.Errorf("%d URLs in a chunk of %d", all, n)
		}
		chunks = append(chunks, c)
		if at = next; end {
			return chunks
		}
	}
}

func (l *life) imported(host string, chunks ...Chunk) {
	l.t.Helper()
	for _, c := range chunks {
		must(l.t, second(l.Import(l.t.Context(), host, c, Assigned)))
	}
}

// placing puts all names at an address until the frontier ends.
func (l *life) placing(addr netip.Addr) {
	go l.resolve(context.Background(), func(string) []netip.Addr { return []netip.Addr{addr} })
}

// resolve places hosts by their names, until the context or the frontier ends. A name without an address is lost.
func (l *life) resolve(ctx context.Context, address func(name string) []netip.Addr) {
	for {
		u, err := l.Resolve(ctx)
		if err != nil {
			return
		}
		if addrs := address(u.Name); addrs != nil {
			l.Place(u, addrs, time.Hour, 0)
		} else if err := l.Lost(context.Background(), u, "no such name", false, true); err != nil {
			l.t.Error(err)
		}
	}
}

// unplaced is a host that comes onto the workbench, with a URL, and whose name is being looked up.
func (l *life) unplaced(host string) Unplaced {
	l.t.Helper()
	l.add(page(host, 0))
	err := l.Activate(l.t.Context(), host)
	u, none := l.Resolve(l.t.Context())
	must(l.t, errors.Join(err, none))
	return u
}

// taking returns the next task within a time, or nil.
func (l *life) taking(within time.Duration) *Task {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	task, err := l.Take(ctx)
	if err != nil {
		return nil
	}
	return task
}

func (l *life) finish(task *Task, out Outcome) Finished {
	l.t.Helper()
	if task.Kind == Robots && out.Robots == nil && out.Trouble == NoTrouble {
		out.Robots = &RobotsOutcome{Lifetime: 24 * time.Hour}
	}
	out.Asked = true
	res, err := l.Finish(context.Background(), task, out)
	must(l.t, err)
	return res
}

var addr1 = netip.MustParseAddr("192.0.2.1")

func page(host string, i int) Link {
	return Link{URL: identity.URL{Host: host, Path: fmt.Sprintf("/page/%d.html", i)}}
}

// pages are n links of a host from the first on.
func pages(host string, first, n int) (links []Link) {
	for i := range n {
		links = append(links, page(host, first+i))
	}
	return links
}

func allAre(verdicts []Verdict, want Verdict) bool {
	for _, v := range verdicts {
		if v != want {
			return false
		}
	}
	return true
}

// ownServers makes servers that need no gaps of 192.0.2.0/24, where work puts all hosts.
func ownServers(cfg Config, polite Politeness) (Config, Politeness) {
	polite.Own, polite.OwnGap, polite.OwnParallel = []string{"192.0.2.0/24"}, 0, 4
	return cfg, polite
}

// crawl takes up to n pages, until the context ends, and ends them as answer says. It returns their addresses.
func (l *life) crawl(ctx context.Context, n int, answer func(*Task) Outcome) (done []string) {
	l.t.Helper()
	for len(done) < n {
		task, err := l.Take(ctx)
		if err != nil {
			break
		}
		out := Outcome{Ending: Done, Asked: true, Robots: &RobotsOutcome{Lifetime: 24 * time.Hour, Body: []byte("of " + task.Host)}}
		if task.Kind != Robots {
			done = append(done, task.URL.String())
			out = answer(task)
		}
		must(l.t, second(l.Finish(context.Background(), task, out)))
	}
	return done
}

// untilIdle is a context that ends when the frontier has been found idle. After some days of a crawl that does not end the test fails.
func (l *life) untilIdle(patience time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Hour)
	go func() {
		defer cancel()
		for !l.Idle(patience) {
			select {
			case <-ctx.Done():
				if errors.Is(ctx.Err(), context.DeadlineExceeded) {
					l.t.Errorf("the crawl does not end: %+v", l.Status())
				}
				return
			case <-l.Quiet():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return ctx, cancel
}

// crawlAll is crawl until the frontier is idle.
func (l *life) crawlAll(n int, answer func(*Task) Outcome) (done []string) {
	l.t.Helper()
	ctx, cancel := l.untilIdle(time.Minute)
	defer cancel()
	return l.crawl(ctx, n, answer)
}

// work downloads up to n pages and returns their addresses; it ends before when the frontier is idle.
func (l *life) work(n int) (done []string) {
	l.t.Helper()
	return l.crawlAll(n, func(*Task) Outcome { return Outcome{Ending: Done, Asked: true} })
}

// scanned is the digest as a look at all URLs gives it.
func (l *life) scanned(host string) (d Digest) {
	l.t.Helper()
	err := l.ledger.onHost(context.Background(), alone, host, func(b *batch, h *hostEntry) error {
		l := l.ledger
		l.settle()
		l.sets.forget(host)
		set, err := l.exact(b, host)
		if err != nil {
			return err
		}
		d = set.digest()
		d.Drops = h.rec.digest.Drops
		err = l.store.eachPage(hostKey(kindPage, host), func(string, uint64, stamp) { d.Pages++ })
		pages, _, more := l.store.duePages(host, nil, 1<<32-1, math.MaxInt)
		for _, p := range pages {
			d.PagesXor ^= p.record.mark(p.hash)
		}
		return errors.Join(err, more)
	})
	must(l.t, err)
	return d
}

// letAll lets every host be crawled, until the frontier ends.
func (l *life) letAll() {
	for {
		names, err := l.Unchecked(context.Background())
		if err != nil {
			return
		}
		reasons := make(map[string]string)
		for _, name := range names {
			reasons[name] = ""
		}
		l.Suspend(reasons)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func third[A, B any](_ A, _ B, err error) error { return err }

func second[A any](_ A, err error) error { return err }

func fourth[A, B, C any](_ A, _ B, _ C, err error) error { return err }

func count(verdicts []Verdict, want Verdict) (n int) {
	for _, v := range verdicts {
		if v == want {
			n++
		}
	}
	return n
}
