package placement

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"proxima/assign"
	"proxima/frontier"
)

// In mode persistent the chosen nodes download the same pages again and again. A node that becomes slow loses its servers, and gets them back
// when it has recovered. The hosts stay at their home.
func TestPersistentHandsOutTheSameBatch(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.addHost("http://foreign.example", addrOf(250), 60) // which stays, and is not asked
		p, stop := w.start(modeWith(ModePersistent, 6))
		time.Sleep(20 * time.Minute)
		if s := p.Status(); s.Rounds < 5 || !p.Busy() || s.HandedOff != 0 || s.Kept == 0 {
			t.Errorf("status %+v", s)
		}
		for round, n := range w.asks(0, func(r request) string {
			if r.Fresh == r.Assigned || !r.Quiet || r.URL.Host == "http://foreign.example" { // estimates are fresh, and nobody reads links again
				t.Errorf("%+v", r)
			}
			return assignedKey(r, r.Batch+" "+r.URL.Host)
		}) {
			if n > 6 {
				t.Errorf("%s: %d pages", round, n)
			}
		}
		if pages := w.asks(0, func(r request) string { return r.URL.String() }); len(pages) != 4*6 {
			t.Errorf("%d different pages", len(pages))
		}
		last := func(from int, addr netip.Addr) (node string) {
			w.asks(from, func(r request) string {
				if r.Assigned && r.Server == addr {
					node = r.node
				}
				return ""
			})
			return node
		}
		for i := range 4 {
			if got, want := last(0, addrOf(1+i)), nearestTo(addrOf(1+i)); got != want {
				t.Errorf("server %d was last downloaded by %s, want %s", i, got, want)
			}
		}
		before, slow, asked := w.ms, nearestTo(addrOf(1)), w.requests()
		w.locked(func() {
			w.ms = func(node string, addr netip.Addr) float64 {
				if node == slow {
					return 10*before(node, addr) + 300
				}
				return before(node, addr)
			}
		})
		time.Sleep(time.Hour)
		if last(asked, addrOf(1)) == slow {
			t.Errorf("%s has become slow, and still gets its server", slow)
		}
		w.locked(func() { w.ms = before })
		for limit := time.Now().Add(12 * time.Hour); last(asked, addrOf(1)) != slow; time.Sleep(10 * time.Minute) {
			if time.Now().After(limit) { // only an exploration can notice it
				t.Fatalf("%s has recovered, and its server is still at %s", slow, last(asked, addrOf(1)))
			}
		}
		stop()
		for name, h := range w.hosts {
			if h.owner != "home" {
				t.Errorf("%s is at %s", name, h.owner)
			}
		}
	})
}

