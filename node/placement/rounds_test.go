package placement

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/frontier"
)

func TestPersistentHandsOutTheSameBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
		}
		w.addHost("http://foreign.example", addrOf(250), 60)
		cfg := cycle()
		cfg.Mode, cfg.CompareURLs = ModePersistent, 6
		b, stop := w.start(cfg)
		time.Sleep(20 * time.Minute)
		s := b.Status()
		if s.Rounds < 5 || !s.Busy() || s.HandedOff != 0 || s.Kept == 0 { // foreign.example stays
			t.Errorf("status %+v", s)
		}
		w.mu.Lock()
		perRound := make(map[string]int) // round and host
		pages := make(map[string]map[string]bool)
		nodes := make(map[string]string)
		for _, r := range w.asked {
			if r.URL.Host == "http://foreign.example" {
				t.Fatal("a foreign server was asked")
			}
			if pages[r.URL.Host] == nil {
				pages[r.URL.Host] = make(map[string]bool)
			}
			pages[r.URL.Host][r.URL.Path] = true
			if r.Assigned {
				perRound[r.Batch+" "+r.URL.Host]++
				nodes[r.URL.Host] = r.node
			}
			if r.Fresh == r.Assigned {
				t.Errorf("fresh is for estimates: %+v", r)
			}
			if !r.Quiet {
				t.Errorf("links of a repeated page are read: %+v", r)
			}
		}
		w.mu.Unlock()
		for round, n := range perRound {
			if n > 6 {
				t.Errorf("%s: %d pages", round, n)
			}
		}
		for host, p := range pages {
			if len(p) > 6 {
				t.Errorf("%s: %d different pages", host, len(p))
			}
			if want := nearestTo(w.hosts[host].addr); nodes[host] != want {
				t.Errorf("%s was last downloaded by %s, want %s", host, nodes[host], want)
			}
		}
		// The node that is nearest to h0 becomes slow and loses the server.
		w.mu.Lock()
		before := w.ms
		slow := nearestTo(addrOf(1))
		w.ms = func(node string, addr netip.Addr) float64 {
			if node == slow {
				return 10*before(node, addr) + 300
			}
			return before(node, addr)
		}
		asked := len(w.asked)
		w.mu.Unlock()
		time.Sleep(time.Hour)
		last := func() (node string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, r := range w.asked[asked:] {
				if r.Assigned && r.Server == addrOf(1) {
					node = r.node
				}
			}
			return node
		}
		if last() == slow {
			t.Errorf("%s has become slow, and still gets its server", slow)
		}
		// It recovers. Only an exploration can notice that.
		w.mu.Lock()
		w.ms = before
		w.mu.Unlock()
		for limit := time.Now().Add(12 * time.Hour); last() != slow; time.Sleep(10 * time.Minute) {
			if time.Now().After(limit) {
				t.Fatalf("%s has recovered, and its server is still at %s", slow, last())
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
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://first.example", addrOf(1), 60)
		w.addHost("http://leased.example", addrOf(2), 60)
		w.servers[addrOf(2)].holder = "n3"
		cfg := cycle()
		cfg.Mode, cfg.CompareURLs, cfg.Hosts = ModePersistent, 3, 4
		p, stop := w.start(cfg)
		// rounds counts in how many rounds of the next minutes each host is.
		rounds := func(minutes int) map[string]int {
			w.mu.Lock()
			from := len(w.asked)
			w.mu.Unlock()
			time.Sleep(time.Duration(minutes) * time.Minute)
			w.mu.Lock()
			defer w.mu.Unlock()
			in, met := make(map[string]int), make(map[string]bool)
			for _, r := range w.asked[from:] {
				if round := r.URL.Host + r.Batch; r.Assigned && !met[round] {
					met[round] = true
					in[r.URL.Host]++
				}
			}
			return in
		}
		if in := rounds(5); in["http://first.example"] < 5 || len(in) != 1 {
			t.Errorf("rounds %v, want those of the first host", in)
		}
		w.addHost("http://later.example", addrOf(3), 60)
		w.addHost("http://beside.example", addrOf(1), 60)
		w.addHost("http://toomany.example", addrOf(4), 60)
		w.mu.Lock()
		w.servers[addrOf(2)].holder = "" // given back
		w.mu.Unlock()
		time.Sleep(6 * time.Minute) // a host that was left out rests for 5
		in := rounds(10)
		for _, host := range []string{"http://first.example", "http://later.example", "http://beside.example"} {
			if in[host] < 5 {
				t.Errorf("%s is in %d rounds", host, in[host])
			}
		}
		if len(in) != 4 || p.Status().Hosts != 4 {
			t.Errorf("rounds %v, status %+v: a batch has at most 4 hosts", in, p.Status())
		}
		w.mu.Lock()
		w.hosts["http://first.example"].owner, w.hosts["http://later.example"].owner = "n2", "n2"
		w.mu.Unlock()
		time.Sleep(6 * time.Minute)
		in = rounds(10)
		for _, host := range []string{"http://beside.example", "http://leased.example", "http://toomany.example"} {
			if in[host] < 5 {
				t.Errorf("%s is in %d rounds when there is room", host, in[host])
			}
		}
		if len(in) != 3 {
			t.Errorf("rounds %v, with hosts whose home is elsewhere", in)
		}
		w.mu.Lock()
		if given := w.servers[addrOf(3)].given; len(given) != 1 || w.servers[addrOf(3)].reserved {
			t.Errorf("the server of the host that went is given back %d times", len(given))
		}
		if !w.servers[addrOf(1)].reserved || len(w.servers[addrOf(1)].given) != 0 {
			t.Error("a server was given back that has a host in the batch")
		}
		w.mu.Unlock()
		stop()
		if s := p.Status(); s.Batches != 1 || s.Joined != 0 || s.HandedOff != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// When no estimate is answered any more, the servers stay with the nodes that were fast.
func TestRoundsKeepWhatTheyLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+4*i), 60)
		}
		cfg := cycle()
		cfg.Mode, cfg.CompareURLs = ModePersistent, 6
		_, stop := w.start(cfg)
		time.Sleep(10 * time.Minute)
		w.mu.Lock()
		w.do = func(_ context.Context, _ string, e RemoteFetch) (Result, error, bool) {
			return Result{Unmade: true}, nil, !e.Assigned
		}
		asked := len(w.asked)
		w.mu.Unlock()
		time.Sleep(10 * time.Minute)
		stop()
		elsewhere, all := 0, 0
		for _, r := range w.asked[asked:] {
			if r.Assigned {
				if all++; r.node != "n1" {
					elsewhere++
				}
			}
		}
		if all < 100 || elsewhere > all/20 {
			t.Errorf("%d of %d pages were downloaded by others than the nearest node of all servers", elsewhere, all)
		}
	})
}

