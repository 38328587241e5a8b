package frontier

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/identity"
)

// TestOutageWaitsByTries: the wait between two tries doubles with each try that fails, not with each of the many downloads
// that were under way when the network went.
func TestOutageWaitsByTries(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var o outage
	for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		for range 10 {
			o.fail("no network", false, now)
		}
		if got := o.next.Sub(now); got != want {
			t.Errorf("ten failures at once: the next try is in %v, want %v", got, want)
		}
		now = now.Add(want - time.Millisecond)
		o.fail("no network", false, now)
		if now = now.Add(time.Millisecond); o.keepsTasks(now) {
			t.Errorf("a failure just before the try, %v later, put it off", want)
		}
	}
}

// During an outage one task or lookup at a time is tried. While the web servers answer, only lookups wait. Any answer ends what a download
// reported; what a lookup reported only that of a name server does. That a server answered before says nothing once the network is gone.
func TestTriesDuringAnOutage(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	var o outage
	for i, step := range []struct {
		after       time.Duration // since the begin
		do          func(now time.Time) bool
		says        bool
		tasks, name bool // whether tasks and lookups must wait afterwards
	}{
		{0, func(now time.Time) bool { return o.try(true, now) || o.try(false, now) }, false, false, false},
		{0, func(now time.Time) bool { return o.fail("no name server", true, now) }, true, true, true},
		{time.Second, func(now time.Time) bool { return o.try(false, now) }, true, true, true},
		{2 * time.Second, func(time.Time) bool { o.tried(false); return o.trying }, true, true, true},
		{2 * time.Second, func(time.Time) bool { o.tried(true); return o.trying }, false, false, false},
		{2 * time.Second, func(now time.Time) bool { return o.fail("still none", true, now) }, false, true, true},
		{3 * time.Second, func(now time.Time) bool { return o.answer(false, now) }, false, false, true},
		{62 * time.Second, func(now time.Time) bool { return o.try(true, now) }, false, false, false},
		{63 * time.Second, func(now time.Time) bool { return o.try(true, now) }, true, true, true},
		{64 * time.Second, func(now time.Time) bool { o.tried(true); return o.fail("no network", false, now) }, false, true, true},
		{64 * time.Second, func(now time.Time) bool { return o.answer(false, now) }, true, false, false},
		{64 * time.Second, func(now time.Time) bool { return o.answer(true, now) }, false, false, false},
		{65 * time.Second, func(now time.Time) bool { return o.fail("no name server", true, now) }, true, true, true},
		{66 * time.Second, func(now time.Time) bool { return o.answer(false, now) }, false, false, false},
		{66 * time.Second, func(now time.Time) bool { return o.answer(true, now) }, true, false, false},
		{67 * time.Second, func(now time.Time) bool { return o.fail("no name server", true, now) }, true, true, true},
		{68 * time.Second, func(now time.Time) bool { return o.answer(false, now) }, false, false, false},
		{69 * time.Second, func(now time.Time) bool { return o.fail("no network", false, now) }, false, true, true},
		{69 * time.Second, func(now time.Time) bool { return o.answer(true, now) }, true, false, false},
	} {
		now := begin.Add(step.after)
		if says := step.do(now); says != step.says || o.keepsTasks(now) != step.tasks || o.keepsNames(now) != step.name {
			t.Errorf("step %d: %v; tasks wait %v, lookups wait %v", i, says, o.keepsTasks(now), o.keepsNames(now))
		}
	}
	for range 10 {
		o.fail("no network", false, begin)
		begin = o.next
	}
	if o.wait != mostTry {
		t.Errorf("the longest wait is %v", o.wait)
	}
}

// The end of a lookup ends its try, whatever it has found.
func TestLookupEndsItsTry(t *testing.T) {
	for i, end := range []func(l *life, u Unplaced) error{
		func(l *life, u Unplaced) error { l.Place(u, []netip.Addr{addr1}, time.Hour, 0); return nil },
		func(l *life, u Unplaced) error { return l.Refuse(l.t.Context(), u, "private", false) },
		func(l *life, u Unplaced) error { return l.Lost(l.t.Context(), u, "no server", true, false) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l := inMemory(t)(testConfig())
			l.OwnTrouble("no name server", true)
			u := l.unplaced("http://h1.test")
			tried := u.try && l.outage.trying
			if err := end(l, u); err != nil || !tried || l.outage.trying {
				t.Errorf("end %d: it was a try %v, which is over %v, %v", i, tried, !l.outage.trying, err)
			}
		})
	}
}

