package placement

import (
	"context"
	"errors"
	"fmt"
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
		if b.neighbours.known.Len() != 1 {
			t.Errorf("servers of %d networks are remembered", b.neighbours.known.Len())
		}
		if fmt.Sprint(w.slow) != "[true false]" {
			t.Errorf("slow %v", w.slow)
		}
		// By the decisions: which nodes should have downloaded the pages of each server, and with which labels.
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
		if len(w.placed) < 8 || slices.ContainsFunc(w.placed, func(l string) bool { return !strings.HasPrefix(l, "nearest 192.0.2.") || strings.HasSuffix(l, " 0") }) { // only nearest has made estimates
			t.Errorf("places were told of by %v", w.placed)
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
			case e.Quiet: // failures of other nodes do not count
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
		// The node that gets the host did not answer for this page, so the page stays pending and the comparison ends.
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

// The outcome of a page is that of the first assigner's node. How long the server took, and for how long it wants no requests, is the
// most that any node has heard. If that node gave the page back, the other one may have asked the server all the same.
func TestOutcomeOfAComparedPage(t *testing.T) {
	for n := range 4 {
		i, unmade := n%2, n >= 2 // which node is first
		synctest.Test(t, func(t *testing.T) {
			w, h, s := oneServer(t, 1)
			h.robots = true
			w.do = func(_ context.Context, node string, _ RemoteFetch) (Result, error, bool) {
				if node == "n1" && unmade {
					return Result{Unmade: true}, nil, true
				} else if node == "n1" {
					return Result{Asked: true, Status: 404, Ending: frontier.Failed, Timing: assign.Timing{Total: 3 * time.Second}, RetryAfter: time.Second}, nil, true
				}
				return Result{Lingers: 40 * time.Second, RetryAfter: 5 * time.Second}, errors.New("gone"), true
			}
			s.reserve(s.addr, true)
			b := &batch{Placement: s.Placement}
			task, err := s.takeOf(t.Context(), t.Context(), s.hosts[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := b.comparePage(t.Context(), s, task, []chosen{{node: "n1"}, {node: "n2"}}, i); err != nil {
				t.Fatal(err)
			}
			lingers := []time.Duration{40 * time.Second, 0}[i] // the second download begins when the first must be over
			if knows := w.servers[s.addr].knows; !knows.Equal(time.Now().Add(lingers + w.gap)) {
				t.Errorf("node %d is first, unmade %v: the server may be asked in %v", i, unmade, time.Until(knows))
			}
			out := h.finished["/0"]
			if unmade != (len(h.urls) == 1) || !unmade && (out.Ending != frontier.Failed || !out.Asked || out.Elapsed != 3*time.Second || out.RetryAfter != 5*time.Second || out.Lingers != lingers) {
				t.Errorf("node %d is first: %+v", i, out)
			}
		})
	}
}

// The chosen node dies after the decision. Its hosts stay, and go to another node in a later batch.
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

// A node that is taken for dead may still be downloading. Until that must be over, no page of its server is requested (the world
// checks that), and the batch is decided without it.
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
						last := e.Assigned && mode == ModeCycle // then the lease that is handed on must tell of it
						if asks++; node == w.self || asks%3 > 0 && !last {
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
					cfg.Mode, cfg.Assigners, cfg.CompareURLs = mode, assigners, 6
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
