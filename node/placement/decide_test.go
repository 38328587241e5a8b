package placement

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/bell"
)

func TestAssignerRestsAsLongAsItThought(t *testing.T) {
	for _, c := range []struct {
		thought, cut time.Duration
		answers      int
	}{
		{0, time.Hour, 0}, // on a fake clock thinking takes no time
		{10 * time.Millisecond, time.Hour, 90},
		{10 * time.Millisecond, 30 * time.Millisecond, 30},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(context.Background(), c.cut)
			defer stop()
			answers := make(chan assign.Result)
			asking, end := context.WithCancel(context.Background())
			defer end()
			go func() { // an answer a millisecond
				for bell.Sleep(asking, time.Millisecond) == nil {
					select {
					case answers <- assign.Result{}:
					case <-asking.Done():
					}
				}
			}()
			n := 0
			rest(ctx, c.thought, answers, func(assign.Result) { n++ })
			if n < c.answers-1 || n > c.answers {
				t.Errorf("after %v of thinking, cut after %v: %d answers taken in, want %d", c.thought, c.cut, n, c.answers)
			}
		})
	}
}

// waiting is an assigner that decides nothing. It counts how often it is called.
type waiting struct {
	assign.Assigner
	due   time.Duration // from now until it says that it must be called again
	calls int
	once  []assign.Ask // what it asks for in the first call
	heard []bool       // which answers were usable
	last  time.Time    // when the last one came
	over  func() bool  // whether it has decided all the same; nil: never
}

func (a *waiting) Asks(time.Time) (asks []assign.Ask) {
	a.calls++
	asks, a.once = a.once, nil
	return asks
}

func (a *waiting) Observe(r assign.Result, now time.Time) {
	a.heard, a.last = append(a.heard, r.OK), now
}

func (a *waiting) Decide(time.Time) ([]assign.Choice, bool) {
	return nil, a.over != nil && a.over()
}

func (a *waiting) Next(now time.Time) (time.Time, bool) { return now.Add(a.due), a.due != never }

func (a *waiting) Memory(netip.Addr) *assign.Memory { return &assign.Memory{} }

// never is due at no time.
const never = 1000 * time.Hour

// An assigner is called when it is due. One that is always due is called a hundred times a second, and one that waits for nothing once.
// Meanwhile others hear every five seconds of what it has learnt.
func TestAssignerIsCalledWhenItIsDue(t *testing.T) {
	for due, calls := range map[time.Duration]int{-time.Second: 60 * 100, 0: 60 * 100, 10 * time.Millisecond: 60 * 100, time.Second: 60, never: 1} {
		inWorld(t, 0, func(t *testing.T, w *world) {
			cfg := cycle()
			cfg.Deadline = time.Minute - 5*time.Millisecond
			b := &batch{Placement: New(cfg, w.deps()), servers: []*server{{addr: addrOf(1)}}}
			a := &waiting{due: due}
			begun := time.Now()
			time.Sleep(time.Millisecond) // so that nothing else happens at the deadline
			if err := b.drive(t.Context(), "1", &plan{assigner: a, tuning: tuning{label: "a"}}, begun); err != nil || time.Since(begun) != cfg.Deadline {
				t.Errorf("it was given %v: %v", time.Since(begun), err)
			}
			told := 11
			if due == never {
				told = 1 // at the deadline
			}
			if a.calls != calls || len(w.placed) != told || w.placed[0] != "a 192.0.2.1 0" {
				t.Errorf("due in %v: %d calls, want %d; told %q", due, a.calls, calls, w.placed)
			}
		})
	}
}

// An assigner hears of a download that ends after the deadline. When it has decided, or at the deadline, no other one begins.
func TestDownloadsAtTheEndOfADecision(t *testing.T) {
	for most, deadline := range []time.Duration{30 * time.Second, time.Hour} {
		withServer(t, 1, func(t *testing.T, _ *world, _ *fakeHost, s *server) {
			s.pages, s.cfg.Deadline = pagesOf(t, "/"), deadline
			s.deps.Fetch = func(context.Context, string, RemoteFetch) (Result, error) {
				time.Sleep(time.Minute)
				return page200(time.Second), nil
			}
			a := &waiting{due: never, once: slices.Repeat([]assign.Ask{{Server: s.addr, Node: "n1"}}, 3)}
			a.over = func() bool { return most > 0 && len(a.heard) >= most }
			b := &batch{Placement: s.Placement, servers: []*server{s}}
			err := b.drive(t.Context(), "1", &plan{assigner: a}, time.Now())
			made := 0 // the second may begin when the first is answered, and those that do not begin may end before it is heard
			for _, ok := range a.heard {
				if ok {
					made++
				}
			}
			if err != nil || len(a.heard) != 3 || made < 1 || made > 2 || !a.last.Equal(time.Now()) {
				t.Errorf("decided after %d answers or %v: heard %v, the last %v ago, %v", most, deadline, a.heard, time.Since(a.last), err)
			}
		})
	}
}