// A page that the server does not have is requested once. The last page of a server is kept nevertheless.
func TestRoundsForgetPagesThatAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
		}
		w.do = func(_ context.Context, _ string, e RemoteFetch) (Result, error, bool) {
			missing := e.URL.Path == "/1" && e.Assigned || e.URL.Host == "http://h3.example"
			return Result{Asked: true, Status: 404}, nil, missing
		}
		cfg := cycle()
		cfg.Mode, cfg.CompareURLs = ModePersistent, 4
		_, stop := w.start(cfg)
		time.Sleep(20 * time.Minute)
		stop()
		times := make(map[string]int)
		for _, r := range w.asked {
			if r.Assigned || r.URL.Host == "http://h3.example" {
				times[r.URL.String()]++
			}
		}
		for i := range 3 {
			gone, there := fmt.Sprintf("http://h%d.example/1", i), fmt.Sprintf("http://h%d.example/2", i)
			if times[gone] != 1 || times[there] < 20 {
				t.Errorf("%s was asked for %d times, %s %d times", gone, times[gone], there, times[there])
			}
		}
		kept := 0
		for i := range 4 {
			if n := times[fmt.Sprintf("http://h3.example/%d", i)]; n > 20 {
				kept++
			} else if n != 1 {
				t.Errorf("page %d of a server that has none was asked for %d times", i, n)
			}
		}
		if kept != 1 {
			t.Errorf("%d pages of a server that has none are repeated", kept)
		}
	})
}

// With several assigners, all chosen nodes download each page, on fresh connections.
func TestRoundsOfSeveralAssignersArePaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
		}
		cfg := cycle()
		cfg.Mode, cfg.CompareURLs, cfg.Assigners = ModePersistent, 3, []string{assign.Nearest, assign.Random}
		_, stop := w.start(cfg)
		time.Sleep(20 * time.Minute)
		stop()
		times := make(map[string]int) // round, page and node
		nodes := make(map[string]int) // round and page
		paired := 0
		for _, r := range w.asked {
			if !r.Assigned {
				continue
			}
			page := r.Batch + " " + r.URL.String()
			times[page+" "+r.node]++
			if nodes[page]++; nodes[page] > 1 {
				paired++
			}
			if !r.Fresh || !r.Quiet {
				t.Errorf("fresh %v, quiet %v: %+v", r.Fresh, r.Quiet, r)
			}
		}
		for download, n := range times {
			if n != 1 {
				t.Errorf("%s: %d times", download, n)
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
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
		}
		const late, unmade, refused = "late", "unmade", "refused"
		queue, under, last := "", 0, "" // what the nodes do with a page, how many pages are under way, and in which round
		asked := make(map[string]int)   // by round and server
		w.do = func(_ context.Context, node string, e RemoteFetch) (Result, error, bool) {
			w.mu.Lock()
			how := queue
			if !e.Assigned || how == "" {
				w.mu.Unlock()
				return Result{}, nil, false
			}
			if under > 0 && last != e.Batch {
				t.Errorf("round %s begins while %d pages of %s wait", e.Batch, under, last)
			}
			last = e.Batch
			under++
			asked[fmt.Sprint(how, e.Batch, e.Server)]++
			w.mu.Unlock()
			defer func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				under--
			}()
			switch how {
			case late:
				time.Sleep(15 * time.Second)
				return Result{}, nil, false
			case unmade:
				time.Sleep(20 * time.Second)
				return Result{Unmade: true}, nil, true
			}
			return Result{}, errors.New("queue full"), true
		}
		cfg := cycle()
		cfg.Mode, cfg.CompareURLs = ModePersistent, 6
		b, stop := w.start(cfg)
		time.Sleep(20 * time.Minute)
		for _, how := range []string{late, unmade, refused} {
			w.mu.Lock()
			queue = how
			w.mu.Unlock()
			before := b.Status().Rounds
			time.Sleep(20 * time.Minute)
			w.mu.Lock()
			for key, n := range asked {
				if strings.HasPrefix(key, how) && how != late && n != 1 {
					t.Errorf("%s: %d pages", key, n)
				}
			}
			w.mu.Unlock()
			// The longer the queue, the fewer rounds. They are no closer than batch.check.
			most := map[string]int64{late: 14, unmade: 42, refused: 122}[how]
			n := b.Status().Rounds - before
			t.Logf("%s: %d rounds", how, n)
			if n < 5 || n > most {
				t.Errorf("%s: %d rounds, want 5 to %d", how, n, most)
			}
		}
		stop()
	})
}

