package main

import "testing"

// small is a world that takes seconds.
func small(seed uint64) *world {
	s := defaults()
	s.Pages, s.Hosts, s.Seed = 2000, 20, seed
	return newWorld(s)
}

// TestFreshness: on worlds of other seeds than any that was looked at, copies are at least 0.95 as fresh as by the best
// schedule with known rates, and fresher than by uniform visits and by those in proportion to the known rates.
func TestFreshness(t *testing.T) {
	for _, seed := range []uint64{20261201, 20261202} {
		w := small(seed)
		best, ours := runBest(w).Freshness, newCrawler(w, nil).run("").Freshness
		uniform, proportional := runUniform(w).Freshness, runProportional(w).Freshness
		t.Logf("seed %d: %.3f of the best, %.4f; uniform %.4f, proportional %.4f", seed, ours/best, best, uniform, proportional)
		if ours < 0.95*best || ours < uniform || ours < proportional {
			t.Errorf("seed %d: freshness %.4f; the best has %.4f, uniform %.4f, proportional %.4f", seed, ours, best, uniform, proportional)
		}
		if long := optimum(w); best < long-0.01 || best > long+0.03 {
			t.Errorf("seed %d: the best schedule has %.4f, the long run %.4f", seed, best, long)
		}
	}
}

// TestChanges: of pages that are read, no trivial change is taken for one, and less than one real one in a hundred is
// missed.
func TestChanges(t *testing.T) {
	s := defaults()
	s.Pages, s.Hosts, s.Periods, s.Seed = 1000, 10, 10, 20261125
	w := newWorld(s)
	c := newCrawler(w, newSite(w))
	c.run("")
	l := c.looks
	t.Logf("%+v", l)
	if l.Reported > 0 || 100*l.Missed >= l.Real {
		t.Errorf("%d trivial changes reported, %d of %d real ones missed", l.Reported, l.Missed, l.Real)
	}
	if l.Differed < 1000 || l.Real < 1000 || l.NotModified < 1000 || l.Visits < 9000 {
		t.Errorf("the world shows too little: %+v", l)
	}
}
