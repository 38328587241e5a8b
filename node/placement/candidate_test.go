package placement

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

func TestCandidates(t *testing.T) {
	c := Default()
	c.Assigners = []string{"theta15", assign.Nearest, "few"}
	c.Candidates = []Candidate{
		{"name": "theta15", "assigner": assign.Vivaldi, "theta": 0.15, "tick": "2s"},
		{"name": "few", "assigner": assign.Nearest, "estimates": int64(2)},
	}
	must(t, c.Validate())
	base := assign.Default()
	base.Margin = 0.5
	got, err := c.tuning("theta15", base)
	if err != nil || got.label != "theta15" || got.method != assign.Vivaldi || got.cfg.Vivaldi.Theta != 0.15 ||
		got.cfg.Vivaldi.Tick != 2*time.Second || got.cfg.Vivaldi.MaxTicks != base.Vivaldi.MaxTicks || got.cfg.Margin != 0.5 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, _ := c.tuning("few", base); got.cfg.Nearest.Estimates != 2 || got.cfg.Vivaldi.Theta != base.Vivaldi.Theta {
		t.Errorf("%+v", got)
	}
	if got, _ := c.tuning(assign.Nearest, base); got.method != assign.Nearest || got.cfg.Nearest.Estimates != base.Nearest.Estimates {
		t.Errorf("a name that is no candidate's: %+v", got)
	}
	if c.first() != assign.Vivaldi || c.moves() {
		t.Errorf("the first is %s", c.first())
	}
	c.Mode, c.Assigners, c.Candidates = ModeCycle, []string{"few"}, c.Candidates[1:]
	if !c.moves() {
		t.Error("a tuning of nearest does not move servers later")
	}
	if c.URLs = 7; len(c.Warnings(base)) > 0 { // enough for this tuning, not for nearest itself
		t.Errorf("%q", c.Warnings(base))
	}
}

// Each assigner of a batch is tuned as its candidate says. Servers move later by the configuration of all.
func TestTuningReachesTheAssigners(t *testing.T) {
	inWorld(t, 0, func(t *testing.T, w *world) {
		addr := w.addAssigned()
		cfg, deps := modeWith(ModeCycle, 100, "few"), w.deps()
		cfg.Candidates = []Candidate{{"name": "few", "assigner": assign.Nearest, "estimates": int64(1)}}
		deps.Assign.MarginMs = 60_000
		p := New(cfg, deps)
		p.SetView(w.view(), "")
		b := &batch{Placement: p, servers: []*server{{Placement: p, addr: addr, pages: pagesOf(t, "/"), turns: make(chan struct{}, 1)}}}
		if err := b.decide(t.Context(), "1"); err != nil || p.Status().Estimates != 1 {
			t.Errorf("%d estimates, %v", p.Status().Estimates, err)
		}
		for range 2 {
			if err := p.reconsider(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(betterFor)
		}
		if len(w.log) > 0 {
			t.Errorf("it moves to a node that is hardly better: %v", w.log)
		}
	})
}

func TestCandidatesAreRefused(t *testing.T) {
	fine := Candidate{"name": "a", "assigner": assign.Vivaldi}
	for want, candidates := range map[string][]Candidate{
		"no such key":                {{"name": "a", "assigner": assign.Vivaldi, "thetta": 0.2}},
		"is the name of an assigner": {{"name": assign.Random, "assigner": assign.Vivaldi}},
		"not of letters":             {{"name": "a,b", "assigner": assign.Vivaldi}},
		`assigner: "psychic"`:        {{"name": "a", "assigner": "psychic"}},
		`assigner: ""`:               {{"name": "a"}},
		"incompatible types":         {{"name": "a", "assigner": assign.Vivaldi, "theta": "much"}},
		"theta: -1 is not":           {{"name": "a", "assigner": assign.Vivaldi, "theta": -1.0}},
		"unsupported type":           {{"name": "a", "assigner": assign.Vivaldi, "theta": make(chan int)}},
		"twice":                      {fine, fine},
	} {
		c := modeWith(ModeCycle, 100, "a")
		c.Candidates = candidates
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", candidates, err, want)
		}
	}
	c := cycle()
	c.Candidates = []Candidate{{"name": "other", "assigner": assign.Vivaldi}}
	if w := c.Warnings(assign.Default()); len(w) != 1 || !strings.Contains(w[0], "other is not among") {
		t.Errorf("a candidate that decides nothing: %q", w)
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
