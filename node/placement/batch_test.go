package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/ncoord"
	"proxima/node/bell"
)

// Estimates begin when the downloads from the batch's servers have ended that were under way, or after ten seconds, and the home is asked anew.
// A few downloads do not slow each other, and nothing waits for them.
func TestEstimatesBeginWhenManyDownloadsHaveEnded(t *testing.T) {
	for _, c := range []struct {
		servers     int
		takes, want time.Duration
	}{{manyAtOnce, 4 * time.Second, 4 * time.Second}, {manyAtOnce, time.Minute, settleFor}, {manyAtOnce - 1, time.Minute, 0}} {
		inWorld(t, manyAtOnce, func(t *testing.T, w *world) {
			w.addHost("http://small.example", addrOf(21), 1) // which is not in the first batch
			set := func(n int) {
				w.locked(func() {
					for i := range c.servers {
						w.servers[addrOf(1+i)].downloads = n
					}
				})
			}
			w.locked(func() { w.servers[addrOf(21)].downloads = 1 })
			set(1)
			for i := range manyAtOnce { // the home is the nearest to some, and has measured all when it was slow
				m := new(assign.Memory)
				m.Observe("home", ncoord.Coordinate{}, pageOver(900*time.Millisecond), time.Now())
				w.memories[addrOf(1+i)] = m
			}
			p, stop := w.start(cycle())
			until(t, func() bool { return p.Status().Batches == 1 })
			begun := time.Now()
			time.AfterFunc(c.takes, func() { set(0) })
			until(t, func() bool { return w.requests() > 0 })
			if waited := time.Since(begun); waited < c.want || waited > c.want+2*time.Second {
				t.Errorf("%d downloads take %v, and the first estimate begins after %v", c.servers, c.takes, waited)
			}
			time.Sleep(10 * time.Minute)
			stop()
			atHome := 0
			for _, h := range w.hosts {
				if h.owner == "assigned:home" && h.addr != addrOf(21) {
					atHome++
				}
			}
			if (atHome == manyAtOnce/4) != (c.servers == manyAtOnce) {
				t.Errorf("after %d downloads the home gets %d hosts", c.servers, atHome)
			}
		})
	}
}

// A subnet that ipmicra delegated in one batch is that node's in the next ones: their servers need no probes. Each tuning has its own.
func TestSubnetsOutliveTheirBatch(t *testing.T) {
	inWorld(t, 3, func(t *testing.T, w *world) {
		cfg := modeWith(ModeCycle, 1, assign.IPMicra, "checking")
		cfg.Hosts, cfg.Candidates = 1, []Candidate{{"name": "checking", "assigner": assign.IPMicra, "threshold_ms": 10.0}}
		_, stop := w.start(cfg)
		time.Sleep(15 * time.Minute)
		stop()
		var got []string
		for _, d := range w.decided {
			got = append(got, fmt.Sprintf("%s %s %d", d.Label, d.Owner, d.Estimates))
		}
		want := []string{"ipmicra n1 2", "checking n1 4", "ipmicra n1 0", "checking n1 0", "ipmicra n1 0", "checking n1 0"}
		if !slices.Equal(got, want) {
			t.Errorf("label, node and probes of three servers of one subnet: %q, want %q", got, want)
		}
	})
}

