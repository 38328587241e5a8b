package placement

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/assign"
	"proxima/frontier"
)

// A server that a batch and an exploration have reserved is free when both have let it go.
func TestReservationsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.addHosts(2, 1)
	p := New(cycle(), w.deps())
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

// Notes about hosts that were told to move are forgotten in every mode. Otherwise they would grow with every host received. Without nearest
// servers do not move, and nothing is explored.
func TestHostsThatWereToldAreForgottenInEveryMode(t *testing.T) {
	for _, mode := range []string{ModeCrawl, ModePersistent, ModeCycle} {
		inWorld(t, 0, func(t *testing.T, w *world) {
			w.addAssigned()
			p, stop := w.start(modeWith(mode, 100, assign.Random))
			for range 70 {
				p.Downloaded()
			}
			p.Received("http://a.test", 0)
			told := func() int {
				p.mu.Lock()
				defer p.mu.Unlock()
				return len(p.told)
			}
			time.Sleep(65 * time.Second) // the look at one minute forgets nothing yet
			before := told()
			time.Sleep(10 * time.Second)
			if after := told(); before != 1 || after != 0 {
				t.Errorf("mode %s: %d hosts are noted after a minute, %d after the next look", mode, before, after)
			}
			if stop(); len(w.asked)+len(w.log) > 0 {
				t.Errorf("mode %s: asked for %v, then %q", mode, w.asked, w.log)
			}
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

// addAssigned adds a host that is assigned to this node, and says that n1 is the nearest node to its server, addrOf(1).
func (w *world) addAssigned() (addr netip.Addr) {
	addr = addrOf(1)
	w.addHost("http://a.example", addr, 60).owner = "assigned:home"
	w.servers[addr].holder = w.self
	w.memories[addr] = &assign.Memory{}
	for range 6 {
		for _, node := range []string{"home", "n1", "n2"} {
			w.memories[addr].Observe(node, coordOf(node), pageOver(time.Duration(w.ms(node, addr)*float64(time.Millisecond))), time.Now())
		}
	}
	return addr
}

// moved reports whether the host of addAssigned, and nothing else, was told to move to n1.
func (w *world) moved() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.log) == 1 && strings.HasPrefix(w.log[0], "wish http://a.example n1: ") && strings.HasSuffix(w.log[0], " ms faster there")
}

// A server moves when another node has been better for half a minute, and not before, even if explorations take long because their nodes do
// not answer. If that node is worse for a moment, or another node has the server meanwhile, the half minute begins anew.
func TestServerMovesToTheBetterNode(t *testing.T) {
	for name, c := range map[string]struct {
		between func(w *world, s *fakeServer) // at 25 s for ten seconds
		explore int
		moves   int // when, in seconds
	}{
		"better all the time":   {moves: 40},
		"explorations are slow": {explore: 100, moves: 40},
		"worse for a moment": {moves: 70, between: func(w *world, s *fakeServer) {
			m := &assign.Memory{}
			for range 6 {
				for node, connect := range map[string]time.Duration{"home": time.Millisecond, "n1": time.Second, "n2": time.Second} {
					m.Observe(node, coordOf(node), pageOver(connect), time.Now())
				}
			}
			w.memories[s.addr] = m
		}},
		"elsewhere": {moves: 70, between: func(_ *world, s *fakeServer) { s.holder = "n2" }},
	} {
		inWorld(t, 0, func(t *testing.T, w *world) {
			addr := w.addAssigned()
			w.addHost("http://own.example", addr, 1) // which was not assigned
			w.do = func(context.Context, string, RemoteFetch) (Result, error, bool) {
				time.Sleep(50 * time.Second)
				return Result{}, errUnanswered, true
			}
			p, stop := w.start(cycle())
			for range c.explore {
				p.Downloaded()
			}
			time.Sleep(25 * time.Second)
			s, m := w.servers[addr], w.memories[addr]
			if c.between != nil {
				w.locked(func() { c.between(w, s) })
			}
			time.Sleep(10 * time.Second)
			w.locked(func() { w.memories[addr], s.holder = m, w.self })
			time.Sleep(time.Duration(c.moves-36) * time.Second)
			w.locked(func() {
				if len(w.log) > 0 || len(w.asked) != min(1, c.explore) {
					t.Errorf("%s: too early %q, after %d explorations", name, w.log, len(w.asked))
				}
			})
			time.Sleep(5 * time.Second)
			if !w.moved() {
				t.Errorf("%s: %q", name, w.log)
			}
			time.Sleep(time.Minute) // the exploration ends
			stop()
		})
	}
}

// A server does not move to a node that could not reach it, or had no right to, when it explored.
func TestServerStaysWhereItCanBeReached(t *testing.T) {
	for trouble, stays := range map[frontier.Trouble]bool{frontier.Unreachable: true, frontier.Forbidden: true, frontier.Broken: false} {
		inWorld(t, 0, func(t *testing.T, w *world) {
			w.addAssigned()
			w.do = func(context.Context, string, RemoteFetch) (Result, error, bool) {
				return Result{Outcome: frontier.Outcome{Ending: frontier.Again, Trouble: trouble, Asked: true}}, nil, true
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

// Each exploration that is due is made at one server, by another node, politely. A server without a page, or whose host was not assigned, has
// none. An error is told, unless the node stops.
func TestWhereIsExplored(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(w *world, h *fakeHost)
		fails    string // the first of these calls
		stopped  bool
		asked    int
		troubles int
	}{
		"explored":       {asked: 1},
		"without a page": {change: func(_ *world, h *fakeHost) { h.urls = nil }},
		"of a home":      {change: func(_ *world, h *fakeHost) { h.owner = "home" }},
		"nobody else":    {change: func(w *world, _ *fakeHost) { w.nodes = map[string]bool{"home": true} }},
		"no record":      {fails: "Record", troubles: 1},
		"the node stops": {fails: "Record", stopped: true},
	} {
		inWorld(t, 0, func(t *testing.T, w *world) {
			addr := w.addAssigned()
			for i := range 2 { // servers that are no candidates: one without hosts, and one of which nothing is known
				other := addrOf(5 + i)
				w.servers[other] = &fakeServer{addr: other, holder: w.self}
				if w.memories[other] = w.memories[addr]; i > 0 {
					w.memories[other] = nil
				}
			}
			if c.change != nil {
				c.change(w, w.hosts["http://a.example"])
			}
			f := &faulty{world: w, call: c.fails, err: errLost}
			p := New(cycle(), f.deps())
			p.SetView(w.view(), "")
			p.due = 3.5
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.stopped {
				stop()
			}
			if err := p.explore(ctx); err != nil || p.due != 0.5 || len(w.troubles) != c.troubles || len(w.asked) != c.asked || w.crawled != c.asked {
				t.Errorf("%s: %v, %v are due; asked %v after %d robots.txt; troubles %v", name, err, p.due, w.asked, w.crawled, w.troubles)
			}
			for _, r := range w.asked {
				if r.node == w.self || r.Server != addr || r.Epoch != 7 || !r.Assigned || !r.Fresh || fmt.Sprint(r.Labels) != "[nearest]" {
					t.Errorf("%s: %+v", name, r)
				}
			}
			if n := w.memories[addr].Downloads(); n != 18+c.asked {
				t.Errorf("%s: %d downloads are known", name, n)
			}
			w.checkRest()
		})
	}
}

// One exploration that is due is made at one of two servers, even if the other one fails.
func TestExplorationsOfTwoServers(t *testing.T) {
	for _, fails := range []string{"", "Record"} {
		inWorld(t, 0, func(t *testing.T, w *world) {
			addr := w.addAssigned()
			w.addHost("http://b.example", addrOf(2), 60).owner = "assigned:home"
			w.servers[addrOf(2)].holder, w.memories[addrOf(2)] = w.self, w.memories[addr]
			f := &faulty{world: w, call: fails, err: errLost}
			p := New(cycle(), f.deps())
			p.SetView(w.view(), "")
			p.due = 1
			if err := p.explore(t.Context()); err != nil || len(w.asked) != 1 || len(w.troubles) != min(1, len(fails)) {
				t.Errorf("call that fails: %q: %v; asked %v, troubles %v", fails, err, w.asked, w.troubles)
			}
			w.checkRest()
		})
	}
}

// An estimate waits for 30 s for the politeness of its server, and an exploration for 5 s.
func TestWaitsForPolitenessAreBounded(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		addr := w.addAssigned()
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

// Hosts are told now and then to join the node that holds their server, and not soon after they were received. In mode persistent they stay
// at their home.
func TestHostsJoinTheHolder(t *testing.T) {
	const wish = "wish http://a.example n2: its server is leased to that node"
	for mode, want := range map[string][]string{ModeCrawl: {wish, wish}, ModePersistent: nil} { // as if told at 10 s: again at 70 s and 130 s
		inWorld(t, 0, func(t *testing.T, w *world) {
			addr := w.addAssigned()
			p, stop := w.start(modeWith(mode, 100))
			p.Received("http://a.example", 10*time.Second)
			for range 185 { // every second
				p.LeasedTo(addr, "home")
				p.LeasedTo(addr, "nobody")
				p.LeasedTo(addr, "n2")
				time.Sleep(time.Second)
			}
			stop()
			if !slices.Equal(w.log, want) {
				t.Errorf("mode %s: %q", mode, w.log)
			}
		})
	}
}
