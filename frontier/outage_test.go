package frontier

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
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
		func(l *life, u Unplaced) error { return second(l.Refuse(l.t.Context(), u, "private", false)) },
		func(l *life, u Unplaced) error { return second(l.Lost(l.t.Context(), u, "no server", true, false)) },
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