// Rounds repeat 20 pages of a host at most, even if a comparison would have more.
func TestPagesOfARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h, s := oneServer(t, 60)
		s.reserve(s.addr, true)
		if err := (&batch{Placement: s.Placement}).collect(t.Context(), s); err != nil || len(s.pages) != 20 || len(h.finished) != 22 { // two are disallowed
			t.Errorf("%d pages of %d, %v", len(s.pages), len(h.finished), err)
		}
	})
}

// A round begins with what the assigners have found in the last one.
func TestRoundsGoOnFromTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, s := oneServer(t, 1)
		s.cfg.Assigners, s.pages = []string{assign.IPMicra}, pagesOf(t, "/")
		s.SetView(w.view(), "")
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
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.addHost("http://a.example", addrOf(1), 60)
		for i := range h.urls {
			h.urls[i].Path += "7" // robots.txt disallows it
		}
		cfg := cycle()
		cfg.Mode = ModePersistent
		p, stop := w.start(cfg)
		time.Sleep(time.Minute)
		if s := p.Status(); s.Kept != 1 || s.Resting != 1 || s.Batches != 1 || s.Busy() {
			t.Errorf("%+v", s)
		}
		stop()
		if given := w.servers[addrOf(1)].given; len(given) != 1 || len(h.finished) != 60 {
			t.Errorf("given to %v, %d pages are dropped", given, len(h.finished))
		}
	})
}

// If another node gets a server between two rounds, nobody downloads its pages for this node. The next rounds go on once it is free.
func TestRoundsHoldALostServerAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://a.example", addrOf(1), 60)
		cfg := cycle()
		cfg.Mode, cfg.CompareURLs = ModePersistent, 4
		_, stop := w.start(cfg)
		defer stop()
		holder := func(id string) (before string, asked int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			before, w.servers[addrOf(1)].holder = w.servers[addrOf(1)].holder, id
			for _, r := range w.asked {
				if r.Assigned { // an estimate without the lease is refused
					asked++
				}
			}
			return before, asked
		}
		time.Sleep(5 * time.Minute)
		holder("n1")
		time.Sleep(5 * time.Minute) // a round may be under way
		_, lost := holder("n1")
		time.Sleep(5 * time.Minute)
		before, still := holder("")
		time.Sleep(5 * time.Minute)
		after, again := holder("home")
		if before != "n1" || still != lost || after != "home" || again == still {
			t.Errorf("%d pages while %s held it, %d more while %q did", still-lost, before, again-still, after)
		}
	})
}

// Every host of a server is asked for pages, each of them once, whether the hosts before it have run out, repeat theirs, or have enough.
func TestEachPageOfEveryHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, out, s := oneServer(t, 2)
		repeats, enough := w.addHost("http://b.example", out.addr, 2), w.addHost("http://c.example", out.addr, 9)
		for _, h := range []*fakeHost{repeats, enough} {
			s.hosts = append(s.hosts, &host{name: h.name})
		}
		for _, h := range w.hosts {
			h.robots = true
		}
		s.reserve(s.addr, true)
		var pages []string
		err := s.eachPage(t.Context(), 3, func(_ int, task *frontier.Task) error {
			pages = append(pages, task.URL.String())
			ending := frontier.Failed
			if task.Host == repeats.name {
				ending = frontier.Again
			}
			return s.finish(t.Context(), task, frontier.Outcome{Ending: ending})
		})
		want := "[http://a.example/0 http://a.example/1 http://b.example/0 http://b.example/1 http://c.example/0 http://c.example/1 http://c.example/2]"
		if fmt.Sprint(pages) != want || err != nil {
			t.Errorf("%v, %v\nwant %v", pages, err, want)
		}
	})
}
