package node_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"
)

// TestGaps: the time from the end of a request to the start of the next is the largest that anything asks for, and it is
// no larger.
func TestGaps(t *testing.T) {
	own := func(w *trial) { w.cfg.Politeness.Own = []string{webPrefix} }
	for _, c := range []struct {
		name   string
		robots string
		took   time.Duration
		set    func(w *trial)
		first  time.Duration // after robots.txt, which takes no time
		want   time.Duration
	}{
		{"least gap", "", 0, nil, 2 * time.Second, 2 * time.Second},
		{"factor", "", 3 * time.Second, nil, 2 * time.Second, 6 * time.Second},
		{"factor of quick pages", "", 100 * time.Millisecond, nil, 2 * time.Second, 2 * time.Second},
		{"factor bounded", "", 15 * time.Second, func(w *trial) { w.cfg.Politeness.Factor = 10 }, 2 * time.Second, time.Minute},
		{"crawl delay", "User-agent: *\nCrawl-delay: 60", 0, nil, time.Minute, time.Minute},
		{"crawl delay beyond the patience", "User-agent: *\nCrawl-delay: 60", 0, func(w *trial) { w.cfg.Crawl.Patience = time.Second },
			time.Minute, time.Minute},
		{"crawl delay of less", "User-agent: *\nCrawl-delay: 0.1", 0, nil, 2 * time.Second, 2 * time.Second},
		{"crawl delay and factor", "User-agent: *\nCrawl-delay: 5", 4 * time.Second, nil, 5 * time.Second, 8 * time.Second},
		{"crawl delay of others", "User-agent: other\nCrawl-delay: 60", 0, nil, 2 * time.Second, 2 * time.Second},
		{"own", "", time.Second, own, 0, 0},
		{"own with a gap", "", time.Second, func(w *trial) { own(w); w.cfg.Politeness.OwnGap = time.Second }, time.Second, time.Second},
	} {
		each(t, c.name, func(t *testing.T, w *trial) {
			a := w.Site("a.test", server1).Robots(c.robots).Pages(8).Took(c.took)
			if c.set != nil {
				c.set(w)
			}
			w.run("http://a.test/")
			v := a.Visits()
			if len(v) != 10 {
				t.Fatalf("%d requests, want 10", len(v))
			}
			w.apart("gap after robots.txt", v[:2], exactly(c.first))
			w.apart("gaps", v[1:], exactly(c.want))
		})
	}
}

// TestRetryAfter: the whole host waits as long as it asks for, and no other host does.
func TestRetryAfter(t *testing.T) {
	date := func(status int, wait time.Duration) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			Status(status, "Retry-After", time.Now().Add(wait).UTC().Format(http.TimeFormat))(rw, r)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   span
	}{
		"429 seconds":           {Status(429, "Retry-After", "90"), exactly(90 * time.Second)},
		"503 seconds":           {Status(503, "Retry-After", "480"), exactly(8 * time.Minute)},
		"429 date":              {date(429, 2*time.Minute), exactly(2 * time.Minute)},
		"503 date":              {date(503, 8*time.Minute), exactly(8 * time.Minute)},
		"date that has been":    {date(503, -time.Hour), jittered(30 * time.Second)},
		"less than a backoff":   {Status(503, "Retry-After", "3"), jittered(30 * time.Second)},
		"more than is believed": {Status(503, "Retry-After", "10000"), exactly(10 * time.Minute)},
		"more than a number":    {Status(503, "Retry-After", "99999999999999999999"), exactly(10 * time.Minute)},
		"negative":              {Status(503, "Retry-After", "-5"), jittered(30 * time.Second)},
		"nonsense":              {Status(503, "Retry-After", "soon"), jittered(30 * time.Second)},
		"none":                  {Status(429), jittered(30 * time.Second)},
		"200 seconds":           {Status(200, "Retry-After", "45"), exactly(45 * time.Second)},
	} {
		each(t, name, func(t *testing.T, w *trial) {
			a := w.Site("a.test", server1).Pages(5)
			a.Handle("/2", Turns(c.answer, Text("text/html", "")))
			b := w.Site("b.test", server2).Pages(60)
			w.cfg.Crawl.Patience, w.cfg.Politeness.MaxRetryAfter = 15*time.Minute, 10*time.Minute
			w.run("http://a.test/", "http://b.test/")
			v := a.Visits()
			waits := slices.Repeat([]span{exactly(2 * time.Second)}, len(v)-1)
			waits[slices.IndexFunc(v, func(v Visit) bool { return v.Path == "/2" })] = c.want
			w.spans("gaps", gaps(v), waits...)
			w.apart("gaps of the other server", b.Visits(), exactly(2*time.Second))
			if len(b.Visits()) != 62 {
				t.Errorf("%d requests at the other server, want 62", len(b.Visits()))
			}
		})
	}
}

