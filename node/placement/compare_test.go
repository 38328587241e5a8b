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

// All assigners decide the same batch. Each page is then downloaded once by every node that one of them chose, and the node of the first
// assigner reads the links and gets the host.
func TestComparisonIsPaired(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		w.addHosts(8, 100)
		p, stop := w.start(modeWith(ModeSingle, 25, assign.Nearest, assign.Random, assign.Geographic))
		time.Sleep(time.Hour)
		stop()
		if s := p.Status(); s.HandedOff != 8 || p.Busy() || p.neighbours.known.Len() != 1 || fmt.Sprint(w.slow) != "[true false]" {
			t.Fatalf("status %+v, %d networks are remembered, slow %v, troubles %v", s, p.neighbours.known.Len(), w.slow, w.troubles)
		}
		for _, place := range w.placed { // only nearest has made estimates
			if !strings.HasPrefix(place, "nearest 192.0.2.") || strings.HasSuffix(place, " 0") || len(w.placed) < 8 {
				t.Errorf("places were told of by %v", w.placed)
			}
		}
		chose, owner := make(map[string]map[string][]string), make(map[string]string) // labels by host and node; owner by host
		decisions := make(map[string]int)
		for _, d := range w.decided {
			decisions[d.Label]++
			if chose[d.Host] == nil {
				chose[d.Host] = make(map[string][]string)
			}
			chose[d.Host][d.Owner] = append(chose[d.Host][d.Owner], d.Label)
			if d.Label == assign.Nearest {
				owner[d.Host] = d.Owner
			}
		}
		if fmt.Sprint(decisions) != "map[geographic:8 nearest:8 random:8]" {
			t.Fatalf("decisions %v", decisions)
		}
		made, firsts := make(map[string][]string), make(map[string]int) // nodes by page; pages by host and first node
		for _, r := range w.asked {
			host, page := r.URL.Host, r.URL.String()
			if !r.Assigned {
				continue
			}
			if len(made[page]) == 0 {
				firsts[host+" "+r.node]++
			}
			if slices.Contains(made[page], r.node) || !r.Fresh || r.Quiet != (r.node != owner[host]) || !slices.Equal(r.Labels, chose[host][r.node]) {
				t.Errorf("%s by %v: %+v", page, made[page], r)
			}
			made[page] = append(made[page], r.node)
		}
		if len(made) != 8*25 {
			t.Errorf("%d pages were compared", len(made))
		}
		several := 0
		for name, h := range w.hosts {
			if h.owner != "assigned:"+owner[name] {
				t.Errorf("%s is at %s, want %s", name, h.owner, owner[name])
			}
			k := len(chose[name])
			if k > 1 {
				several++
			}
			for node := range chose[name] { // they take turns
				if n := firsts[name+" "+node]; n < 25/k || n > 25/k+1 {
					t.Errorf("%s: %s was first %d times of 25 among %d", name, node, n, k)
				}
			}
			for page, nodes := range made {
				if strings.HasPrefix(page, name+"/") && len(nodes) != k {
					t.Errorf("%s was downloaded by %v, chosen are %v", page, nodes, chose[name])
				}
			}
		}
		if several == 0 {
			t.Error("all assigners agree everywhere: the test shows nothing")
		}
	})
}

// Hosts of a single page give no assigner's node the first download always, which may find the caches of the server cold.
func TestComparisonOfSinglePages(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		w.addHosts(40, 1)
		cfg := modeWith(ModeSingle, 25, assign.Random, assign.Hash)
		cfg.Hosts, cfg.URLs = 40, 1
		_, stop := w.start(cfg)
		time.Sleep(time.Hour)
		stop()
		last, firsts, twice := make(map[string]string), make(map[string]int), 0
		for _, r := range w.asked {
			label := fmt.Sprint(r.Labels)
			if before := last[r.URL.Host]; before != "" {
				firsts[before]++
				twice++
			}
			last[r.URL.Host] = label
		}
		if random := firsts["[random]"]; random < twice/4 || random > twice*3/4 || twice < 20 {
			t.Errorf("of %d pages that two nodes downloaded random's was the first for %d", twice, random)
		}
	})
}