// An assigner that finds nothing to ask for may decide at once. Nothing is waited for then.
func TestAssignerThatHasNothingToAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, begun := &waiting{due: never}, time.Now()
		a.over = func() bool { return a.calls > 0 }
		b := &batch{Placement: New(cycle(), newWorld(t).deps())}
		if err := b.drive(t.Context(), "1", &plan{assigner: a}, begun); err != nil || time.Since(begun) > 0 {
			t.Errorf("it was given %v: %v", time.Since(begun), err)
		}
	})
}

// A batch whose assigners cannot be made is an error.
func TestAssignersThatCannotBeMade(t *testing.T) {
	for _, candidates := range [][]Candidate{nil, {{"name": "a", "assigner": "psychic"}}} {
		cfg := modeWith(ModeCycle, 100, "a")
		cfg.Candidates = candidates
		b := &batch{Placement: New(cfg, newWorld(t).deps())}
		if err := b.decide(t.Context(), "1"); err == nil || len(b.plans) > 0 {
			t.Errorf("with the candidates %v: %v", candidates, err)
		}
	}
}

func TestNeighboursAreRemembered(t *testing.T) {
	n := newNeighbours()
	addr := netip.MustParseAddr
	known := func(times int) (m assign.Memory) {
		for range times {
			m.Observe("a", ncoord.Coordinate{}, pageOver(time.Millisecond), time.Unix(1, 0))
		}
		return m
	}
	for i, a := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "198.51.100.1"} {
		n.remember(addr(a), known(i+1))
	}
	n.remember(addr("192.0.2.3"), known(9))
	near := n.near([]*server{{addr: addr("192.0.2.4")}, {addr: addr("192.0.2.77")}, {addr: addr("203.0.113.1")}})
	// Three of a network are kept, and the latest comes first. Those of the batch are left out.
	if len(near) != 2 || near[0].Addr != addr("192.0.2.3") || near[0].Memory.Downloads() != 9 || near[1].Addr != addr("192.0.2.2") {
		t.Errorf("near are %+v", near)
	}
	if near := n.near([]*server{{addr: addr("203.0.113.1")}}); len(near) > 0 {
		t.Errorf("of a network that is not known: %+v", near)
	}
}

// An assigner gets what it has learnt of a server in earlier rounds, or what its grantor knew. Only nearest gets the neighbours.
func TestAssignersGetWhatIsKnown(t *testing.T) {
	known := func(bytes float64) assign.Memory { return assign.Memory{PageBytes: bytes} }
	w := newWorld(t)
	p := &Placement{deps: w.deps(), neighbours: newNeighbours()}
	there := &ncoord.Location{}
	p.deps.Locate = func(addr netip.Addr) *ncoord.Location { return map[netip.Addr]*ncoord.Location{addrOf(2): there}[addr] }
	p.neighbours.remember(addrOf(9), known(9))
	b := &batch{Placement: p, servers: []*server{
		{addr: addrOf(1), memory: known(1), hosts: []*host{
			{name: "a", pending: 30, taken: 10}, {name: "b", pending: 5}, {name: "c", pending: 1, taken: 3},
		}},
		{addr: addrOf(2), memory: known(2), learnt: map[string]assign.Memory{"theta-15": known(3)}, hosts: []*host{{name: "d"}}},
	}}
	for _, c := range []struct {
		tuning
		pages [2]float64
		near  int
	}{
		{tuning{label: "theta-15", method: assign.Vivaldi}, [2]float64{1, 3}, 0},
		{tuning{label: assign.Nearest, method: assign.Nearest}, [2]float64{1, 2}, 1},
	} {
		in := b.input("7", c.tuning)
		if got := [2]float64{in.Servers[0].Memory.PageBytes, in.Servers[1].Memory.PageBytes}; got != c.pages || len(in.Near) != c.near {
			t.Errorf("%s: pages of %v bytes, %d servers around", c.label, got, len(in.Near))
		}
		hosts := []assign.Host{{Name: "a", Pending: 20, PageBytes: 1}, {Name: "b", Pending: 5, PageBytes: 1}, {Name: "c", PageBytes: 1}}
		if got := in.Servers[0].Hosts; !slices.Equal(got, hosts) {
			t.Errorf("%s: hosts %+v", c.label, got)
		}
		if got := in.Servers[1].Hosts; !slices.Equal(got, []assign.Host{{Name: "d", PageBytes: c.pages[1]}}) {
			t.Errorf("%s: hosts %+v of the other server", c.label, got)
		}
		if in.Servers[0].Location != nil || in.Servers[1].Location != there {
			t.Errorf("%s: %v and %v", c.label, in.Servers[0].Location, in.Servers[1].Location)
		}
		if in.ID != "7" || in.Seed == b.input("8", c.tuning).Seed {
			t.Errorf("%s: batch %s", c.label, in.ID)
		}
	}
}