func TestHostsGoToTheNearestNode(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		for i := range 30 {
			w.addHost(hostName(i), addrOf(1+i%25), 60)
		}
		p, stop := w.start(cycle())
		time.Sleep(15 * time.Minute)
		stop()
		s := p.Status()
		if s.HandedOff != 30 || s.Batches < 2 || s.Kept+s.Joined+s.Unresolved+s.Overdue != 0 || s.Estimates < 25*3 || len(w.decided) != 30 {
			t.Errorf("status %+v, %d decisions; troubles %v", s, len(w.decided), w.troubles)
		}
		given := make(map[string]bool) // each server once, before its hosts
		for _, line := range w.log {
			if f := strings.Fields(line); f[0] == "give" {
				if given[f[1]] {
					t.Errorf("given twice: %s", f[1])
				}
				given[f[1]] = true
			} else if !given[w.hosts[f[1]].addr.String()] || f[3] != "nearest:" || len(f) < 5 {
				t.Errorf("before its server was given, or why? %s", line)
			}
		}
		for _, d := range w.decided {
			h := w.hosts[d.Host]
			if want := nearestTo(h.addr); h.owner != "assigned:"+want || d.Owner != want || d.Server != h.addr.String() {
				t.Errorf("%s is at %s, want %s; decision %+v", d.Host, h.owner, want, d)
			}
			// What the estimates have shown goes along with the lease.
			if m := w.memories[h.addr]; m == nil || m.Downloads() != d.Estimates || d.Estimates == 0 || d.URLs >= 60 {
				t.Errorf("%+v of decision %+v", m, d)
			}
			if d.Label != "nearest" || !strings.HasPrefix(d.Batch, "home-3-") || d.Accuracy <= 0 || d.PredictedMs <= 0 || d.Seconds <= 0 ||
				d.Seconds > 300 || d.Reason == "" {
				t.Errorf("decision %+v", d)
			}
		}
		for _, r := range w.asked {
			if strings.HasSuffix(r.URL.Path, "7") || r.Assigned || !r.Fresh || r.Quiet || fmt.Sprint(r.Labels) != "[nearest]" {
				t.Errorf("estimate %+v", r) // paths that end in 7 are disallowed
			}
		}
		// The home itself downloaded robots.txt, and everything else meanwhile.
		if w.crawled != 30 || len(w.slow) > 0 {
			t.Errorf("%d robots.txt, want 30; slow %v", w.crawled, w.slow)
		}
	})
}

func TestBatchesAreBoundedAndSmallHostsWait(t *testing.T) {
	inWorld(t, 7, func(t *testing.T, w *world) {
		w.addHost("http://small.example", addrOf(50), 3)
		cfg := modeWith(ModeCycle, 100, assign.Random)
		cfg.Hosts = 3
		begin := time.Now()
		_, stop := w.start(cfg)
		until(t, func() bool { return w.ownerOf("http://small.example") != w.self })
		if took := time.Since(begin); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("the small host went after %v", took)
		}
		stop()
		hosts := make(map[string]int) // by batch
		for _, d := range w.decided {
			hosts[d.Batch]++
		}
		if sizes := slices.Sorted(maps.Values(hosts)); !slices.Equal(sizes, []int{1, 1, 3, 3}) {
			t.Errorf("batches of %v hosts", sizes)
		}
	})
}

// The status tells the phase, hosts and servers of a batch from its beginning to its end. Hosts of the same servers come along, and one
// whose name does not resolve is left out.
func TestStatusOfABatch(t *testing.T) {
	for mode, want := range map[string][]string{
		ModeCycle: {
			"resolving 4 0", "taking leases 4 0", "deciding 5 2", "comparing 5 2", "handing off 5 2", "idle 0 0 no host is ready",
		},
		ModePersistent: {
			"resolving 4 0", "taking leases 4 0", "taking leases 4 2", "deciding 3 2", "waiting for the next round 3 2", "downloading a round 3 2",
		},
	} {
		inWorld(t, 0, func(t *testing.T, w *world) {
			for i, addr := range []int{1, 1, 2} {
				w.addHost(hostName(i), addrOf(addr), 60)
			}
			w.addHost("http://small.example", addrOf(2), 3)
			w.addHost("http://lost.example", addrOf(3), 60).resolves = false
			w.servers[addrOf(1)].holdFor, w.servers[addrOf(2)].holdFor = time.Second, time.Second
			p, stop := w.start(modeWith(mode, 3, assign.Nearest, assign.Random))
			var told []string
			for begin := time.Now(); time.Since(begin) < 5*time.Minute && len(told) < len(want); time.Sleep(10 * time.Millisecond) {
				synctest.Wait() // the batch may be at work at this instant, between two phases
				s := p.Status()
				line := strings.TrimSpace(fmt.Sprintf("%s %d %d %s", s.Phase, s.Hosts, s.Servers, s.Why))
				if s.ForMs > 0 && (len(told) == 0 || told[len(told)-1] != line) && s.Why+s.Batch != "" {
					told = append(told, line)
				}
			}
			stop()
			if s := p.Status(); !slices.Equal(told, want) || s.Unresolved != 1 || s.Batches != 1 || s.Kept != 0 {
				t.Errorf("mode %s: %q, want %q; %+v", mode, told, want, s)
			}
			if n := p.Status().Resting; mode == ModeCycle && n != 1 { // the lost one
				t.Errorf("%d hosts rest", n)
			}
			for _, addr := range []int{1, 2} {
				if s := w.servers[addrOf(addr)]; mode == ModeCycle && len(s.given) != 1 {
					t.Errorf("server %d was given to %v", addr, s.given)
				}
			}
		})
	}
}