func TestComparisonSurvivesFailures(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.hosts[hostName(0)]
		w.do = func(_ context.Context, _ string, e RemoteFetch) (Result, error, bool) {
			switch {
			case !e.Assigned:
			case e.Quiet, e.URL.Path == "/25": // failures of other nodes do not count
				return Result{}, errLost, true
			case strings.HasSuffix(e.URL.Path, "3"):
				return Result{Outcome: frontier.Outcome{Ending: frontier.Failed, Asked: true, Reason: "status 404"}, Status: 404}, nil, true
			}
			return Result{}, nil, false
		}
		_, stop := w.start(modeWith(ModeCycle, 100, assign.Nearest, assign.Random, assign.Geographic))
		time.Sleep(time.Hour)
		stop()
		if out := h.finished["/13"]; h.owner == "home" || out.Ending != frontier.Failed {
			t.Errorf("at %s, /13: %+v; %v", h.owner, out, w.troubles)
		}
		if out := h.finished["/14"]; out.Ending != frontier.Done || !out.Asked {
			t.Errorf("/14: %+v", out)
		}
		// The node that gets the host did not answer for this page, so the page stays pending and the comparison ends.
		if len(h.urls) == 0 || h.urls[0].Path != "/25" {
			t.Errorf("left are %v", h.urls)
		}
		downloads := w.asks(0, func(r request) string { return assignedKey(r, r.URL.Path+" "+r.node) })
		for download, n := range downloads {
			if n != 1 || downloads["/25 "+strings.TrimPrefix(h.owner, "assigned:")] != 1 {
				t.Errorf("%s: %d times of %v", download, n, downloads)
			}
		}
	})
}

// The outcome of a page is that of the first assigner's node. How long the server took, and for how long it wants no requests, is the
// most that any node has heard. If that node gave the page back, the other one may have asked the server all the same.
func TestOutcomeOfAComparedPage(t *testing.T) {
	for n := range 4 {
		i, unmade := n%2, n >= 2 // which node is first
		withServer(t, 1, func(t *testing.T, w *world, h *fakeHost, s *server) {
			h.robots = true
			w.do = func(_ context.Context, node string, _ RemoteFetch) (Result, error, bool) {
				if node == "n1" && unmade {
					return Result{Unmade: true}, nil, true
				} else if node == "n1" {
					return Result{Outcome: frontier.Outcome{Asked: true, Ending: frontier.Failed, RetryAfter: time.Second}, Status: 404,
						Timing: assign.Timing{Total: 3 * time.Second}}, nil, true
				}
				return Result{Outcome: frontier.Outcome{Lingers: 40 * time.Second, RetryAfter: 5 * time.Second}}, errLost, true
			}
			s.reserve(s.addr, true)
			task, err := s.takeOf(t.Context(), t.Context(), s.hosts[0])
			must(t, err)
			b := &batch{Placement: s.Placement}
			must(t, b.comparePage(t.Context(), s, task, []chosen{{node: "n1"}, {node: "n2"}}, i))
			lingers := []time.Duration{40 * time.Second, 0}[i] // the second download begins when the first must be over
			if knows := w.servers[s.addr].knows; !knows.Equal(time.Now().Add(lingers + w.gap)) {
				t.Errorf("node %d is first, unmade %v: the server may be asked in %v", i, unmade, time.Until(knows))
			}
			want := frontier.Outcome{Ending: frontier.Failed, Asked: true, Elapsed: 3 * time.Second, RetryAfter: 5 * time.Second, Lingers: lingers}
			if unmade { // it stays pending
				want = frontier.Outcome{}
			}
			if out := h.finished["/0"]; unmade != (len(h.urls) == 1) || fmt.Sprint(out) != fmt.Sprint(want) {
				t.Errorf("node %d is first: %+v", i, out)
			}
		})
	}
}