// A host that becomes ready after the first round is in one soon, even if its server is in the batch already. If a peer holds its
// server, the host does not join that peer, and comes into a later round. A host with another home leaves the batch, and so does its
// server.
func TestRoundsTakeInWhatBecomesReady(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		first := w.addHost("http://first.example", addrOf(1), 60)
		w.addHost("http://leased.example", addrOf(2), 60)
		w.servers[addrOf(2)].holder = "n3"
		cfg := modeWith(ModePersistent, 3)
		cfg.Hosts = 4
		p, stop := w.start(cfg)
		// rounds checks that, in the next minutes, so many hosts are in rounds, with these among them.
		rounds := func(minutes, hosts int, among ...string) {
			t.Helper()
			from, in := w.requests(), make(map[string]int)
			time.Sleep(time.Duration(minutes) * time.Minute)
			for key := range w.asks(from, func(r request) string { return assignedKey(r, r.URL.Host+" "+r.Batch) }) {
				host, _, _ := strings.Cut(key, " ")
				in[host]++
			}
			for _, name := range among {
				if in["http://"+name+".example"] < 5 || len(in) != hosts {
					t.Errorf("rounds by host: %v, want %d hosts, with %s among them", in, hosts, name)
				}
			}
		}
		rounds(5, 1, "first")
		if n := p.Status().Kept; n != 1 {
			t.Errorf("the leased host stayed %d times, want once, and rests then", n)
		}
		later := w.addHost("http://later.example", addrOf(3), 60)
		w.addHost("http://beside.example", addrOf(1), 60)
		w.addHost("http://toomany.example", addrOf(4), 60)
		w.locked(func() { w.servers[addrOf(2)].holder = "" }) // given back
		time.Sleep(6 * time.Minute)                           // a host that was left out rests for 5
		rounds(10, 4, "first", "later", "beside")
		if n := p.Status().Hosts; n != 4 {
			t.Errorf("%d hosts are in a batch of 4", n)
		}
		w.locked(func() { first.owner, later.owner = "n2", "n2" })
		time.Sleep(6 * time.Minute)
		rounds(10, 3, "beside", "leased", "toomany")
		w.locked(func() {
			if s := w.servers[addrOf(3)]; len(s.given) != 1 || s.reserved {
				t.Errorf("the server of the host that went is given back %d times", len(s.given))
			}
			if s := w.servers[addrOf(1)]; len(s.given) != 0 || !s.reserved {
				t.Error("a server was given back that has a host in the batch")
			}
		})
		stop()
		if s := p.Status(); s.Batches != 1 || s.Joined != 0 || s.HandedOff != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// When no estimate is answered any more, the servers stay with the nodes that were fast.
func TestRoundsKeepWhatTheyLearnt(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		for i := range 4 {
			w.addHost(hostName(i), addrOf(1+4*i), 60)
		}
		p, stop := w.start(modeWith(ModePersistent, 6))
		time.Sleep(10 * time.Minute)
		until(t, func() bool { return p.Status().Phase == PhaseWait }) // a node that fails in the middle of a decision is at fault
		w.locked(func() {
			w.do = func(_ context.Context, _ string, e RemoteFetch) (Result, error, bool) {
				return Result{Unmade: true}, nil, !e.Assigned
			}
		})
		from := w.requests()
		time.Sleep(10 * time.Minute)
		stop()
		pages := 0
		nodes := w.asks(from, func(r request) string { return assignedKey(r, r.node) })
		for _, n := range nodes {
			pages += n
		}
		if pages < 100 || nodes["n1"] < pages-pages/20 {
			t.Errorf("%d pages were downloaded by %v; n1 is the nearest node of all servers", pages, nodes)
		}
	})
}

// With several assigners, all chosen nodes download each page, on fresh connections.
func TestRoundsOfSeveralAssignersArePaired(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		_, stop := w.start(modeWith(ModePersistent, 3, assign.Nearest, assign.Random))
		time.Sleep(20 * time.Minute)
		stop()
		paired := 0
		for _, n := range w.asks(0, func(r request) string { return assignedKey(r, r.Batch+" "+r.URL.String()) }) {
			paired += n - 1
		}
		for download, n := range w.asks(0, func(r request) string { return assignedKey(r, r.Batch+" "+r.URL.String()+" "+r.node) }) {
			if n != 1 {
				t.Errorf("%s: %d times", download, n)
			}
		}
		for _, r := range w.asked {
			if r.Assigned && (!r.Fresh || !r.Quiet) {
				t.Errorf("%+v", r)
			}
		}
		if paired == 0 || len(w.slow) > 0 {
			t.Errorf("%d pages are paired; the home crawls slowly: %v", paired, w.slow)
		}
	})
}

