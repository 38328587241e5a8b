package placement

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/bell"
	"proxima/node/ownership"
)

// faulty is a world in which one call of the frontier, the crawler or the owners fails.
type faulty struct {
	*world
	call string // which kind of call
	nth  int    // how many of them come before

	mu     sync.Mutex
	failed time.Time
}

// fail returns errLost for the call that fails.
func (f *faulty) fail(call string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if call != f.call {
		return nil
	}
	if f.nth--; f.nth != -1 {
		return nil
	}
	f.failed = time.Now()
	return errLost
}

func (f *faulty) Ready(after string, minURLs, most int) ([]frontier.ReadyHost, string, error) {
	if err := f.fail("Ready"); err != nil {
		return nil, "", err
	}
	return f.world.Ready(after, minURLs, most)
}

func (f *faulty) Activate(ctx context.Context, host string) error {
	return errors.Join(f.world.Activate(ctx, host), f.fail("Activate"))
}

func (f *faulty) TakeFrom(ctx context.Context, host string, addr netip.Addr) (*frontier.Task, error) {
	if err := f.fail("TakeFrom"); err != nil {
		return nil, err
	}
	return f.world.TakeFrom(ctx, host, addr)
}

func (f *faulty) Do(ctx context.Context, task *frontier.Task) error {
	return errors.Join(f.world.Do(ctx, task), f.fail("Do"))
}

func (f *faulty) Refuse(ctx context.Context, task *frontier.Task) (string, error) {
	if err := f.fail("Refuse"); err != nil {
		return "", err
	}
	return f.world.Refuse(ctx, task)
}

func (f *faulty) Finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) error {
	call := "Finish"
	if out.Ending == frontier.Dropped {
		call = "drop"
	} else if out.Ending == frontier.Again && !out.Asked {
		call = "put back"
	}
	return errors.Join(f.world.Finish(ctx, task, out), f.fail(call))
}

func (f *faulty) Record(host string) (ownership.Record, bool, error) {
	if err := f.fail("Record"); err != nil {
		return ownership.Record{}, false, err
	}
	return f.world.Record(host)
}

func (f *faulty) deps() Deps {
	d := f.world.deps()
	d.Frontier, d.Crawler, d.Owners = f, f, f
	return d
}

// An error of the frontier or the crawler ends Run at once, in whichever phase it comes. Nothing is handed off after it.
func TestErrorsOfTheFrontierEndRun(t *testing.T) {
	estimates, comparison := []string{assign.Nearest}, []string{assign.Random, assign.Geographic}
	for _, c := range []struct {
		mode      string
		assigners []string
		call      string
		nth       int
	}{
		{ModeCycle, estimates, "Ready", 0},
		{ModeCycle, estimates, "Activate", 1},
		{ModeCycle, estimates, "TakeFrom", 0},
		{ModeCycle, estimates, "TakeFrom", 5},
		{ModeCycle, estimates, "Do", 0},
		{ModeCycle, estimates, "Refuse", 0},
		{ModeCycle, estimates, "Finish", 2},
		{ModeCycle, estimates, "drop", 0},
		{ModeCycle, comparison, "TakeFrom", 4},
		{ModeCycle, comparison, "Do", 1},
		{ModeCycle, comparison, "Refuse", 2},
		{ModeCycle, comparison, "Finish", 2},
		{ModeCycle, comparison, "put back", 0},
		{ModePersistent, estimates, "Activate", 1},
		{ModePersistent, estimates, "TakeFrom", 3},
		{ModePersistent, estimates, "Do", 3},
		{ModePersistent, estimates, "Ready", 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &faulty{world: newWorld(t), call: c.call, nth: c.nth}
			for i := range 2 {
				f.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
			}
			f.do = func(context.Context, string, RemoteFetch) (Result, error, bool) {
				return Result{Unmade: true}, nil, c.call == "put back" // so the same page comes again
			}
			cfg := cycle()
			cfg.Mode, cfg.Assigners, cfg.CompareURLs = c.mode, c.assigners, 20
			p := New(cfg, f.deps())
			p.SetView(f.view(), "")
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			err := p.Run(ctx)
			name := fmt.Sprintf("mode %s, %v, call %d of %s", c.mode, c.assigners, c.nth, c.call)
			if !errors.Is(err, errLost) || time.Since(f.failed) > 5*time.Second {
				t.Errorf("%s: Run returned %v after %v", name, err, time.Since(f.failed))
			}
			time.Sleep(time.Second) // for the goroutines of the world
			for _, line := range f.log {
				if strings.HasPrefix(line, "hand ") {
					t.Errorf("%s: %s", name, line)
				}
			}
			f.checkRest()
		})
	}
}

