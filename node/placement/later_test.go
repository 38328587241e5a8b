package placement

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/frontier"
)

// A server that a batch and an exploration have reserved is free when both have let it go.
func TestReservationsAreCounted(t *testing.T) {
	w := newWorld(t)
	p := New(cycle(), w.deps())
	w.addHost("http://a.example", addrOf(1), 1)
	w.addHost("http://b.example", addrOf(2), 1)
	for i, step := range []struct {
		server   int
		on       bool
		reserved []int
	}{
		{1, true, []int{1}},
		{2, true, []int{1, 2}},
		{1, true, []int{1, 2}},
		{1, false, []int{1, 2}},
		{2, false, []int{1}},
		{1, false, nil},
		{1, true, []int{1}},
		{1, false, nil},
	} {
		p.reserve(addrOf(step.server), step.on)
		for _, server := range []int{1, 2} {
			if got, want := w.servers[addrOf(server)].reserved, slices.Contains(step.reserved, server); got != want {
				t.Errorf("after step %d server %d is reserved: %v", i, server, got)
			}
		}
	}
	if len(p.reserved) != 0 {
		t.Errorf("%v are remembered", p.reserved)
	}
}

// Notes about hosts that were told to move are forgotten in every mode. Otherwise they would grow with every host received.
func TestHostsThatWereToldAreForgottenInEveryMode(t *testing.T) {
	for _, mode := range []string{ModeCrawl, ModePersistent, ModeCycle} {
		synctest.Test(t, func(t *testing.T) {
			cfg := Default()
			cfg.Mode, cfg.Assigners = mode, []string{assign.Random}
			p, stop := newWorld(t).start(cfg)
			p.Received("http://a.test", 0)
			told := func() int {
				p.mu.Lock()
				defer p.mu.Unlock()
				return len(p.later.told)
			}
			time.Sleep(65 * time.Second) // the look at one minute forgets nothing yet
			if n := told(); n != 1 {
				t.Errorf("mode %s: %d hosts are noted after a minute", mode, n)
			}
			time.Sleep(10 * time.Second)
			if n := told(); n != 0 {
				t.Errorf("mode %s: %d hosts are noted after the next look", mode, n)
			}
			stop()
		})
	}
}

// The share of explorations is exploreShare, however many downloads there are between two looks.
func TestExplorationsAreTheirShare(t *testing.T) {
	for _, downloads := range []int{1, 7, 66, 67, 100, 133, 1000} {
		p, all, n := &Placement{}, 0, 0
		for all < 20_000 {
			for range downloads {
				p.Downloaded()
			}
			all += downloads
			n += p.explorations()
		}
		if want := int(exploreShare * float64(all)); n < want-1 || n > want+1 {
			t.Errorf("%d downloads a time: %d explorations in %d, want %d", downloads, n, all, want)
		}
	}
}

// assigned makes a world whose node owns an assigned host, and knows that n1 is the nearest node to its server.
func assigned(t *testing.T) (w *world, addr netip.Addr) {
	w, addr = newWorld(t), addrOf(1)
	w.addHost("http://a.example", addr, 60).owner = "assigned:home"
	w.servers[addr].holder = w.self
	w.memories[addr] = &assign.Memory{}
	for range 6 {
		for _, node := range []string{"home", "n1", "n2"} {
			connect := time.Duration(w.ms(node, addr) * float64(time.Millisecond))
			w.memories[addr].Observe(node, w.coordOf(node), pageOver(connect), time.Now())
		}
	}
	return w, addr
}

// A server moves when another node has been better for half a minute, and not before.
func TestServerMovesToTheBetterNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, addr := assigned(t)
		w.addHost("http://own.example", addr, 1) // which was not assigned
		_, stop := w.start(cycle())
		time.Sleep(39 * time.Second)
		w.mu.Lock()
		early := slices.Clone(w.log)
		w.mu.Unlock()
		time.Sleep(5 * time.Second)
		stop()
		if len(early) != 0 || len(w.log) != 1 || !strings.HasPrefix(w.log[0], "wish http://a.example n1: ") || !strings.HasSuffix(w.log[0], " ms faster there") {
			t.Errorf("%q, and then %q", early, w.log)
		}
	})
}

