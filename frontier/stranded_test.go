package frontier

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A host that cannot be reached is left to another node when its waits are used up, or when nothing else is to be crawled. If no node takes it,
// the failures here decide.
func TestStrandedHost(t *testing.T) {
	for what, c := range map[string]struct {
		answers, lookups bool
		fails            int  // before it is stranded
		more             bool // it has another wait after that
	}{
		"its waits are used up":                  {fails: 3},
		"its waits are used up, it had answered": {fails: 3, answers: true},
		"those for its name are used up":         {fails: 3, lookups: true},
		"the crawl would end":                    {fails: 1, more: true},
		"the crawl would end, it had answered":   {fails: 1, answers: true, more: true},
		"the crawl would end without its name":   {fails: 1, lookups: true, more: true},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := sharing(t, c.lookups)
				if c.answers {
					l.finish(l.taking(time.Minute), Outcome{})
				}
				for i := range c.fails {
					if found := l.Stranded(); len(found) > 0 {
						t.Errorf("%v is stranded after %d failures", found, i)
					}
					if l.fail() {
						t.Errorf("it is given up at failure %d", i)
					}
				}
				if c.fails == 1 && c.answers {
					if time.Sleep(10 * time.Minute); l.Idle(time.Minute) || len(l.Stranded()) > 0 {
						t.Error("it has no last try")
					}
					l.fail()
				}
				if l.Idle(time.Minute) || !slices.Equal(l.Stranded(), []string{aHost}) || l.Status().Pending != 1 {
					t.Fatalf("idle %v, stranded %v, %d URLs", l.Idle(time.Minute), l.Stranded(), l.Status().Pending)
				}
				idle := c.more || !c.answers // else it awaits its last try
				if err := l.CannotReach(t.Context(), aHost, true); err != nil || len(l.Stranded()) > 0 || l.Status().Pending != 1 || l.Idle(time.Minute) != idle {
					t.Errorf("nobody takes it: %v; stranded %v, %d URLs, idle %v", err, l.Stranded(), l.Status().Pending, l.Idle(time.Minute))
				}
				if l.fail() == c.more || len(l.Stranded()) > 0 {
					t.Errorf("the failure after that: %d URLs, stranded %v", l.Status().Pending, l.Stranded())
				}
			})
		})
	}
}

// That no other node takes a host is remembered when a hand-off that was refused has taken it off the workbench.
func TestStrandedHostIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sharing(t, false)
		if l.fail(); l.Idle(time.Minute) || len(l.Stranded()) != 1 {
			t.Fatal("it is not stranded")
		}
		l.role(aHost, Leaving)
		l.role(aHost, Owned)
		must(t, l.CannotReach(t.Context(), aHost, true))
		if task := l.taking(time.Second); task != nil || !l.Idle(time.Minute) || len(l.Stranded()) > 0 {
			t.Errorf("it is asked %v; stranded %v", task != nil, l.Stranded())
		}
	})
}

// The node that gets a stranded host tries it at once and gives it up by itself. Once the host has answered, or an operator has it tried again,
// it may be left to another node again. So may it where it comes back to untried, and at its replica.
func TestStrandedHostMoves(t *testing.T) {
	for what, c := range map[string]struct {
		then func(to *sharer)
		left bool // to another node after that
	}{
		"it fails":          {func(*sharer) {}, false},
		"it answers":        {func(l *sharer) { l.finish(l.taking(time.Minute), Outcome{}) }, true},
		"it is tried again": {func(l *sharer) { _ = l.Retry(l.t.Context(), aHost) }, true},
		"it answers, and a copy says otherwise": {func(l *sharer) {
			l.finish(l.taking(time.Minute), Outcome{})
			l.imported(aHost, Chunk{State: &HostState{SinceRequest: -1, TriedBy: "first"}})
		}, true},
		"it comes back":        {func(l *sharer) { l.name = "first" }, true},
		"nobody else takes it": {func(l *sharer) { must(l.t, l.CannotReach(l.t.Context(), aHost, true)) }, false},
		"it is pulled again":   {func(l *sharer) { l.imported(aHost, Chunk{State: &HostState{SinceRequest: -1}}) }, false},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, to, replica := sharing(t, false), sharing(t, false), sharing(t, false)
				from.name, to.name, replica.name = "first", "second", "third"
				for range 3 {
					from.fail()
				}
				from.imported(aHost, Chunk{State: &HostState{SinceRequest: -1, TriedBy: "first"}}) // its replica repeats what it was told
				if task := from.taking(time.Second); task != nil || from.Idle(time.Minute) || len(from.Stranded()) != 1 {
					t.Errorf("when its replica has come back: it is asked %v; stranded %v", task != nil, from.Stranded())
				}
				must(t, from.CannotReach(t.Context(), aHost, false))
				must(t, to.Remove(t.Context(), aHost))
				to.imported(aHost, from.export(aHost, Cursor{}, 100)...)
				to.role(aHost, Owned)
				c.then(to)
				state, err := to.StateOf(t.Context(), aHost)
				if err != nil || (state.TriedBy != "" && state.TriedBy != to.name && !state.ReachedSince) == c.left {
					t.Errorf("it was tried in vain by %q, reached since: %v, %v", state.TriedBy, state.ReachedSince, err)
				}
				replica.role(aHost, Replica)
				for i, tried := range []string{"second", "second", ""} {
					replica.imported(aHost, Chunk{State: &HostState{TriedBy: tried, ReachedSince: i == 1, Retries: state.Retries}})
					if state, err := replica.StateOf(t.Context(), aHost); err != nil || state.TriedBy != tried || state.ReachedSince != (i == 1) {
						t.Errorf("its replica is told %q and says %q: %v", tried, state.TriedBy, err)
					}
				}
				for i := range 3 {
					if gone := to.fail(); gone != (i == 2 && !c.left) {
						t.Errorf("failure %d there: given up %v", i, gone)
					}
				}
				if found := to.Stranded(); (len(found) > 0) != c.left {
					t.Errorf("stranded there: %v", found)
				}
			})
		})
	}
}