// A node that stops while its disk is full ends the writes that wait for room with an error. This is no failure of the node, and its
// other parts go on until they have said farewell.
func TestFullDiskAtTheEndIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://a.example", addrOf(1), 60)
		full := fullDisk{w}
		deps := w.deps()
		deps.Crawler = full
		p := New(cycle(), deps)
		p.SetView(w.view(), "")
		if err := p.Run(t.Context()); err != nil {
			t.Errorf("Run: %v", err)
		}
		time.Sleep(time.Second) // for the goroutines of the world
	})
}

// fullDisk is a world that is being stopped while its disk is full.
type fullDisk struct{ *world }

func (f fullDisk) Finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) error {
	return errors.Join(f.world.Finish(ctx, task, out), fmt.Errorf("finish %s: %w", task.URL, frontier.ErrDiskFull))
}

// A step of a batch that is stopped says so, and asks nobody for a page.
func TestStoppedStepsSaySo(t *testing.T) {
	for name, step := range map[string]func(ctx context.Context, b *batch, s *server) error{
		"resolve": func(ctx context.Context, b *batch, _ *server) error { return b.resolve(ctx) },
		"begin":   func(ctx context.Context, b *batch, _ *server) error { return b.begin(ctx) },
		"lease":   func(ctx context.Context, b *batch, _ *server) error { return b.lease(ctx) },
		"hold":    func(ctx context.Context, b *batch, s *server) error { return b.hold(ctx, s) },
		"decide":  func(ctx context.Context, b *batch, _ *server) error { return b.decide(ctx, b.id) },
		"estimate": func(ctx context.Context, b *batch, s *server) error {
			_, err := s.estimate(ctx, t.Context(), b.id, "nearest", assign.Ask{Server: s.addr, Node: "n1"})
			return err
		},
		"again": func(ctx context.Context, _ *batch, s *server) error {
			_, err := s.again(ctx, "n1", RemoteFetch{})
			return err
		},
		"collect": func(ctx context.Context, b *batch, s *server) error { return b.collect(ctx, s) },
		"round":   func(ctx context.Context, b *batch, s *server) error { return b.round(ctx, s, b.id) },
		"move":    func(ctx context.Context, b *batch, s *server) error { return b.move(ctx, s, "n1", "", handedOff) },
		"persist": func(ctx context.Context, b *batch, _ *server) error { return b.persist(ctx) },
		"sleep":   func(ctx context.Context, _ *batch, _ *server) error { return bell.Sleep(ctx, time.Second) },
		"no time": func(ctx context.Context, _ *batch, _ *server) error { return bell.Sleep(ctx, 0) },
	} {
		synctest.Test(t, func(t *testing.T) {
			w, h, s := oneServer(t, 3)
			s.SetView(w.view(), "")
			s.next, s.pages = time.Now().Add(time.Minute), pagesOf(t, "/0", "/1")
			w.servers[s.addr].holdFor = time.Minute
			ctx, stop := context.WithCancel(t.Context())
			stop()
			b := &batch{Placement: s.Placement, id: "1", hosts: s.hosts, servers: []*server{s}}
			if err := step(ctx, b, s); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
			if len(w.asked) != 0 || len(h.urls) != 3 || h.owner != w.self {
				t.Errorf("%s: asked for %v, %d pages are left at %s", name, w.asked, len(h.urls), h.owner)
			}
			time.Sleep(time.Second) // for the goroutines of the world
		})
	}
}
