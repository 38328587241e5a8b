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

// The bounds of a site replace those of the crawl, and count where these contradict them. If they contradict each other, the minimum counts.
func TestRecrawlOfASite(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		site       *Site
		least, max time.Duration
	}{
		{nil, 2 * time.Hour, 9 * time.Hour}, {&Site{}, 2 * time.Hour, 9 * time.Hour}, {&Site{RecrawlMin: time.Hour}, time.Hour, 9 * time.Hour},
		{&Site{RecrawlMax: 10 * time.Hour}, 2 * time.Hour, 10 * time.Hour}, {&Site{RecrawlMax: time.Minute}, time.Minute, time.Minute},
		{&Site{RecrawlMin: 5 * time.Hour, RecrawlMax: time.Minute}, 5 * time.Hour, 5 * time.Hour},
		{&Site{RecrawlMin: 10 * time.Hour}, 10 * time.Hour, 10 * time.Hour}, {&Site{RecrawlMin: time.Hour, RecrawlMax: 3 * time.Hour}, time.Hour, 3 * time.Hour},
	} {
		if got := c.site.recrawl(Recrawl{Budget: 7, Min: 2 * time.Hour, Max: 9 * time.Hour}); got != (Recrawl{Budget: 7, Min: c.least, Max: c.max}) {
			t.Errorf("%+v: %+v", c.site, got)
		}
	}
	if got := (&Site{Hours: shut{}}).opens(now); got != now.Add(neverOpens) {
		t.Errorf("hours without a time open at %v", got)
	}
}