// TestRetryAfterOfOneHost: the other hosts of its server go on, and what a host has asked for holds after a restart, too.
func TestRetryAfterOfOneHost(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(1).Handle("/0", Turns(Status(429, "Retry-After", "7200"), Text("text/html", "")))
		b := w.Site("b.test", server1).Pages(60) // as on shared hosting
		w.cfg.Crawl.Patience = 3 * time.Hour
		short, cancel := context.WithTimeout(w.t.Context(), 10*time.Minute)
		defer cancel()
		w.crawl(short, "http://a.test/", "http://b.test/")
		if got := len(pages(b.Visits())); got != 61 {
			t.Errorf("in ten minutes %d pages of the other host, want 61", got)
		}
		w.run()
		if v := a.Visits(); len(v) != 4 || gaps(v)[2] < 2*time.Hour {
			t.Errorf("asked for %v, %v apart", urls(v), gaps(v))
		}
	})
}

// TestBackoff: a host that answers 503 or 429 waits longer each time, and is forgiven by the first answer.
func TestBackoff(t *testing.T) {
	inBubble(t, func(w *trial) {
		busy, good := Status(503), Text("text/html", "")
		turns := Turns(busy, Status(429), busy, good, busy, busy, good)
		a := w.Site("a.test", server1).Pages(6)
		for _, path := range numbered(6) {
			a.Handle(path, turns)
		}
		b := w.Site("b.test", server1).Pages(200) // the same server: its other hosts are not held up by a backoff
		w.cfg.Crawl.Patience = time.Hour
		end, logs := w.run("http://a.test/", "http://b.test/")
		calm, s := exactly(2*time.Second), time.Second
		waits := []span{calm, jittered(30 * s), jittered(60 * s), jittered(120 * s), calm, jittered(30 * s), jittered(60 * s), calm, calm, calm, calm}
		for i := range waits {
			waits[i] = waits[i].later(4 * s) // the other host may be on
		}
		w.spans("gaps", gaps(pages(a.Visits())), waits...)
		for _, path := range numbered(6) {
			lines := logs.of("http://a.test" + path)
			if last := lines[len(lines)-1]; last.Status != 200 || last.Attempt != len(lines) {
				t.Errorf("%s ended with status %d at attempt %d of %d", path, last.Status, last.Attempt, len(lines))
			}
		}
		if end.Frontier.Failed != 0 || len(pages(b.Visits())) != 201 {
			t.Errorf("%d failed, %d pages of the other host, want 0 and 201", end.Frontier.Failed, len(pages(b.Visits())))
		}
	})
}

// TestBusyForEver: a URL that only ever answers 503 fails in the end, and its host's other pages are had.
func TestBusyForEver(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(3).Handle("/1", Status(503))
		w.cfg.Crawl.Patience, w.cfg.Politeness.BackoffMax = 10*time.Minute, 2*time.Minute
		end, _ := w.run("http://a.test/")
		if n := a.Count("/1"); n < 2 || n > 20 || end.Frontier.Failed != 1 || end.Frontier.Done != 3 {
			t.Errorf("asked %d times, %d failed, %d done", n, end.Frontier.Failed, end.Frontier.Done)
		}
	})
}

// TestTwoHostsOneServer: the gap is the server's. judge holds that no two requests overlap and that gaps hold.
func TestTwoHostsOneServer(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(10).Took(500 * time.Millisecond)
		w.Site("b.test", server1).Pages(10).Took(500 * time.Millisecond)
		w.Site("c.test:8080", server1).Pages(10)
		w.Site("d.test", server2, server1).Pages(10)
		w.run("http://a.test/", "http://b.test/", "http://c.test:8080/", "http://d.test/")
		v := w.Visits(On(server1))
		if len(v) != 36 && len(v) != 48 {
			t.Errorf("%d requests, want 12 for each host", len(v))
		}
		w.apart("gaps", v, exactly(2*time.Second))
		// Taken by turns: at half of the time no host is far ahead.
		half := map[string]int{}
		for _, v := range v[:len(v)/2] {
			half[v.Site]++
		}
		for site, n := range half {
			if n < 4 {
				t.Errorf("%s had %d requests in the first half", site, n)
			}
		}
	})
}

// TestOwnParallel: one's own servers get as many requests at once as the configuration says, others one.
func TestOwnParallel(t *testing.T) {
	inBubble(t, func(w *trial) {
		own := w.Site("a.test", server1).Pages(30).Took(time.Second)
		other := w.Site("b.test", server2).Pages(30).Took(time.Second)
		w.cfg.Politeness.Own, w.cfg.Politeness.OwnParallel = []string{server1 + "/32"}, 3
		w.run("http://a.test/", "http://b.test/")
		if n := atOnce(own.Visits()); n != 3 {
			t.Errorf("%d requests at once, want 3", n)
		}
		if n := atOnce(other.Visits()); n != 1 {
			t.Errorf("%d requests at once at another's server, want 1", n)
		}
		w.apart("gaps of another's server", other.Visits()[1:], exactly(2*time.Second))
		for _, v := range own.Visits()[1:] {
			if v.Start.Before(own.Visits()[0].End) {
				t.Errorf("%s was asked for before the robots.txt was read", v.Path)
			}
		}
	})
}

// atOnce is the largest number of visits under way at one time.
func atOnce(visits []Visit) int {
	most := 0
	for _, at := range visits {
		n := 0
		for _, v := range visits {
			if !v.Start.After(at.Start) && v.End.After(at.Start) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