// A node with a long queue answers late, gives pages back, or refuses them. A round begins only when all pages of the last one are
// answered, and a node that gives back or refuses a page gets no more in that round.
func TestRoundsWaitForTheQueuesOfTheirNodes(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		const late, unmade, refused = "late", "unmade", "refused"
		queue, under, last := "", 0, "" // what the nodes do with a page, how many pages are under way, and in which round
		asked := make(map[string]int)   // by round and server, if a node should get one page
		w.do = func(_ context.Context, _ string, e RemoteFetch) (Result, error, bool) {
			w.mu.Lock()
			how := queue
			w.mu.Unlock()
			if !e.Assigned || how == "" {
				return Result{}, nil, false
			}
			w.locked(func() {
				if under > 0 && last != e.Batch {
					t.Errorf("round %s begins while %d pages of %s wait", e.Batch, under, last)
				}
				last = e.Batch
				under++
				if how != late {
					asked[fmt.Sprint(e.Batch, e.Server)]++
				}
			})
			defer w.locked(func() { under-- })
			switch how {
			case late:
				time.Sleep(15 * time.Second)
				return Result{}, nil, false
			case unmade:
				time.Sleep(20 * time.Second)
				return Result{Unmade: true}, nil, true
			}
			return Result{}, errLost, true
		}
		p, stop := w.start(modeWith(ModePersistent, 6))
		time.Sleep(20 * time.Minute)
		for _, c := range []struct {
			how  string
			most int64 // the longer the queue, the fewer rounds; they are no closer than batch.check
		}{{late, 14}, {unmade, 42}, {refused, 122}} {
			w.locked(func() { queue = c.how })
			before := p.Status().Rounds
			time.Sleep(20 * time.Minute)
			if n := p.Status().Rounds - before; n < 5 || n > c.most {
				t.Errorf("%s: %d rounds, want 5 to %d", c.how, n, c.most)
			}
		}
		stop()
		for key, n := range asked {
			if n != 1 {
				t.Errorf("%s: %d pages", key, n)
			}
		}
	})
}

// Rounds repeat 20 pages of a host at most, even if a comparison would have more.
func TestPagesOfARound(t *testing.T) {
	withServer(t, 60, func(t *testing.T, _ *world, h *fakeHost, s *server) {
		s.reserve(s.addr, true)
		err := (&batch{Placement: s.Placement}).collect(t.Context(), s)
		if err != nil || len(s.pages) != 20 || len(h.finished) != 22 { // two are disallowed
			t.Errorf("%d pages of %d, %v", len(s.pages), len(h.finished), err)
		}
	})
}

// A round begins with what each assigner has found in the last one.
func TestRoundsGoOnFromTheLast(t *testing.T) {
	withServer(t, 1, func(t *testing.T, _ *world, _ *fakeHost, s *server) {
		s.cfg.Assigners, s.pages = []string{assign.Random, assign.IPMicra}, pagesOf(t, "/")
		b := &batch{Placement: s.Placement, servers: []*server{s}}
		for round := range 2 {
			before := s.Status().Estimates
			if err := b.decide(t.Context(), "1"); err != nil || (s.Status().Estimates == before) != (round > 0) {
				t.Errorf("round %d: %d estimates, %v", round, s.Status().Estimates-before, err)
			}
		}
	})
}

// A server without a page that may be requested is given back, and its hosts rest.
func TestHostsWithoutPagesRest(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.hosts[hostName(0)]
		for i := range h.urls {
			h.urls[i].Path += "7" // robots.txt disallows it
		}
		p, stop := w.start(modeWith(ModePersistent, 100))
		time.Sleep(time.Minute)
		if s := p.Status(); s.Kept != 1 || s.Resting != 1 || s.Batches != 1 || p.Busy() {
			t.Errorf("%+v", s)
		}
		stop()
		if given := w.servers[h.addr].given; len(given) != 1 || len(h.finished) != 60 {
			t.Errorf("given to %v, %d pages are dropped", given, len(h.finished))
		}
	})
}

// If another node gets a server between two rounds, nobody downloads its pages for this node. The next rounds go on once it is free.
func TestRoundsHoldALostServerAgain(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		_, stop := w.start(modeWith(ModePersistent, 4))
		defer stop()
		// pass lets five minutes pass, and returns who holds the server then, and how many pages were downloaded.
		pass := func() (holder string, pages int) {
			from := w.requests()
			time.Sleep(5 * time.Minute)
			w.locked(func() { holder = w.servers[addrOf(1)].holder })
			return holder, len(w.asks(from, func(r request) string { return assignedKey(r, r.Batch+r.URL.Path) }))
		}
		pass()
		w.locked(func() { w.servers[addrOf(1)].holder = "n1" })
		pass() // a round may be under way
		if holder, pages := pass(); holder != "n1" || pages > 0 {
			t.Errorf("%d pages while %s holds it", pages, holder)
		}
		w.locked(func() { w.servers[addrOf(1)].holder = "" })
		if holder, pages := pass(); holder != w.self || pages == 0 {
			t.Errorf("%d pages once it was free; %q holds it", pages, holder)
		}
	})
}