// Servers move in time even if explorations take long, because their nodes do not answer.
func TestServersMoveWhileExplorationsTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := assigned(t)
		w.do = func(context.Context, string, RemoteFetch) (Result, error, bool) {
			time.Sleep(50 * time.Second)
			return Result{}, ErrUnanswered, true
		}
		p, stop := w.start(cycle())
		for range 100 {
			p.Downloaded()
		}
		time.Sleep(45 * time.Second)
		w.mu.Lock()
		asked, log := len(w.asked), slices.Clone(w.log)
		w.mu.Unlock()
		if asked != 1 || len(log) != 1 || !strings.HasPrefix(log[0], "wish http://a.example n1: ") {
			t.Errorf("after %d explorations: %q", asked, log)
		}
		time.Sleep(15 * time.Second) // the exploration ends
		stop()
	})
}

// A server does not move to a node that could not reach it, or had no right to, when it explored.
func TestServerStaysWhereItCanBeReached(t *testing.T) {
	for trouble, stays := range map[frontier.Trouble]bool{frontier.Unreachable: true, frontier.Forbidden: true, frontier.Broken: false} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := assigned(t)
			w.do = func(context.Context, string, RemoteFetch) (Result, error, bool) {
				return Result{Ending: frontier.Again, Trouble: trouble, Asked: true}, nil, true
			}
			p, stop := w.start(cycle())
			for range 70 {
				p.Downloaded()
			}
			time.Sleep(90 * time.Second)
			stop()
			toN1 := slices.ContainsFunc(w.log, func(s string) bool { return strings.HasPrefix(s, "wish http://a.example n1: ") })
			if len(w.asked) != 1 || w.asked[0].node != "n1" || toN1 == stays {
				t.Errorf("trouble %v: asked %v, then %q", trouble, w.asked, w.log)
			}
		})
	}
}

// If the other node is worse for a moment, or another node has the server meanwhile, the half minute begins anew.
func TestServerStaysWhileNobodyIsBetterForLong(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, addr := assigned(t)
			_, stop := w.start(cycle())
			time.Sleep(25 * time.Second)
			worse := &assign.Memory{}
			for range 6 {
				for node, connect := range map[string]time.Duration{"home": time.Millisecond, "n1": time.Second, "n2": time.Second} {
					worse.Observe(node, w.coordOf(node), pageOver(connect), time.Now())
				}
			}
			w.mu.Lock()
			better := w.memories[addr]
			if elsewhere {
				w.servers[addr].holder = "n2"
			} else {
				w.memories[addr] = worse
			}
			w.mu.Unlock()
			time.Sleep(10 * time.Second)
			w.mu.Lock()
			w.memories[addr], w.servers[addr].holder = better, w.self
			w.mu.Unlock()
			time.Sleep(30 * time.Second)
			stop()
			if len(w.log) != 0 {
				t.Errorf("with the server elsewhere (%v): %q", elsewhere, w.log)
			}
		})
	}
}

// Other nodes download a share of the pages of an assigned server, politely.
func TestOthersExplore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, addr := assigned(t)
		p, stop := w.start(cycle())
		for range 70 {
			p.Downloaded()
		}
		time.Sleep(25 * time.Second)
		stop()
		if len(w.asked) != 1 || w.asked[0].node == "home" || w.asked[0].Server != addr || w.asked[0].Epoch != 7 || !w.asked[0].Assigned || !w.asked[0].Fresh ||
			fmt.Sprint(w.asked[0].Labels) != "[nearest]" || w.crawled != 1 {
			t.Errorf("asked %+v after %d robots.txt", w.asked, w.crawled)
		}
		if n := w.memories[addr].Downloads(); n != 19 {
			t.Errorf("%d downloads are known, want 19", n)
		}
	})
}