// The node that could not reach a host is named until it has reached it itself, so that nobody gives it the host back, or an operator has it tried
// again.
func TestWhoCouldNotReachAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := sharing(t, false), sharing(t, false)
		from.name, to.name = "first", "second"
		told := func(l *sharer, by string, since bool) {
			t.Helper()
			if state, err := l.StateOf(t.Context(), aHost); err != nil || state.TriedBy != by || state.ReachedSince != since {
				t.Errorf("%s says that %q could not reach it, reached since %v: %v", l.name, state.TriedBy, state.ReachedSince, err)
			}
		}
		move := func(from, to *sharer) {
			must(t, to.Remove(t.Context(), aHost))
			to.imported(aHost, from.export(aHost, Cursor{}, 100)...)
			to.role(aHost, Owned)
		}
		from.fail()
		told(from, "", false)
		must(t, from.CannotReach(t.Context(), aHost, false))
		told(from, "first", false)
		move(from, to)
		told(to, "first", false)
		for _, trouble := range []Trouble{Busy, Broken, NoTrouble} {
			to.finish(to.taking(time.Hour), Outcome{Ending: Again, Trouble: trouble, Reason: "503"})
			told(to, "first", true)
		}
		to.fail()
		told(to, "first", true)
		must(t, to.CannotReach(t.Context(), aHost, false))
		told(to, "second", false)
		move(to, from)
		told(from, "second", false)
		from.finish(from.taking(time.Hour), Outcome{})
		told(from, "second", true)
		from.add(page(aHost, 2))
		move(from, to)
		told(to, "second", true)
		to.finish(to.taking(time.Hour), Outcome{})
		told(to, "", false)
		to.add(page(aHost, 3))
		to.imported(aHost, Chunk{State: &HostState{SinceRequest: -1, Retries: 0}})
		to.fail()
		must(t, to.CannotReach(t.Context(), aHost, false))
		to.fail()
		told(to, "second", false)
		must(t, to.Retry(t.Context(), aHost))
		told(to, "", false)
	})
}

// sharer is a life beside others, with a URL of a host that may be crawled.
type sharer struct {
	*life
	lookups bool   // its name does not resolve
	name    string // of the node
}

const aHost = "http://h1.test"

func sharing(t *testing.T, lookups bool) *sharer {
	cfg, polite := testConfig()
	cfg.Shared = true
	polite.RetryConnect = []time.Duration{time.Hour, time.Hour}
	polite.RetryName = polite.RetryConnect
	s := &sharer{lookups: lookups, name: "self"}
	s.life = begin(t, "", cfg, polite, Deps{Self: func() string { return s.name }})
	go s.letAll()
	if !lookups {
		s.placing(addr1)
	}
	s.add(page(aHost, 1))
	must(t, s.Activate(t.Context(), aHost))
	return s
}

// fail waits until the host is tried, which fails. It says whether the host is given up.
func (s *sharer) fail() (givenUp bool) {
	s.t.Helper()
	if s.lookups {
		ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Hour)
		defer cancel()
		u, err := s.Resolve(ctx)
		if err == nil {
			err = s.Lost(s.t.Context(), u, "no such name", false, false)
		}
		must(s.t, err)
	} else if task := s.taking(2 * time.Hour); task == nil {
		s.t.Fatal("it is not tried")
	} else {
		s.finish(task, Outcome{Ending: Again, Trouble: Unreachable, Reason: "refused"})
	}
	if s.taking(time.Second) != nil { // a fetcher sees that no other host is there
		s.t.Error("it is asked again at once")
	}
	return s.Status().Pending == 0
}
