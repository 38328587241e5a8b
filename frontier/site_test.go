package frontier

import (
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
