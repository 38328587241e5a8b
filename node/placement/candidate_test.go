package placement

import (
	"strings"
	"testing"
	"time"

	"proxima/assign"
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
