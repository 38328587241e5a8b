package placement

import (
	"context"
	"errors"
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

func TestComparisonIsPaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 8 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 100)
		}
		cfg := cycle()
		cfg.Mode, cfg.Assigners, cfg.CompareURLs = ModeSingle, []string{assign.Nearest, assign.Random, assign.Geographic}, 25
		b, stop := w.start(cfg)
		time.Sleep(time.Hour)
		stop()
		if s := b.Status(); s.HandedOff != 8 || s.Busy() {
			t.Fatalf("status %+v, troubles %v", s, w.troubles)
		}
		if fmt.Sprint(w.pace) != "[0 1]" {
			t.Errorf("pace %v", w.pace)
		}
		// What each assigner chose for each server, and so who should have downloaded each page, with which labels.
		chose := make(map[string]map[string][]string) // server -> node -> labels
		owner := make(map[string]string)
		labels := make(map[string]int)
		for _, d := range w.decided {
			labels[d.Label]++
			byNode := chose[d.Server]
			if byNode == nil {
				byNode = make(map[string][]string)
				chose[d.Server] = byNode
			}
			byNode[d.Owner] = append(byNode[d.Owner], d.Label)
			if d.Label == assign.Nearest {
				owner[d.Server] = d.Owner
			}
		}
		if fmt.Sprint(labels) != "map[geographic:8 nearest:8 random:8]" {
			t.Fatalf("decisions %v", labels)
		}
		made := make(map[string][]string) // page -> nodes
		firsts := make(map[string]map[string]int)
		for _, r := range w.asked {
			if !r.Assigned {
				continue
			}
			page, server := r.URL.String(), r.Server.String()
			if len(made[page]) == 0 {
				if firsts[server] == nil {
					firsts[server] = make(map[string]int)
				}
				firsts[server][r.node]++
			}
			made[page] = append(made[page], r.node)
			if !r.Fresh || r.Quiet != (r.node != owner[server]) {
				t.Errorf("%s at %s: fresh %v quiet %v", page, r.node, r.Fresh, r.Quiet)
			}
			if !slices.Equal(r.Labels, chose[server][r.node]) {
				t.Errorf("%s at %s: labels %q, want %q", page, r.node, r.Labels, chose[server][r.node])
			}
		}
		if len(made) != 8*25 {
			t.Errorf("%d pages were compared", len(made))
		}
		several := 0
		for page, nodes := range made {
			host := "http://" + strings.Split(page, "/")[2]
			byNode := chose[w.hosts[host].addr.String()]
			slices.Sort(nodes)
			if len(nodes) != len(byNode) || len(slices.Compact(nodes)) != len(byNode) {
				t.Errorf("%s was downloaded by %v, chosen are %v", page, nodes, byNode)
			}
			if len(byNode) > 1 {
				several++
			}
		}
		if several == 0 {
			t.Error("all assigners agree everywhere: the test shows nothing")
		}
		for server, counts := range firsts {
			for node, n := range counts {
				if k := len(chose[server]); n < 25/k || n > 25/k+1 {
					t.Errorf("%s: %s was first %d times of 25 among %d", server, node, n, k)
				}
			}
		}
		for name, h := range w.hosts {
			if want := "assigned:" + owner[h.addr.String()]; h.owner != want {
				t.Errorf("%s is at %s, want %s", name, h.owner, want)
			}
		}
	})
}

func TestComparisonSurvivesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h := w.addHost("http://h.example", addrOf(1), 60)
		calls := 0
		w.do = func(_ context.Context, node string, e RemoteFetch) (Result, error, bool) {
			if !e.Assigned {
				return Result{}, nil, false
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			calls++
			switch {
			case e.Quiet: // what others fail at is theirs
				return Result{}, errors.New("unanswered"), true
			case strings.HasSuffix(e.URL.Path, "3"):
				return Result{Ending: frontier.Failed, Asked: true, Status: 404, Reason: "status 404"}, nil, true
			case e.URL.Path == "/25":
				return Result{}, errors.New("unanswered"), true
			}
			return Result{}, nil, false
		}
		cfg := cycle()
		cfg.Assigners = []string{assign.Nearest, assign.Random, assign.Geographic}
		_, stop := w.start(cfg)
		time.Sleep(time.Hour)
		stop()
		if h.owner == "home" {
			t.Fatalf("it stayed: %v", w.troubles)
		}
		if out := h.finished["/13"]; out.Ending != frontier.Failed {
			t.Errorf("/13: %+v", out)
		}
		if out := h.finished["/14"]; out.Ending != frontier.Done || !out.Asked {
			t.Errorf("/14: %+v", out)
		}
		// The page whose owner-to-be did not answer goes along, and ends the comparison of the host.
		if len(h.urls) == 0 || h.urls[0].Path != "/25" {
			t.Errorf("left are %v", h.urls)
		}
		downloads := make(map[string]int)
		for _, r := range w.asked {
			if r.Assigned && r.URL.Path == "/25" {
				downloads[r.node]++
			}
		}
		for node, n := range downloads {
			if n != 1 {
				t.Errorf("/25 was downloaded %d times by %s", n, node)
			}
		}
		if len(downloads) == 0 {
			t.Error("/25 was never asked for: the test shows nothing")
		}
	})
}

