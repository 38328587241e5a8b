package frontier

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/identity"
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

// A robots.txt that is redirected to another host is asked for in the hours of that host, and with its gap.
func TestRedirectedRobotsInTheHoursOfItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gap, until := 30*time.Second, time.Now().Add(time.Hour)
		other := &Site{Hours: shut{until: until}, Gap: &gap}
		cfg, polite := testConfig()
		l := begin(t, "", cfg, polite, Deps{Site: func(host string) *Site { return map[string]*Site{"http://www.h1.test": other}[host] }})
		l.placing(addr1)
		l.add(page("http://h1.test", 1))
		l.finish(l.taking(time.Minute), Outcome{Robots: &RobotsOutcome{Redirect: &identity.URL{Host: "http://www.h1.test", Path: "/robots.txt"}}})
		if task := l.taking(time.Until(until) - time.Second); task != nil {
			t.Fatalf("%s is asked for outside its hours", task.URL)
		}
		if h := l.Explain("http://h1.test"); h.Wait != "hours" || l.Idle(time.Minute) {
			t.Errorf("it waits for %s: %s", h.Wait, h.Sentence)
		}
		l.finish(l.taking(2*time.Minute), Outcome{})
		if task := l.taking(gap - 1); task != nil {
			t.Errorf("%s is asked for within the gap of the host before", task.URL)
		}
		if task := l.taking(2); task == nil || task.Kind != Page {
			t.Errorf("then came %+v", task)
		} else {
			l.finish(task, Outcome{})
		}
	})
}

// Hosts with due pages that sleep for long do not take turns on a workbench that is full, as fast as they can be read: that took a processor until
// one of them woke up.
func TestDueHostsThatSleepDoNotTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		cfg.FrontHosts = 2
		began := time.Now()
		site := &Site{Hours: shut{from: began.Add(10 * time.Minute), until: began.Add(3 * time.Hour)}}
		var l *life
		var reads atomic.Int64
		l = begin(t, "", cfg, polite, Deps{Site: func(string) *Site { return site }, Blocked: func(string) string { // asked at each reading
			if reads.Add(1) == 1000 {
				t.Error("the hosts are read again and again")
				l.end()
			}
			return ""
		}})
		l.placing(addr1)
		var links []Link
		for _, host := range []string{"http://h1.test", "http://h2.test", "http://h3.test"} {
			links = append(links, page(host, 0))
		}
		l.add(links...)
		if got := l.visit(3, func(*Task) Outcome { return asSeen(1) }); len(got) != 3 {
			t.Fatalf("%v came", got)
		}
		time.Sleep(2 * time.Hour)
		before := reads.Load()
		if task := l.taking(time.Minute); task != nil || reads.Load()-before > 50 {
			t.Fatalf("%+v came, after %d readings", task, reads.Load()-before)
		}
		time.Sleep(time.Hour)
		if got := l.visit(3, func(*Task) Outcome { return asSeen(1) }); len(got) != 3 {
			t.Errorf("%v came again", got)
		}
	})
}