// Mode single goes on until a batch has assigned something. Hosts that wait for more URLs, and those that were left out because their names
// do not resolve, are counted. These come into a later batch.
func TestUnresolvedHostsAreLeftOut(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		w.addHost("http://small.example", addrOf(2), 3)
		h := w.addHost("http://lost.example", addrOf(1), 60)
		h.resolves = false
		p, stop := w.start(modeWith(ModeSingle, 100, assign.Random))
		time.Sleep(time.Minute)
		if s := p.Status(); s.Batches != 1 || s.HandedOff != 0 || s.Waiting != 1 || s.Resting != 1 || s.Why != "no host is ready" {
			t.Errorf("%+v", s)
		}
		w.locked(func() { h.resolves = true })
		time.Sleep(6 * time.Minute) // it rested for 5
		if s := p.Status(); s.Batches != 2 || s.HandedOff != 1 || s.Unresolved != 1 || s.Why != "mode single has made its batch" {
			t.Errorf("%+v", s)
		}
		stop()
		if fmt.Sprint(w.dropped) != "[http://lost.example 60]" || p.neighbours.known.Len() > 0 {
			t.Errorf("left out were %q; %d servers are remembered of which nothing was learnt", w.dropped, p.neighbours.known.Len())
		}
	})
}

// A host whose name resolves too late for a batch is left out of it, even if another of its hosts is at the same server.
func TestHostThatResolvesTooLateIsLeftOut(t *testing.T) {
	withServer(t, 1, func(t *testing.T, w *world, h *fakeHost, s *server) {
		late := w.addHost("http://late.example", h.addr, 1)
		b := &batch{Placement: s.Placement, hosts: []*host{{name: h.name, addrs: []netip.Addr{h.addr}}, {name: late.name}}}
		if b.group(); len(b.hosts) != 2 || len(b.servers) != 1 || len(b.servers[0].hosts) != 1 {
			t.Errorf("%d hosts, of which %d come along with %d servers", len(b.hosts), len(b.servers[0].hosts), len(b.servers))
		}
	})
}

func TestLeasedServersAreJoined(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		w.addHost("http://a.example", addrOf(1), 60)
		w.addHost("http://b.example", addrOf(1), 2) // it comes along with its server
		w.addHost("http://dead.example", addrOf(2), 60)
		w.addHost("http://slow.example", addrOf(3), 60)
		w.addHost("http://former.example", addrOf(4), 60)
		w.servers[addrOf(1)].holder = "n3"
		w.servers[addrOf(2)].holder = "nobody"
		w.servers[addrOf(3)].holdFor = time.Hour
		w.servers[addrOf(4)].holder, w.servers[addrOf(4)].former = "home", true // a host cannot join its own node
		p, stop := w.start(cycle())
		time.Sleep(4 * time.Minute)
		for host, want := range map[string]string{"a": "assigned:n3", "b": "assigned:n3", "dead": "home", "slow": "home", "former": "home"} {
			if got := w.ownerOf("http://" + host + ".example"); got != want {
				t.Errorf("%s is at %s, want %s", host, got, want)
			}
		}
		if s := p.Status(); s.Joined != 2 || s.Kept != 3 || p.Busy() {
			t.Errorf("status %+v", s)
		}
		w.locked(func() {
			if len(w.troubles) != 3 { // one for each host that stays
				t.Errorf("troubles %v", w.troubles)
			}
			if len(w.decided) != 2 || w.decided[0].Reason != reasonLeased || w.decided[0].Label != "" || w.decided[0].Owner != "n3" ||
				w.decided[0].URLs != 60 || w.decided[1].URLs != 1 {
				t.Errorf("decided %+v", w.decided)
			}
			w.servers[addrOf(2)].holder, w.servers[addrOf(3)].holdFor = "", 0
		})
		time.Sleep(15 * time.Minute)
		if a, b := w.ownerOf("http://dead.example"), w.ownerOf("http://slow.example"); a == "home" || b == "home" {
			t.Errorf("they never came back: %s, %s", a, b)
		}
		stop()
	})
}

