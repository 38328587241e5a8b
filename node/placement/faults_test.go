package placement

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/ownership"
)

// faulty is a world in which one call of the frontier, the crawler or the owners fails.
type faulty struct {
	*world
	call string // which kind of call
	nth  int    // how many of them come before
	err  error

	mu     sync.Mutex
	failed time.Time
}

// fail returns the error of the call that fails.
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
	return f.err
}

func (f *faulty) Ready(after string, minURLs, most int) ([]frontier.ReadyHost, string, error) {
	hosts, next, err := f.world.Ready(after, minURLs, most)
	return hosts, next, errors.Join(err, f.fail("Ready"))
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
	reason, err := f.world.Refuse(ctx, task)
	return reason, errors.Join(err, f.fail("Refuse"))
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
	record, known, err := f.world.Record(host)
	return record, known, errors.Join(err, f.fail("Record"))
}

func (f *faulty) deps() Deps {
	d := f.world.deps()
	d.Frontier, d.Crawler, d.Owners = f, f, f
	return d
}

// An error of the frontier or the crawler ends Run at once, in whichever phase it comes. Nothing is handed off after it, and no URL is lost.
// A full disk is no failure of the node: other parts wait for room until it stops, and then go on until they have said farewell.
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
		for _, fault := range []error{errLost, frontier.ErrDiskFull} {
			inWorld(t, 2, func(t *testing.T, w *world) {
				w.do = func(context.Context, string, RemoteFetch) (Result, error, bool) {
					return Result{Unmade: true}, nil, c.call == "put back" // so the same page comes again
				}
				f := &faulty{world: w, call: c.call, nth: c.nth, err: fmt.Errorf("fault: %w", fault)}
				p := New(modeWith(c.mode, 20, c.assigners...), f.deps())
				p.SetView(w.view(), "")
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				err := p.Run(ctx)
				if (fault == errLost) != errors.Is(err, errLost) || fault != errLost && err != nil || time.Since(f.failed) > 5*time.Second {
					t.Errorf("%+v fails with %v: Run returned %v after %v", c, fault, err, time.Since(f.failed))
				}
				w.checkRest()
				for _, h := range w.hosts {
					if h.owner != w.self || len(h.urls)+len(h.finished) != 60 {
						t.Errorf("%+v fails: %s is at %s with %d of 60 URLs", c, h.name, h.owner, len(h.urls)+len(h.finished))
					}
				}
			})
		}
	}
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
			_, err := s.repeatPage(ctx, "n1", RemoteFetch{})
			return err
		},
		"collect": func(ctx context.Context, b *batch, s *server) error { return b.collect(ctx, s) },
		"round":   func(ctx context.Context, b *batch, s *server) error { return b.round(ctx, s, b.id) },
		"move":    func(ctx context.Context, b *batch, s *server) error { return b.move(ctx, s, "n1", "", handedOff) },
		"persist": func(ctx context.Context, b *batch, _ *server) error { return b.runRounds(ctx) },
	} {
		withServer(t, 3, func(t *testing.T, w *world, h *fakeHost, s *server) {
			s.next, s.pages = time.Now().Add(time.Minute), pagesOf(t, "/0", "/1")
			w.servers[s.addr].holdFor = time.Minute
			ctx, stop := context.WithCancel(t.Context())
			stop()
			b := &batch{Placement: s.Placement, id: "1", hosts: s.hosts, servers: []*server{s}}
			begin := time.Now()
			if err := step(ctx, b, s); !errors.Is(err, context.Canceled) || time.Since(begin) > 0 {
				t.Errorf("%s: %v after %v", name, err, time.Since(begin))
			}
			if len(w.asked) != 0 || len(h.urls) != 3 || h.owner != w.self {
				t.Errorf("%s: asked for %v, %d pages are left at %s", name, w.asked, len(h.urls), h.owner)
			}
			time.Sleep(time.Second) // for the goroutines of the world
		})
	}
}
