package frontier

import (
	"math/rand/v2"
	"testing"
	"time"
)

// shut are hours that end at a time and begin again at another, or never if that is zero.
type shut struct{ from, until time.Time }

func (s shut) Open(now time.Time) bool {
	return now.Before(s.from) || !s.until.IsZero() && !now.Before(s.until)
}
func (s shut) Next(now time.Time) (time.Time, bool) { return s.until, s.until.After(now) }
func (s shut) String() string                       { return "later" }

// A host whose hours end while it is ready gives no task until they begin again.
func TestHoursEndWhileReady(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	cfg, polite := testConfig()
	w := newWorkbench(cfg, rules{Politeness: polite}, rand.New(rand.NewPCG(5, 6)))
	ends := now.Add(time.Second)
	w.site = func(string) *Site { return &Site{Hours: shut{ends, ends.Add(24 * time.Hour)}} }
	h := w.seated("http://h1.test", hostState{robotsUntil: now.Add(100 * time.Hour)}, now, Discovered)
	if w.readyServers(now) == 0 {
		t.Fatal("the host is not ready within its hours")
	}
	if task := w.take(ends); task != nil {
		t.Fatalf("%s is given out at the end of its hours", task.URL)
	}
	if kind, _ := w.waits(h, ends); kind != "hours" {
		t.Errorf("it waits as %q", kind)
	}
	if due := w.nextDue(); !due.Equal(ends.Add(24 * time.Hour)) {
		t.Errorf("it wakes at %v", due)
	}
	if w.take(ends.Add(24*time.Hour)) == nil {
		t.Error("it does not go on when its hours begin")
	}
}

// The bounds of a site hold for the next visit. If they contradict each other, the minimum counts.
func TestNextVisitOfASite(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		site *Site
		want time.Duration
	}{
		{nil, time.Hour}, {&Site{}, time.Hour}, {&Site{RecrawlMax: time.Minute}, time.Minute}, {&Site{RecrawlMin: 2 * time.Hour}, 2 * time.Hour},
		{&Site{RecrawlMin: time.Minute, RecrawlMax: 2 * time.Hour}, time.Hour}, {&Site{RecrawlMin: 5 * time.Hour, RecrawlMax: time.Minute}, 5 * time.Hour},
	} {
		if got := c.site.nextVisit(now.Add(time.Hour), now).Sub(now); got != c.want {
			t.Errorf("%+v: %v", c.site, got)
		}
	}
	if got := (&Site{Hours: shut{}}).opens(now); got != now.Add(neverOpens) {
		t.Errorf("hours without a time open at %v", got)
	}
}
