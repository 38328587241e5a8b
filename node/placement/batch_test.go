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

func TestHostsGoToTheNearestNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 30 {
			w.addHost(fmt.Sprintf("http://h%02d.example", i), addrOf(1+i%25), 60)
		}
		b, stop := w.start(cycle())
		time.Sleep(15 * time.Minute)
		stop()
		for _, h := range w.hosts {
			if want := "assigned:" + nearestTo(h.addr); h.owner != want {
				t.Errorf("%s is at %s, want %s", h.name, h.owner, want)
			}
		}
		s := b.Status()
		if s.HandedOff != 30 || s.Batches < 2 || s.Kept+s.Joined+s.Unresolved+s.Overdue != 0 || s.Estimates < 25*3 {
			t.Errorf("status %+v; troubles %v", s, w.troubles)
		}
		// Each server was given once, before its hosts.
		at := make(map[string]int)
		for i, line := range w.log {
			f := strings.Fields(line)
			if f[0] == "give" {
				if _, twice := at[f[1]]; twice {
					t.Errorf("given twice: %s", f[1])
				}
				at[f[1]] = i
			} else if _, ok := at[w.hosts[f[1]].addr.String()]; !ok {
				t.Errorf("%s went before its server was given", f[1])
			} else if f[3] != "nearest:" || len(f) < 5 {
				t.Errorf("why? %s", line)
			}
		}
		if len(w.decided) != 30 {
			t.Errorf("%d decisions", len(w.decided))
		}
		for _, d := range w.decided {
			// What the estimates have shown goes along with the lease.
			if m := w.memories[netip.MustParseAddr(d.Server)]; m == nil || m.Downloads() != d.Estimates || d.URLs >= 60 || d.Accuracy <= 0 {
				t.Errorf("%+v of decision %+v", m, d)
			}
			if d.Label != "nearest" || d.Owner != nearestTo(netip.MustParseAddr(d.Server)) || !strings.HasPrefix(d.Batch, "home-3-") || d.Estimates == 0 || d.PredictedMs <= 0 || d.Seconds <= 0 || d.Seconds > 300 || d.Reason == "" {
				t.Errorf("decision %+v", d)
			}
		}
		for _, r := range w.asked {
			if strings.HasSuffix(r.URL.Path, "7") {
				t.Errorf("%s is disallowed, and was asked for", r.URL)
			}
			if r.Assigned || !r.Fresh || r.Quiet || fmt.Sprint(r.Labels) != "[nearest]" {
				t.Errorf("estimate %+v", r)
			}
		}
		// The home itself downloaded robots.txt, and everything else meanwhile.
		if w.crawled != 30 || len(w.slow) > 0 {
			t.Errorf("%d robots.txt, want 30; slow %v", w.crawled, w.slow)
		}
	})
}

func TestBatchesAreBoundedAndHostsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 7 {
			w.addHost(fmt.Sprintf("http://big%d.example", i), addrOf(1+i), 60)
		}
		w.addHost("http://small.example", addrOf(50), 3)
		cfg := cycle()
		cfg.Assigners, cfg.Hosts = []string{assign.Random}, 3
		begin := time.Now()
		_, stop := w.start(cfg)
		time.Sleep(9 * time.Minute)
		perBatch := make(map[string]int)
		w.mu.Lock()
		for _, d := range w.decided {
			perBatch[d.Batch]++
		}
		if w.hosts["http://small.example"].owner != "home" {
			t.Error("the small host did not wait")
		}
		decided := len(w.decided)
		w.mu.Unlock()
		if len(perBatch) != 3 || decided != 7 {
			t.Errorf("batches %v", perBatch)
		}
		for id, n := range perBatch {
			if n > 3 {
				t.Errorf("batch %s has %d hosts", id, n)
			}
		}
		for w.ownerOf("http://small.example") == "home" && time.Since(begin) < time.Hour {
			time.Sleep(time.Second)
		}
		if took := time.Since(begin); took < 10*time.Minute || took > 11*time.Minute {
			t.Errorf("the small host went after %v", took)
		}
		stop()
	})
}

func (w *world) ownerOf(host string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hosts[host].owner
}

func TestUnresolvedHostsAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://a.example", addrOf(1), 60)
		lost := w.addHost("http://lost.example", addrOf(2), 70)
		lost.resolves = false
		b, stop := w.start(cycle())
		time.Sleep(3 * time.Minute)
		if w.ownerOf("http://a.example") == "home" {
			t.Error("a.example waits for the other")
		}
		w.mu.Lock()
		if fmt.Sprint(w.dropped) != "[http://lost.example 70]" {
			t.Errorf("dropped %q", w.dropped)
		}
		lost.resolves = true
		w.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if w.ownerOf("http://lost.example") == "home" || b.Status().Unresolved != 1 {
			t.Errorf("it never came back: %+v", b.Status())
		}
		stop()
	})
}

func TestLeasedServersAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://a.example", addrOf(1), 60)
		w.addHost("http://b.example", addrOf(1), 2) // it comes along with its server
		w.addHost("http://dead.example", addrOf(2), 60)
		w.addHost("http://slow.example", addrOf(3), 60)
		w.addHost("http://former.example", addrOf(4), 60)
		w.servers[addrOf(4)].holder, w.servers[addrOf(4)].former = "home", true // a host cannot join its own node
		w.servers[addrOf(1)].holder = "n3"
		w.servers[addrOf(2)].holder = "nobody"
		w.servers[addrOf(3)].holdFor = time.Hour
		b, stop := w.start(cycle())
		time.Sleep(4 * time.Minute)
		for host, want := range map[string]string{"http://a.example": "assigned:n3", "http://b.example": "assigned:n3", "http://dead.example": "home", "http://slow.example": "home",
			"http://former.example": "home"} {
			if got := w.ownerOf(host); got != want {
				t.Errorf("%s is at %s, want %s", host, got, want)
			}
		}
		s := b.Status()
		if s.Joined != 2 || s.Kept != 3 || s.Busy() {
			t.Errorf("status %+v", s)
		}
		w.mu.Lock()
		if len(w.troubles) != 3 { // one for each host that stays
			t.Errorf("troubles %v", w.troubles)
		}
		if len(w.decided) != 2 || w.decided[0].Reason != reasonLeased || w.decided[0].Label != "" || w.decided[0].Owner != "n3" ||
			w.decided[0].URLs != 60 || w.decided[1].URLs != 1 {
			t.Errorf("decided %+v", w.decided)
		}
		w.servers[addrOf(2)].holder, w.servers[addrOf(3)].holdFor = "", 0
		w.mu.Unlock()
		time.Sleep(15 * time.Minute)
		if a, b := w.ownerOf("http://dead.example"), w.ownerOf("http://slow.example"); a == "home" || b == "home" {
			t.Errorf("they never came back: %s, %s", a, b)
		}
		stop()
	})
}

// Busy reports whether a batch was under way when the status was taken.
func (s Status) Busy() bool { return s.Phase != PhaseIdle }

func TestNodesThatDieAreNotChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 8 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
		}
		// n2 never answers.
		w.do = func(ctx context.Context, node string, e RemoteFetch) (Result, error, bool) {
			if node != "n2" {
				return Result{}, nil, false
			}
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
			}
			return Result{}, errors.New("unanswered"), true
		}
		b, stop := w.start(cycle())
		toN2 := func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.ContainsFunc(w.asked, func(r request) bool { return r.node == "n2" })
		}
		for begin := time.Now(); !toN2() && time.Since(begin) < 5*time.Minute; {
			time.Sleep(100 * time.Millisecond)
		}
		if !b.Busy() || b.Status().Phase != PhaseDecide {
			t.Errorf("status %+v", b.Status())
		}
		w.mu.Lock()
		delete(w.nodes, "n2")
		w.mu.Unlock()
		b.SetView(w.view(), "")
		died := time.Now()
		time.Sleep(10 * time.Minute)
		stop()
		for _, r := range w.asked {
			if r.node == "n2" && r.at.After(died.Add(5*time.Second)) {
				t.Errorf("n2 is asked for %s after its death", r.URL)
			}
		}
		for _, h := range w.hosts {
			if h.owner == "home" || h.owner == "assigned:n2" {
				t.Errorf("%s is at %s", h.name, h.owner)
			}
			if want := nearestTo(h.addr); want != "n2" && h.owner != "assigned:"+want {
				t.Errorf("%s is at %s, want %s", h.name, h.owner, want)
			}
		}
		answered := make(map[string]int)
		for _, r := range w.asked {
			if r.node != "n2" {
				answered[r.Server.String()]++
			}
		}
		for _, h := range w.hosts {
			if n := answered[h.addr.String()]; n < 2 {
				t.Errorf("%s was decided after %d answers", h.name, n)
			}
		}
		if b.Status().Unanswered == 0 {
			t.Error("nothing was unanswered: the test shows nothing")
		}
	})
}

func TestOverdueBatchIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 100)
		}
		cfg := cycle()
		cfg.Assigners, cfg.Deadline = []string{assign.Vivaldi}, 5*time.Minute
		b, stop := w.start(cfg)
		time.Sleep(8 * time.Minute)
		stop()
		if s := b.Status(); s.HandedOff != 4 || s.Overdue == 0 {
			t.Errorf("status %+v", s)
		}
		for _, d := range w.decided {
			if !strings.HasPrefix(d.Reason, "undecided after 5m0s: ") || !w.nodes[d.Owner] || d.Seconds < 300 {
				t.Errorf("decision %+v", d)
			}
		}
		if b.neighbours.known.Len() > 0 {
			t.Error("what vivaldi has learnt counts for the neighbours of its servers")
		}
	})
}