// A node of another assigner that counts as alive and answers nothing costs a comparison one wait, not one for each page.
func TestMuteNodesDoNotHoldUpAComparison(t *testing.T) {
	withServer(t, 20, func(t *testing.T, w *world, h *fakeHost, s *server) {
		w.do = func(_ context.Context, node string, _ RemoteFetch) (Result, error, bool) {
			if node == "n2" {
				time.Sleep(RemoteWait)
			}
			return Result{}, errUnanswered, node == "n2"
		}
		s.reserve(s.addr, true)
		choose := func(node string) *plan {
			return &plan{tuning: tuning{label: node}, choices: map[netip.Addr]assign.Choice{s.addr: {Node: node}}}
		}
		begun := time.Now()
		must(t, (&batch{Placement: s.Placement, plans: []*plan{choose("n1"), choose("n2")}}).compare(t.Context(), s))
		if took := time.Since(begun); took > 2*RemoteWait || len(h.finished) != 20 {
			t.Errorf("%d of 20 pages were compared in %v", len(h.finished), took)
		}
	})
}

// The chosen node dies after the decision. Its hosts stay, and go to another node in a later batch.
func TestOwnerThatDiesWhileComparing(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		h := w.addHost("http://h.example", addrOf(2), 90)
		w.handOff = func(_, to string) error {
			if to == "n2" {
				t.Error("the dead got a host")
			}
			return nil
		}
		p, stop := w.start(modeWith(ModeCycle, 20, assign.Nearest, assign.Random))
		until(t, func() bool { return p.Status().Phase == PhaseCompare })
		w.die(p, "n2")
		until(t, func() bool { return !p.Busy() })
		w.locked(func() {
			if given := w.servers[h.addr].given; p.Status().Kept != 1 || h.owner != "home" || !slices.Equal(given, []string{w.self}) {
				t.Errorf("status %+v, given to %v", p.Status(), given)
			}
		})
		time.Sleep(20 * time.Minute)
		if got := w.ownerOf(h.name); got == "home" {
			t.Error("it was never handed off")
		}
		stop()
	})
}

// A node that is taken for dead may still be downloading. Until that must be over, no page of its server is requested (the world
// checks that), and the batch is decided without it.
func TestServersOfNodesThatAreCutOffAreLeftAlone(t *testing.T) {
	for _, mode := range []string{ModeCycle, ModePersistent} {
		for _, assigners := range [][]string{{assign.Nearest}, {assign.Nearest, assign.Random}} {
			inWorld(t, 6, func(t *testing.T, w *world) {
				asks, cutOff := 0, make(map[bool]int) // by Assigned
				w.do = func(_ context.Context, node string, e RemoteFetch) (Result, error, bool) {
					w.mu.Lock()
					defer w.mu.Unlock()
					last := e.Assigned && mode == ModeCycle // then the lease that is handed on must tell of it
					if asks++; node == w.self || asks%3 > 0 && !last {
						return Result{}, nil, false
					}
					cutOff[e.Assigned]++
					return Result{Outcome: frontier.Outcome{Lingers: 50 * time.Second}}, errLost, true
				}
				p, stop := w.start(modeWith(mode, 6, assigners...))
				time.Sleep(time.Minute)
				if s := p.Status(); mode == ModeCycle && len(assigners) == 1 && s.HandedOff != 6 {
					t.Errorf("not decided within a minute: %+v", s)
				}
				time.Sleep(30 * time.Minute)
				stop()
				if cutOff[false] == 0 || cutOff[true] == 0 && (mode == ModePersistent || len(assigners) > 1) {
					t.Errorf("%s, %v: so many downloads were cut off: %v; the test shows nothing", mode, assigners, cutOff)
				}
			})
		}
	}
}