// Every host of a server is asked for pages, each of them once, whether the hosts before it have run out, repeat theirs, or have enough.
func TestEachPageOfEveryHost(t *testing.T) {
	withServer(t, 2, func(t *testing.T, w *world, out *fakeHost, s *server) {
		repeats, enough := w.addHost("http://b.example", out.addr, 2), w.addHost("http://c.example", out.addr, 9)
		for _, h := range []*fakeHost{repeats, enough} {
			s.hosts = append(s.hosts, &host{name: h.name})
		}
		for _, h := range w.hosts {
			h.robots = true
		}
		s.reserve(s.addr, true)
		var pages []string
		err := s.eachPage(t.Context(), 5, func(_ int, task *frontier.Task) error {
			pages = append(pages, task.URL.String())
			ending := frontier.Failed
			if task.Host == repeats.name {
				ending = frontier.Again
			}
			return s.finish(t.Context(), task, frontier.Outcome{Ending: ending})
		})
		want := "[http://a.example/0 http://a.example/1 http://b.example/0 http://b.example/1 http://c.example/0 http://c.example/1 " +
			"http://c.example/2 http://c.example/3 http://c.example/4]"
		if fmt.Sprint(pages) != want || err != nil {
			t.Errorf("%v, %v\nwant %v", pages, err, want)
		}
		if n := s.hosts[1].taken; n != 3 { // the first that comes again shows that it has no more
			t.Errorf("%d pages were taken of the host that repeats its two", n)
		}
	})
}

// downloads has every page of a server downloaded at once. It returns the paths and nodes that are asked, in order. The page "/missing" does not
// exist, and "/lost" is not answered.
func (s *server) downloads() *[]string {
	asked := new([]string)
	s.deps.Fetch = func(_ context.Context, to string, f RemoteFetch) (Result, error) {
		*asked = append(*asked, f.URL.Path+" "+to)
		r := page200(time.Second)
		switch f.URL.Path {
		case "/missing":
			return Result{Outcome: frontier.Outcome{Asked: true}, Status: 404, Timing: r.Timing}, nil // which tells nothing about places
		case "/lost":
			return Result{}, errLost
		}
		return r, nil
	}
	return asked
}

// Estimates ask for the pages that rounds repeat in turn. One that is missing is not asked for again, unless it is the last of its server.
func TestRepeatedPagesTakeTurns(t *testing.T) {
	withServer(t, 1, func(t *testing.T, _ *world, _ *fakeHost, s *server) {
		asked := s.downloads()
		for _, c := range []struct{ pages, asked []string }{
			{[]string{"/page", "/missing", "/lost"}, []string{"/missing", "/page", "/lost", "/page", "/lost"}},
			{[]string{"/missing"}, []string{"/missing", "/missing"}},
		} {
			s.pages, s.turn = pagesOf(t, c.pages...), 0
			for _, want := range c.asked {
				_, err := s.repeatPage(t.Context(), "n1", RemoteFetch{})
				if got := (*asked)[len(*asked)-1]; got != want+" n1" || (err != nil) != (want == "/lost") {
					t.Errorf("of %v asked for %s, want %s: %v", c.pages, got, want, err)
				}
			}
		}
		if n := s.Status().Estimates; n != 7 {
			t.Errorf("%d estimates", n)
		}
	})
}

// planned returns a batch of one server, for whose pages an assigner has chosen n1.
func planned(t *testing.T, w *world, s *server, method string) *batch {
	b, one := &batch{Placement: s.Placement, servers: []*server{s}}, tuning{label: method, method: method, cfg: assign.Default()}
	a, err := assign.New(one.method, one.cfg, b.input("1", one), w.view(), time.Now())
	must(t, err)
	b.plans = []*plan{{tuning: one, assigner: a, choices: map[netip.Addr]assign.Choice{s.addr: {Node: "n1"}}}}
	return b
}