// While no name server answers and web servers do, lookups are tries and tasks are none.
func TestTasksWithoutNameServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t)(testConfig())
		l.Place(l.unplaced("http://h0.test"), []netip.Addr{addr1}, time.Hour, 0)
		l.OwnTrouble("no name server", true)
		l.Answered(false)
		time.Sleep(leastTry)
		if task := l.taking(time.Second); task == nil || task.try || l.outage.trying {
			t.Fatalf("took %+v; a try is out %v", task, l.outage.trying)
		}
		if u := l.unplaced("http://h1.test"); !u.try || !l.outage.trying {
			t.Errorf("the lookup is a try %v, and one is out %v", u.try, l.outage.trying)
		}
	})
}

// One task at a time is tried, of a reserved server or of another.
func TestOneTryAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t)(ownServers(testConfig()))
		addr2 := addr1.Next()
		for host, addr := range map[string]netip.Addr{"http://h0.test": addr1, "http://h1.test": addr1, "http://h2.test": addr2} {
			l.Place(l.unplaced(host), []netip.Addr{addr}, time.Hour, 0)
		}
		l.Reserve(addr2, true)
		l.OwnTrouble("no network", false)
		time.Sleep(leastTry)
		takes := []func() *Task{func() *Task { return l.taking(time.Second) }, func() *Task {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			task, _ := l.TakeFrom(ctx, "http://h2.test", addr2)
			return task
		}}
		for i, take := range takes {
			task := take()
			for k, other := range takes {
				if task == nil || other() != nil {
					t.Fatalf("take %d comes %v, and take %d beside it", i, task != nil, k)
				}
			}
			l.finish(task, Outcome{Ending: Again, Trouble: Interrupted})
		}
		l.OwnTrouble("no network", false)
		time.AfterFunc(time.Millisecond, func() { l.Answered(false) })
		if l.taking(time.Second) == nil {
			t.Error("a fetcher waits on when the outage is over")
		}
	})
}

// An outage is suspected when two servers, or domains, have failed that had answered, and none has answered in between. It ends when a server
// answers, or after a day.
func TestSuspicion(t *testing.T) {
	fails := Outcome{Ending: Again, Trouble: Unreachable, Reason: "refused"}
	answers := Outcome{Asked: true}
	for what, c := range map[string]struct {
		steps   func(s *suspect)
		outages int // that were suspected
		over    int // those of them that are over
		blamed  int // failures that count against a host
	}{
		"two servers fail":           {func(s *suspect) { s.end(1, fails).end(2, fails) }, 1, 0, 1},
		"one fails twice":            {func(s *suspect) { s.end(1, fails).end(1, fails) }, 0, 0, 2},
		"two hosts of a server fail": {func(s *suspect) { s.end(1, fails).end(5, fails) }, 0, 0, 2},
		"one answers in between":     {func(s *suspect) { s.end(1, fails).end(3, answers).end(2, fails) }, 0, 0, 2},
		"a file is read in between":  {func(s *suspect) { s.end(1, fails).file().end(2, fails) }, 1, 0, 1},
		"another node's answers":     {func(s *suspect) { s.end(1, fails).remote(answers).end(2, fails) }, 0, 0, 2},
		"another node's fails":       {func(s *suspect) { s.end(1, fails).remote(fails) }, 0, 0, 1},
		"a busy one answers": {func(s *suspect) {
			s.end(1, fails).end(3, Outcome{Asked: true, Ending: Again, Trouble: Busy}).end(2, fails)
		}, 0, 0, 2},
		"one had never answered":      {func(s *suspect) { s.hosts[2].robotsUntil = time.Time{}; s.end(1, fails).end(2, fails) }, 0, 0, 2},
		"one had failed before":       {func(s *suspect) { s.hosts[2].failures = 1; s.end(1, fails).end(2, fails) }, 0, 0, 2},
		"two names fail":              {func(s *suspect) { s.lost(1).lost(2) }, 1, 0, 1},
		"two names of a domain fail":  {func(s *suspect) { s.lost(1).lost(4) }, 0, 0, 2},
		"a name and a server fail":    {func(s *suspect) { s.lost(1).end(2, fails) }, 1, 0, 1},
		"all fail":                    {func(s *suspect) { s.end(1, fails).end(2, fails).end(3, fails).lost(4) }, 1, 0, 1},
		"a server answers":            {func(s *suspect) { s.end(1, fails).end(2, fails).end(3, answers).end(1, fails) }, 1, 1, 2},
		"a refusal or a name is none": {func(s *suspect) { s.end(1, fails).end(2, fails); s.Answered(false); s.Answered(true); s.end(3, fails) }, 1, 0, 1},
		"it was wrong": {func(s *suspect) {
			s.end(1, fails).end(2, fails).after(25*time.Hour).end(1, fails).end(2, fails).end(3, fails)
		}, 1, 1, 4},
		"it was wrong, then one answers": {func(s *suspect) {
			s.end(1, fails).end(2, fails).after(25*time.Hour).end(1, fails).end(4, answers).end(2, fails).end(3, fails)
		}, 2, 1, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSuspect(t)
			c.steps(s)
			if s.outages != c.outages || s.over != c.over || s.blamed != c.blamed {
				t.Errorf("%s: %d outages, %d over, %d failures blamed; want %d, %d, %d", what, s.outages, s.over, s.blamed, c.outages, c.over, c.blamed)
			}
			if out := s.outage.why != ""; out != (s.outages > s.over) {
				t.Errorf("%s: there is an outage: %v", what, out)
			}
		})
	}
}