// A node that has died is asked for nothing and gets no host. Servers are decided by the answers of the others.
func TestNodesThatDieAreNotChosen(t *testing.T) {
	inWorld(t, 8, func(t *testing.T, w *world) {
		w.do = func(ctx context.Context, node string, _ RemoteFetch) (Result, error, bool) {
			if node == "n2" { // it never answers
				_ = bell.Sleep(ctx, time.Minute)
			}
			return Result{}, errLost, node == "n2"
		}
		p, stop := w.start(cycle())
		until(t, func() bool { return w.asks(0, func(r request) string { return r.node })["n2"] > 0 })
		if !p.Busy() || p.Status().Phase != PhaseDecide {
			t.Errorf("status %+v", p.Status())
		}
		w.die(p, "n2")
		died := time.Now()
		time.Sleep(10 * time.Minute)
		stop()
		answered := make(map[netip.Addr]int)
		for _, r := range w.asked {
			if r.node != "n2" {
				answered[r.Server]++
			} else if r.at.After(died.Add(5 * time.Second)) {
				t.Errorf("n2 is asked for %s after its death", r.URL)
			}
		}
		for _, h := range w.hosts {
			want := nearestTo(h.addr)
			if h.owner == "home" || h.owner == "assigned:n2" || want != "n2" && h.owner != "assigned:"+want || answered[h.addr] < 2 {
				t.Errorf("%s is at %s after %d answers; %s is the nearest", h.name, h.owner, answered[h.addr], want)
			}
		}
		if p.Status().Unanswered == 0 {
			t.Error("nothing was unanswered: the test shows nothing")
		}
	})
}

func TestOverdueBatchIsDecided(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		w.addHosts(4, 100)
		cfg := modeWith(ModeCycle, 100, assign.Vivaldi)
		cfg.Deadline = 5 * time.Minute
		p, stop := w.start(cfg)
		time.Sleep(8 * time.Minute)
		stop()
		if s := p.Status(); s.HandedOff != 4 || s.Overdue == 0 {
			t.Errorf("status %+v", s)
		}
		for _, d := range w.decided {
			if !strings.HasPrefix(d.Reason, "undecided after 5m0s: ") || !w.nodes[d.Owner] || d.Seconds < 300 {
				t.Errorf("decision %+v", d)
			}
		}
		if p.neighbours.known.Len() > 0 {
			t.Error("what vivaldi has learnt counts for the neighbours of its servers")
		}
	})
}

// An overdue batch waits for its estimates. A node that dies meanwhile gets no hosts.
func TestMembersOfTheEndCount(t *testing.T) {
	inWorld(t, 8, func(t *testing.T, w *world) {
		w.do = func(ctx context.Context, _ string, _ RemoteFetch) (Result, error, bool) {
			time.Sleep(2 * time.Minute)
			if ctx.Err() != nil {
				t.Error("a download is broken off by the deadline")
			}
			return Result{}, errLost, true
		}
		cfg := cycle()
		cfg.Deadline = 30 * time.Second
		p, stop := w.start(cfg)
		time.Sleep(time.Minute)
		w.die(p, "n1")
		w.die(p, "n2")
		time.Sleep(3 * time.Minute)
		stop()
		if s := p.Status(); s.Overdue != 1 || s.HandedOff != 8 || s.Kept != 0 {
			t.Errorf("status %+v, troubles %v", s, w.troubles)
		}
	})
}