// Each exploration that is due is made at one server, by another node. A server without a page, or whose host was not assigned, has none.
func TestWhereIsExplored(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, h *fakeHost)
		asked  int
		known  int // downloads after it
	}{
		"explored":       {func(*world, *fakeHost) {}, 1, 19},
		"without a page": {func(_ *world, h *fakeHost) { h.urls = nil }, 0, 18},
		"of a home":      {func(_ *world, h *fakeHost) { h.owner = "home" }, 0, 18},
		"nobody else":    {func(w *world, _ *fakeHost) { w.nodes = map[string]bool{"home": true} }, 0, 18},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, addr := assigned(t)
			w.do = func(_ context.Context, _ string, f RemoteFetch) (Result, error, bool) {
				r := page200(time.Second)
				r.Coord, r.Links = w.coordOf("n1"), linksOf(f.URL)
				return r, nil, true
			}
			for i := range 2 { // servers that are no candidates: one without hosts, and one of which nothing is known
				other := addrOf(5 + i)
				w.servers[other] = &fakeServer{addr: other, holder: w.self}
				if w.memories[other] = w.memories[addr]; i > 0 {
					w.memories[other] = nil
				}
			}
			c.change(w, w.hosts["http://a.example"])
			p := New(cycle(), w.deps())
			p.SetView(w.view(), "")
			p.later.due = 3.5
			if err := p.explore(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := w.memories[addr].Downloads(); len(w.asked) != c.asked || n != c.known || p.later.due != 0.5 || len(w.troubles) > 0 {
				t.Errorf("%s: asked %v, %d downloads are known, %v are due; troubles %v", name, w.asked, n, p.later.due, w.troubles)
			}
			w.checkRest()
		})
	}
}

// One exploration that is due is made at one of two servers. An error is told, unless the node stops.
func TestExplorationsOfTwoServers(t *testing.T) {
	for name, c := range map[string]struct {
		call            string // that fails
		stopped         bool
		asked, troubles int
	}{"both can be explored": {asked: 1}, "the first fails": {call: "Record", asked: 1, troubles: 1}, "the node stops": {call: "Record", stopped: true}} {
		synctest.Test(t, func(t *testing.T) {
			w, addr := assigned(t)
			w.addHost("http://b.example", addrOf(2), 60).owner = "assigned:home"
			w.servers[addrOf(2)].holder, w.memories[addrOf(2)] = w.self, w.memories[addr]
			f := &faulty{world: w, call: c.call}
			p := New(cycle(), f.deps())
			p.SetView(w.view(), "")
			p.later.due = 1
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.stopped {
				stop()
			}
			if err := p.explore(ctx); err != nil || len(w.asked) != c.asked || len(w.troubles) != c.troubles {
				t.Errorf("%s: %v; asked %v, troubles %v", name, err, w.asked, w.troubles)
			}
			w.checkRest()
		})
	}
}

// An estimate waits for 30 s for the politeness of its server, and an exploration for 5 s.
func TestWaitsForPolitenessAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, addr := assigned(t)
		w.servers[addr].knows = time.Now().Add(time.Hour)
		p := New(cycle(), w.deps())
		p.SetView(w.view(), "")
		s := &server{Placement: p, addr: addr, hosts: []*host{{name: "http://a.example"}}}
		for want, wait := range map[time.Duration]func() error{
			30 * time.Second: func() error {
				s.reserve(addr, true)
				defer s.reserve(addr, false)
				_, err := s.take(t.Context(), t.Context())
				return err
			},
			5 * time.Second: func() error { _, err := p.exploreServer(t.Context(), addr); return err },
		} {
			if begin := time.Now(); wait() != nil || time.Since(begin) != want {
				t.Errorf("it waited for %v, want %v", time.Since(begin), want)
			}
		}
		w.checkRest()
	})
}

// In mode persistent a host stays at its home if a peer holds its server.
func TestHostsOfRoundsJoinNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, addr := assigned(t)
		cfg := Default()
		cfg.Mode = ModePersistent
		p, stop := w.start(cfg)
		p.LeasedTo(addr, "n2")
		stop()
		if len(w.log) != 0 {
			t.Errorf("%q", w.log)
		}
	})
}

// Hosts are told now and then to join the node that holds their server, and not soon after they were received.
func TestHostsJoinTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, addr := assigned(t)
		p, stop := w.start(Default())
		p.Received("http://a.example", 10*time.Second)
		for range 140 { // every second
			p.LeasedTo(addr, "home")
			p.LeasedTo(addr, "nobody")
			p.LeasedTo(addr, "n2")
			time.Sleep(time.Second)
		}
		stop()
		// As if told at 10 s: told again at 70 s and 130 s.
		if want := "[wish http://a.example n2: its server is leased to that node wish http://a.example n2: its server is leased to that node]"; fmt.Sprint(w.log) != want {
			t.Errorf("%q", w.log)
		}
	})
}
