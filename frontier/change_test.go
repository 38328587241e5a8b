package frontier

import (
	"testing"
	"time"

	"proxima/frontier/identity"
)

// What happened later is added to what happened, and takes the memory that it says.
func TestChangesFollow(t *testing.T) {
	c := &Change{Added: []PendingURL{{Path: "/a"}}, Done: []uint64{1}, State: true}
	if got := c.Memory(); got != 64+8+2+pendingCost {
		t.Errorf("%d bytes", got)
	}
	c.Follow(&Change{Added: []PendingURL{{Path: "/b"}}, Done: []uint64{2}, Pages: []PageRecord{{Path: "/p", ETag: "x"}},
		Tracked: true, Digest: Digest{Done: 2}})
	if len(c.Added) != 2 || len(c.Done) != 2 || len(c.Pages) != 1 || !c.State || !c.Tracked || c.Digest.Done != 2 || c.Lost || c.Dropped ||
		c.Memory() != 64+16+4+2*pendingCost+240+3 {
		t.Errorf("%+v, %d bytes", c, c.Memory())
	}
	c.Follow(&Change{Dropped: true, Lost: true, Added: []PendingURL{{Path: "/c"}}})
	if len(c.Added) != 1 || !c.Dropped || !c.Lost || c.Tracked || len(c.Done) != 2 {
		t.Errorf("%+v", c)
	}
	if c.Follow(&Change{}); !c.Lost || !c.Dropped {
		t.Errorf("what is lost is not, for what comes later: %+v", c)
	}
	f := newFeed()
	n := (&Change{}).Memory()
	f.bytes = maxFeedBytes - n
	f.add(map[string]*Change{"fits": {}})
	f.add(map[string]*Change{"not": {}})
	if f.hosts["fits"].Lost || !f.hosts["not"].Lost || f.bytes != maxFeedBytes {
		t.Errorf("%+v, %d bytes of %d", f.hosts, f.bytes, maxFeedBytes)
	}
	f.add(map[string]*Change{"fits": {Done: []uint64{1}}})
	f.add(map[string]*Change{"fits": {}, "not": {}}) // there is room now, and what is lost stays lost
	if !f.hosts["fits"].Lost || !f.hosts["not"].Lost || f.bytes != maxFeedBytes-n {
		t.Errorf("%+v, %d bytes of %d", f.hosts, f.bytes, maxFeedBytes)
	}
	tr := &transfers{&activation{front: &front{ledger: &ledger{feed: f}}}}
	f.hosts["fits"] = &Change{Added: []PendingURL{{Path: "/a"}, {Path: "/b"}}}
	for url, untold := range map[identity.URL]bool{{Host: "fits", Path: "/b"}: true, {Host: "fits", Path: "/c"}: false,
		{Host: "not", Path: "/c"}: true, {Host: "other", Path: "/b"}: false} {
		if tr.Untold(url) != untold {
			t.Errorf("%v is to be told: %v", url, !untold)
		}
	}
	if len(tr.Changes()) != 2 || f.bytes != 0 || len(tr.Changes()) != 0 {
		t.Errorf("%d bytes are left", f.bytes)
	}
}

// Times within a second count as the same, and states that differ in nothing but the time of the last request and in failures.
func TestStatesThatAreAlike(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		a, b time.Time
		want bool
	}{
		{now, now, true}, {now, now.Add(time.Second - 1), true}, {now, now.Add(time.Second), false}, {now.Add(time.Second), now, false},
		{time.Time{}, time.Time{}, true}, {time.Time{}, time.Time{}.Add(1), false},
	} {
		if got := near(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
	state := hostState{notBefore: now, crawlDelay: 1, level: 2, robotsUntil: now}
	for name, change := range map[string]func(s *hostState){
		"alike":      func(s *hostState) { s.lastRequest, s.failures = now, 3 },
		"a wait":     func(s *hostState) { s.notBefore = time.Time{} },
		"a delay":    func(s *hostState) { s.crawlDelay = 0 },
		"a try":      func(s *hostState) { s.triedBy = "another" },
		"an answer":  func(s *hostState) { s.reachedSince = true },
		"a level":    func(s *hostState) { s.level = 0 },
		"robots.txt": func(s *hostState) { s.robotsUntil = time.Time{} },
	} {
		s := state
		if change(&s); s.alike(&state) != (name == "alike") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