// A round asks for every page once, also for the one after a page that is missing, and learns from those that are there. A node that does not
// answer gets no more pages.
func TestRoundAsksForEveryPage(t *testing.T) {
	for pages, want := range map[string]struct {
		asked, left, known int
		ago                time.Duration // that the last one was downloaded
	}{
		"/0 /missing /2 /3": {4, 3, 3, 0}, "/missing": {1, 1, 0, 0}, "/0 /lost /2": {2, 3, 1, 1100 * time.Millisecond},
	} {
		withServer(t, 1, func(t *testing.T, w *world, _ *fakeHost, s *server) {
			s.pages = pagesOf(t, strings.Fields(pages)...)
			asked := s.downloads()
			err := planned(t, w, s, assign.Random).round(t.Context(), s, "1")
			m := s.learnt[assign.Random]
			for i, path := range strings.Fields(pages)[:want.asked] {
				if len(*asked) != want.asked || (*asked)[i] != path+" n1" {
					t.Fatalf("of %s asked for %v, %v", pages, *asked, err)
				}
			}
			if ago, known := m.Age(time.Now()); err != nil || len(s.pages) != want.left || m.Downloads() != want.known || known && ago != want.ago {
				t.Errorf("%s: %d pages are left, %d downloads are known, the last of %v ago; %v", pages, len(s.pages), m.Downloads(), ago, err)
			}
		})
	}
}

// A download by a node that several assigners have chosen is made once, and each of them learns from it.
func TestAssignersShareADownload(t *testing.T) {
	withServer(t, 1, func(t *testing.T, w *world, _ *fakeHost, s *server) {
		s.pages = pagesOf(t, "/")
		asked, b := s.downloads(), planned(t, w, s, assign.Random)
		b.plans = append(b.plans, planned(t, w, s, assign.Geographic).plans...)
		if err := b.round(t.Context(), s, "1"); err != nil || len(*asked) != 1 {
			t.Fatalf("asked %v, %v", *asked, err)
		}
		for _, p := range b.plans {
			if m := s.learnt[p.label]; m.Downloads() != 1 {
				t.Errorf("%s knows %d downloads", p.label, m.Downloads())
			}
		}
	})
}

// In a round of many pages another node than the chosen one downloads one of them, too, over a new connection, and the assigner learns from it.
func TestRoundsExplore(t *testing.T) {
	withServer(t, 1, func(t *testing.T, w *world, _ *fakeHost, s *server) {
		for _, node := range names() {
			s.memory.Observe(node, coordOf(node), page200(time.Second).Timing, time.Now())
		}
		for i := range 67 { // more than 1/exploreShare: there is one in each round
			s.pages = append(s.pages, pagesOf(t, fmt.Sprint("/", i))...)
		}
		asked, b := s.downloads(), planned(t, w, s, assign.Nearest)
		fetch := s.deps.Fetch
		s.deps.Fetch = func(ctx context.Context, to string, f RemoteFetch) (Result, error) {
			if other := to != "n1"; f.Fresh != other {
				t.Errorf("%s downloads %s; over a new connection: %v", to, f.URL, f.Fresh)
			}
			return fetch(ctx, to, f)
		}
		before := fmt.Sprint(b.plans[0].memory(s.addr))
		must(t, b.round(t.Context(), s, "1"))
		if after := fmt.Sprint(b.plans[0].memory(s.addr)); after != before {
			t.Errorf("what an assigner has decided by is now %s, not %s", after, before)
		}
		others := 0
		for _, page := range *asked {
			if !strings.HasSuffix(page, " n1") {
				others++
			}
		}
		if m := s.learnt[assign.Nearest]; len(*asked) != len(s.pages)+1 || others != 1 || m.Downloads() != 4+len(*asked) {
			t.Errorf("asked %v for %d pages, %d downloads are known", *asked, len(s.pages), m.Downloads())
		}
	})
}
