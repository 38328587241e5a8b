package frontier

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// until is open before a time, and again a day after it.
type until time.Time

func (u until) Open(now time.Time) bool {
	return now.Before(time.Time(u)) || !now.Before(time.Time(u).Add(24*time.Hour))
}
func (u until) Next(time.Time) (time.Time, bool) { return time.Time(u).Add(24 * time.Hour), true }
func (u until) String() string                   { return "until" }

// A host whose hours end while it stands ready is not given out, and is again when they begin.
func TestHoursEndWhileReady(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	cfg, polite := testConfig()
	w := newWorkbench(cfg, rules{Politeness: polite}, rand.New(rand.NewPCG(5, 6)))
	ends := now.Add(time.Second)
	w.site = func(string) *Site { return &Site{Hours: until(ends)} }
	h := w.enter("http://h1.test")
	h.take(&blockRef{seq: 1, n: 2}, make([]entry, 2))
	w.loadedHost(h, record{hostState: hostState{robotsUntil: now.Add(100 * time.Hour)}}, now)
	w.placeHost(w.nextUnresolved(now), []netip.Addr{addr1}, 100*time.Hour, now)
	if !w.anyReady(now) {
		t.Fatal("the host is not ready within its hours")
	}
	if task := w.take(ends); task != nil {
		t.Fatalf("%s is given out at the end of its hours", task.URL)
	}
	if kind, _ := w.waits(h, ends); kind != "hours" {
		t.Errorf("it waits as %q", kind)
	}
	if due, ok := w.nextDue(); !ok || !due.Equal(ends.Add(24*time.Hour)) {
		t.Errorf("it wakes at %v, %v", due, ok)
	}
	if w.take(ends.Add(24*time.Hour)) == nil {
		t.Error("it does not go on when its hours begin")
	}
}