func TestServersWithoutURLsAreDecidedAllTheSame(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		w.addHosts(4, 2)
		cfg := cycle()
		cfg.URLs = 1
		p, stop := w.start(cfg)
		time.Sleep(5 * time.Minute)
		stop()
		if s := p.Status(); s.HandedOff != 4 || s.Overdue != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestHandOffsThatFailStay(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		fails := true
		w.handOff = func(host, _ string) error {
			if fails && host == hostName(0) {
				return errors.New("refused")
			}
			return nil
		}
		p, stop := w.start(cycle())
		time.Sleep(4 * time.Minute)
		s := p.Status()
		w.locked(func() {
			if s.Kept != 1 || s.HandedOff != 1 || w.hosts[hostName(0)].owner != "home" || len(w.troubles) != 1 {
				t.Errorf("status %+v, %v", s, w.troubles)
			}
			fails = false
			w.servers[addrOf(1)].holder = "" // the lease has expired at the node that did not take the host
		})
		time.Sleep(8 * time.Minute)
		if got := w.ownerOf(hostName(0)); got != "assigned:n1" {
			t.Errorf("it is at %s", got)
		}
		stop()
	})
}

// When the frontier has closed, nothing more is handed off, neither of the same server nor in a later batch.
func TestClosedFrontierEndsTheBatches(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.addHost("http://b.example", addrOf(1), 60)
		tried := 0
		w.handOff = func(_, _ string) error {
			tried++
			return frontier.ErrClosed
		}
		_, stop := w.start(cycle())
		time.Sleep(15 * time.Minute)
		stop()
		if tried != 1 || len(w.troubles) > 0 {
			t.Errorf("%d hand-offs were tried; troubles %v", tried, w.troubles)
		}
	})
}

func TestHostThatMovesToAnotherServerStays(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.addHost("http://b.example", addrOf(1), 60)
		w.servers[addrOf(9)] = &fakeServer{addr: addrOf(9)}
		p, stop := w.start(cycle())
		until(t, func() bool { return p.Status().Phase == PhaseDecide })
		w.locked(func() { h.addr = addrOf(9) })
		until(t, func() bool { return !p.Busy() })
		if s := p.Status(); s.Kept != 1 || s.HandedOff != 1 || w.ownerOf(h.name) != "home" {
			t.Errorf("status %+v", s)
		}
		stop()
	})
}

func TestModes(t *testing.T) {
	for mode, want := range map[string]int64{ModeCrawl: 0, ModeSingle: 1, ModeCycle: 2} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			p, stop := w.start(modeWith(mode, 100, assign.Random))
			time.Sleep(5 * time.Minute)
			w.addHost("http://b.example", addrOf(2), 60)
			time.Sleep(5 * time.Minute)
			if s := p.Status(); s.HandedOff != want || p.Busy() || s.Why == "" {
				t.Errorf("%s: %+v", mode, s)
			}
			stop()
		})
	}
}

func TestNothingIsAssignedWhilePaused(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		p, stop := w.start(cycle())
		for i, c := range []struct {
			view   assign.View
			paused string
			why    string
		}{{assign.View{}, "", "no member is known yet"}, {w.view(), "the smaller side", "the smaller side"}} {
			p.SetView(c.view, c.paused)
			time.Sleep(5 * time.Minute)
			if s := p.Status(); s.Batches != 0 || s.Why != c.why || s.ForMs != int64(i+1)*5*60*1000 {
				t.Errorf("status %+v, want why %q", s, c.why)
			}
		}
		stop()
	})
}

// Run ends in every phase: it returns at once, all tasks are finished, and no server is reserved.
func TestStopAtAnyMoment(t *testing.T) {
	phases := make(map[string]int)
	for i := range 60 {
		inWorld(t, 6, func(t *testing.T, w *world) {
			mode := ModeCycle
			if i%3 == 0 {
				mode = ModePersistent
			}
			p, stop := w.start(modeWith(mode, 10, assign.Nearest, assign.Random))
			time.Sleep(10*time.Second + time.Duration(i*i)*23*time.Millisecond)
			phases[p.Status().Phase]++
			begin := time.Now()
			stop()
			if took := time.Since(begin); took > time.Second { // which checkRest takes
				t.Errorf("stopped in %v", took)
			}
		})
	}
	if len(phases) < 5 {
		t.Errorf("stopped in %v only", phases)
	}
}