// TestOwnerThatDiesWhileComparing dies after the decision: its hosts stay, and go to another in a later batch.
func TestOwnerThatDiesWhileComparing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://h.example", addrOf(2), 90)
		w.handOff = func(_, to string) error {
			if to == "n2" {
				t.Error("the dead got a host")
			}
			return nil
		}
		cfg := cycle()
		cfg.Assigners, cfg.CompareURLs = []string{assign.Nearest, assign.Random}, 20
		b, stop := w.start(cfg)
		for b.Status().Phase != PhaseCompare {
			time.Sleep(100 * time.Millisecond)
		}
		w.mu.Lock()
		delete(w.nodes, "n2")
		w.mu.Unlock()
		b.SetView(w.view(), "")
		for b.Busy() {
			time.Sleep(100 * time.Millisecond)
		}
		s := b.Status()
		w.mu.Lock()
		if given := w.servers[addrOf(2)].given; s.Kept != 1 || w.hosts["http://h.example"].owner != "home" || !slices.Equal(given, []string{w.self}) {
			t.Errorf("status %+v, given to %v", s, given)
		}
		w.mu.Unlock()
		time.Sleep(20 * time.Minute)
		if got := w.ownerOf("http://h.example"); got == "home" {
			t.Error("it was never handed off")
		}
		stop()
	})
}

// TestServersOfNodesThatAreCutOffAreLeftAlone: a node that is taken for dead may be at work all the same. Until it must have
// ended nobody is asked for a page of its server (the world sees to it), and the batch is decided without.
func TestServersOfNodesThatAreCutOffAreLeftAlone(t *testing.T) {
	const lingers = 50 * time.Second
	for _, mode := range []string{ModeCycle, ModePersistent} {
		for _, assigners := range [][]string{{assign.Nearest}, {assign.Nearest, assign.Random}} {
			t.Run(mode+" "+strings.Join(assigners, " "), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					for i := range 6 {
						w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
					}
					asks, estimates, others := 0, 0, 0
					w.do = func(_ context.Context, node string, e RemoteFetch) (Result, error, bool) {
						w.mu.Lock()
						defer w.mu.Unlock()
						if asks++; node == w.self || asks%3 > 0 {
							return Result{}, nil, false
						}
						if e.Assigned {
							others++
						} else {
							estimates++
						}
						return Result{Lingers: lingers}, errors.New("gone"), true
					}
					cfg := cycle()
					cfg.Mode, cfg.Assigners, cfg.RoundURLs = mode, assigners, 6
					b, stop := w.start(cfg)
					time.Sleep(time.Minute)
					if s := b.Status(); mode == ModeCycle && len(assigners) == 1 && s.HandedOff != 6 {
						t.Errorf("not decided within a minute: %+v", s)
					}
					time.Sleep(30 * time.Minute)
					stop()
					if estimates == 0 || others == 0 && (mode == ModePersistent || len(assigners) > 1) {
						t.Errorf("%d estimates and %d other downloads were cut off: the test shows nothing", estimates, others)
					}
				})
			})
		}
	}
}

func TestPersistentHandsOutTheSameBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
		}
		w.addHost("http://foreign.example", addrOf(250), 60)
		cfg := cycle()
		cfg.Mode, cfg.RoundURLs = ModePersistent, 6
		b, stop := w.start(cfg)
		time.Sleep(20 * time.Minute)
		s := b.Status()
		if s.Rounds < 5 || !s.Busy() || s.HandedOff != 0 {
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
		// The node that is near to h0 becomes slow: it loses the server. What the rounds show counts.
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
		// It recovers, which only an explorer can notice.
		w.mu.Lock()
		w.ms = before
		w.mu.Unlock()
		time.Sleep(2 * time.Hour)
		if got := last(); got != slow {
			t.Errorf("%s has recovered, and its server is still at %s", slow, got)
		}
		stop()
		for name, h := range w.hosts {
			if h.owner != "home" {
				t.Errorf("%s is at %s", name, h.owner)
			}
		}
	})
}

// TestRoundsKeepWhatTheyLearnt: where no estimate is answered any more, the servers stay with the nodes that were fast.
func TestRoundsKeepWhatTheyLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+4*i), 60)
		}
		cfg := cycle()
		cfg.Mode, cfg.RoundURLs = ModePersistent, 6
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

// TestRoundsOfSeveralAssignersArePaired: as in a comparison, each page is downloaded by all that were chosen, on connections of their own.
func TestRoundsOfSeveralAssignersArePaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
		}
		cfg := cycle()
		cfg.Mode, cfg.RoundURLs, cfg.Assigners = ModePersistent, 3, []string{assign.Nearest, assign.Random}
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
		if paired == 0 {
			t.Error("the assigners agree everywhere: the test shows nothing")
		}
	})
}

// TestRoundsWaitForTheQueuesOfTheirNodes: a node whose queue is long answers late, gives pages back, or refuses them. Whatever it
// does, it gets the next round when it has answered for the last, and none of a round that it has shown to be too much.
func TestRoundsWaitForTheQueuesOfTheirNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
		}
		const late, unmade, refused = "late", "unmade", "refused"
		queue, under, last := "", 0, "" // what a node's queue makes of a page, pages that wait, their round
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
		cfg.Mode, cfg.RoundURLs = ModePersistent, 6
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
			// The longer the queue the fewer rounds, and none closer than checks.
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