// While an outage is suspected, the tries grow apart as in any other.
func TestTriesOfASuspicion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, fails := newSuspect(t), Outcome{Ending: Again, Trouble: Interrupted, Asked: true, Reason: "no answer"}
		s.end(1, Outcome{Ending: Again, Trouble: Unreachable, Reason: "refused"}).lost(2)
		for _, want := range []time.Duration{leastTry, 2 * leastTry, 4 * leastTry} {
			if got := time.Until(s.outage.next); got != want {
				t.Errorf("the next try is in %v, want %v", got, want)
			}
			time.Sleep(want)
			s.try = true
			s.end(3, fails)
			s.try = false
			s.end(3, fails) // that was under way says nothing new
		}
	})
}

// suspect is a frontier with hosts that had answered.
type suspect struct {
	*Frontier
	t                     *testing.T
	hosts                 map[int]*host
	outages, over, blamed int
	try                   bool
}

func newSuspect(t *testing.T) *suspect {
	s := &suspect{t: t, hosts: make(map[int]*host)}
	for i, name := range []string{"http://h1.test", "http://h2.test", "http://h3.test", "http://www.h1.test", "http://h5.test"} {
		s.hosts[i+1] = &host{name: name, hostState: hostState{robotsUntil: time.Now().Add(time.Hour)}}
	}
	s.Frontier = &Frontier{front: &front{}}
	return s
}

// at is the server of a host: the fifth is at that of the first.
func (s *suspect) at(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte((i-1)%4 + 1)}) }

// end ends a task of a host.
func (s *suspect) end(i int, out Outcome) *suspect {
	h := s.hosts[i]
	s.heard(s.suspectLocked(&Task{host: h, Server: s.at(i), try: s.try}, &out, time.Now()))
	if out.Trouble == Unreachable {
		h.failures++
		s.blamed++
	} else if out.Trouble != Interrupted {
		h.recovered()
	}
	return s
}

// remote ends a download for another node.
func (s *suspect) remote(out Outcome) *suspect {
	s.heard(s.suspectLocked(&Task{remote: true}, &out, time.Now()))
	return s
}

// file ends the reading of a file.
func (s *suspect) file() *suspect {
	s.heard(s.suspectLocked(&Task{Server: FileServer("http://files.test")}, &Outcome{Asked: true}, time.Now()))
	return s
}

// lost ends a lookup in vain.
func (s *suspect) lost(i int) *suspect {
	ours, news := s.failedLocked(s.hosts[i], identity.RegistrableDomain(identity.Name(s.hosts[i].name)), s.try, time.Now())
	s.heard(news)
	if !ours {
		s.hosts[i].failures++
		s.blamed++
	}
	return s
}

func (s *suspect) after(d time.Duration) *suspect {
	time.Sleep(d)
	return s
}

func (s *suspect) heard(e Event) {
	switch {
	case e.Reason == "":
	case e.Kind == OwnTrouble:
		s.outages++
	case e.Kind == OwnTroubleOver:
		s.over++
	default:
		s.t.Errorf("event %v", e)
	}
}