// An overdue batch waits for its estimates. A node that dies meanwhile gets no hosts.
func TestMembersOfTheEndCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 8 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
		}
		w.do = func(ctx context.Context, _ string, _ RemoteFetch) (Result, error, bool) {
			time.Sleep(2 * time.Minute)
			if ctx.Err() != nil {
				t.Error("a download is broken off by the deadline")
			}
			return Result{}, errors.New("unanswered"), true
		}
		cfg := cycle()
		cfg.Deadline = 30 * time.Second
		b, stop := w.start(cfg)
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.nodes = map[string]bool{"home": true, "n3": true}
		w.mu.Unlock()
		b.SetView(w.view(), "")
		time.Sleep(3 * time.Minute)
		stop()
		if s := b.Status(); s.Overdue != 1 || s.HandedOff != 8 || s.Kept != 0 {
			t.Errorf("status %+v, troubles %v", s, w.troubles)
		}
	})
}

func TestServersWithoutURLsAreDecidedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 4 {
			w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 2)
		}
		cfg := cycle()
		cfg.URLs = 1
		b, stop := w.start(cfg)
		time.Sleep(5 * time.Minute)
		stop()
		if s := b.Status(); s.HandedOff != 4 || s.Overdue != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestHandOffsThatFailStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://a.example", addrOf(1), 60)
		w.addHost("http://b.example", addrOf(2), 60)
		fails := true
		w.handOff = func(host, _ string) error {
			if fails && host == "http://a.example" {
				return errors.New("refused")
			}
			return nil
		}
		b, stop := w.start(cycle())
		time.Sleep(4 * time.Minute)
		s := b.Status()
		w.mu.Lock()
		if s.Kept != 1 || s.HandedOff != 1 || w.hosts["http://a.example"].owner != "home" || len(w.troubles) != 1 {
			t.Errorf("status %+v, %v", s, w.troubles)
		}
		fails = false
		w.servers[addrOf(1)].holder = "" // the lease has expired at the node that did not take the host
		w.mu.Unlock()
		time.Sleep(8 * time.Minute)
		if w.ownerOf("http://a.example") != "assigned:n1" {
			t.Errorf("it is at %s", w.ownerOf("http://a.example"))
		}
		stop()
	})
}

// When the frontier has closed, nothing more is handed off, neither of the same server nor in a later batch.
func TestClosedFrontierEndsTheBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://a.example", addrOf(1), 60)
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
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://a.example", addrOf(1), 60)
		h := w.addHost("http://b.example", addrOf(1), 60)
		w.servers[addrOf(9)] = &fakeServer{addr: addrOf(9)}
		b, stop := w.start(cycle())
		for b.Status().Phase != PhaseDecide {
			time.Sleep(100 * time.Millisecond)
		}
		w.mu.Lock()
		h.addr = addrOf(9)
		w.mu.Unlock()
		for b.Busy() {
			time.Sleep(100 * time.Millisecond)
		}
		if s := b.Status(); s.Kept != 1 || s.HandedOff != 1 || w.ownerOf("http://b.example") != "home" {
			t.Errorf("status %+v", s)
		}
		stop()
	})
}

func TestModes(t *testing.T) {
	for mode, want := range map[string]int64{ModeCrawl: 0, ModeSingle: 1, ModeCycle: 2} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.addHost("http://a.example", addrOf(1), 60)
			cfg := cycle()
			cfg.Mode, cfg.Assigners = mode, []string{assign.Random}
			b, stop := w.start(cfg)
			time.Sleep(5 * time.Minute)
			w.addHost("http://b.example", addrOf(2), 60)
			time.Sleep(5 * time.Minute)
			if s := b.Status(); s.HandedOff != want || s.Busy() || s.Why == "" {
				t.Errorf("%s: %+v", mode, s)
			}
			stop()
		})
	}
}

func TestNothingIsAssignedWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHost("http://a.example", addrOf(1), 60)
		b := New(cycle(), w.deps())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()
		time.Sleep(time.Minute)
		if s := b.Status(); s.Batches != 0 || s.Why != "no member is known yet" {
			t.Errorf("before the first view: %+v", s)
		}
		b.SetView(w.view(), "the smaller side")
		time.Sleep(5 * time.Minute)
		if s := b.Status(); s.Batches != 0 || s.Why != "the smaller side" {
			t.Errorf("status %+v", s)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Run ends in every phase: it returns at once, all tasks are finished, and no server is reserved.
func TestStopAtAnyMoment(t *testing.T) {
	phases := make(map[string]int)
	for i := range 60 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			for i := range 6 {
				w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+i), 60)
			}
			cfg := cycle()
			cfg.Assigners, cfg.CompareURLs = []string{assign.Nearest, assign.Random}, 10
			if i%3 == 0 {
				cfg.Mode = ModePersistent
			}
			b, stop := w.start(cfg)
			time.Sleep(10*time.Second + time.Duration(i*i)*23*time.Millisecond)
			phases[b.Status().Phase]++
			begin := time.Now()
			stop()
			if took := time.Since(begin); took > time.Second {
				t.Errorf("stopped in %v", took)
			}
			time.Sleep(time.Second)
		})
	}
	if len(phases) < 5 {
		t.Errorf("stopped in %v only", phases)
	}
}
