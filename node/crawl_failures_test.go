package node_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/node/runlog"
)

// TestPageRetries: a page that fails on the server's side is tried again by the schedule, until it has been had or has failed. Its host
// does not wait meanwhile. What a page says before it breaks off counts: there may never be more.
func TestPageRetries(t *testing.T) {
	none := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   []string // statuses and errors
	}{
		"500":        {Status(500), slices.Repeat([]string{"500 "}, 4)},
		"502":        {Status(502), slices.Repeat([]string{"502 "}, 4)},
		"broken off": {Broken, slices.Repeat([]string{"200 eof"}, 4)},
		"no answer":  {none, slices.Repeat([]string{"0 eof"}, 4)},
		"too late":   {silence, slices.Repeat([]string{"0 timeout_header"}, 4)},
		"recovers":   {Turns(Broken, Status(500), html("/")), []string{"200 eof", "500 ", "200 "}},
	} {
		each(t, name, func(t *testing.T, w *trial) {
			a := w.Site("a.test", server1).Pages(30).Page("/torn").Handle("/1", c.answer)
			w.cfg.Crawl.Patience = 15 * time.Minute
			w.cfg.Politeness.RetryPage = []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute}
			// Each request has a connection of its own: on one that was idle, net/http would repeat it by itself.
			w.cfg.Fetch.IdleTimeout = time.Second
			end, logs := w.run("http://a.test/")
			failed, torn := uint64(1), 0
			if name == "recovers" {
				failed = 0
			}
			if strings.Contains(c.want[0], "200") {
				torn = 1
			}
			if end.Frontier.Failed != failed || end.Frontier.Done != 31-failed+uint64(torn) || a.Count("/torn") != torn {
				t.Errorf("%d failed, %d done, requests %q; want %d failed of 31, and %d found in what broke off", end.Frontier.Failed, end.Frontier.Done, a.Paths(), failed, torn)
			}
			tries := w.Visits(func(v Visit) bool { return v.Path == "/1" })
			var spans []span
			for _, wait := range w.cfg.Politeness.RetryPage[:len(c.want)-1] {
				spans = append(spans, jittered(wait).later(25*time.Second)) // behind a page of the same host, or its own slow answer
			}
			w.spans("waits", gaps(tries), spans...)
			var got []string
			for i, l := range logs.of("http://a.test/1") {
				if got = append(got, fmt.Sprintf("%d %s", l.Status, l.Error)); l.Attempt != i+1 {
					t.Errorf("line %d is that of attempt %d", i, l.Attempt)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("logged %q, want %q", got, c.want)
			}
			if at := w.at(pages(a.Visits())[15].Start); at > 4*time.Minute {
				t.Errorf("the 16th page was asked for after %v: the host waited with its page", at)
			}
		})
	}
}

// TestServerDown: a host that cannot be reached is tried by the schedule and then given up with all its URLs.
func TestServerDown(t *testing.T) {
	for name, addrs := range map[string][]string{"one address": {server2}, "two addresses": {server2, server3}} {
		each(t, name, func(t *testing.T, w *trial) {
			a := w.Site("a.test", server1).Page("/", "http://down.test/1", "http://down.test/2", "http://down.test/3", "/1").Page("/1")
			down := w.Site("down.test", addrs...)
			w.Down(server2, true)
			w.Down(server3, true)
			w.cfg.Crawl.Patience = 15 * time.Minute
			w.cfg.Politeness.RetryConnect = []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}
			end, logs := w.run("http://a.test/")
			w.same("requests", a.Paths(), "/robots.txt", "/", "/1")
			if len(down.Visits()) != 0 || end.Frontier.Dropped != 3 {
				t.Errorf("%d visits, %d dropped, want 0 and 3", len(down.Visits()), end.Frontier.Dropped)
			}
			var rounds []Visit // the first try of each
			for try := range slices.Chunk(w.Refused(), len(addrs)) {
				rounds = append(rounds, try[0])
			}
			var spans []span
			for _, wait := range w.cfg.Politeness.RetryConnect {
				spans = append(spans, jittered(wait).later(5*time.Second))
			}
			if w.spans("waits", gaps(rounds), spans...); len(w.Refused()) != 5*len(addrs) {
				t.Errorf("%d tries, want %d", len(w.Refused()), 5*len(addrs))
			}
			w.dropped(end, "refused", 3)
			w.givenUp(logs, "http://down.test", "refused", 3)
			for _, f := range logs.fetches {
				if f.Host == "http://down.test" && (f.Error != "refused" || f.Kind != runlog.KindRobots || f.Status != 0) {
					t.Errorf("logged %+v", f)
				}
			}
		})
	}
}

// TestSecondAddress: where one address of a host is down, another answers.
func TestSecondAddress(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1, server2).Pages(5)
		w.Down(server1, true)
		w.run("http://a.test/")
		if n := len(pages(a.Visits())); n != 6 || len(w.Refused()) != 1 {
			t.Errorf("%d pages, %d refused, want 6 and 1", n, len(w.Refused()))
		}
	})
}

// TestServerComesBack: nothing is lost, and the schedule begins anew.
func TestServerComesBack(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(400)
		w.cfg.Crawl.Patience = 3 * time.Hour
		go func() {
			for _, at := range []time.Duration{time.Minute, 4 * time.Minute, 8 * time.Minute, 9 * time.Minute} {
				time.Sleep(at - w.at(time.Now()))
				w.Down(server1, at == time.Minute || at == 8*time.Minute)
			}
		}()
		// No connection is kept, so that the server is dialled for each page.
		w.cfg.Fetch.IdleTimeout = time.Second
		end, _ := w.run("http://a.test/")
		w.same("pages", a.Paths(), append(numbered(400), "/", "/robots.txt")...)
		if end.Frontier.Failed+end.Frontier.Dropped != 0 || len(w.Refused()) != 4 { // two each time: at once and after 30 s
			t.Errorf("%d failed, %d dropped, %d refused", end.Frontier.Failed, end.Frontier.Dropped, len(w.Refused()))
		}
	})
}

// TestLastTryOfASite: at the end of a crawl a site is tried again ten minutes after it last failed, not only in half an hour. One that is not back
// then holds up the end no longer.
func TestLastTryOfASite(t *testing.T) {
	for back, pages := range map[time.Duration]int{13 * time.Minute: 100, 2 * time.Hour: 0} {
		inBubble(t, func(w *trial) {
			a := w.Site("a.test", server1).Pages(100)
			w.cfg.Fetch.IdleTimeout = time.Second // so that the server is dialled for each page
			w.cfg.Politeness.MinGap = 5 * time.Second
			time.AfterFunc(time.Minute, func() { w.Down(server1, true) })
			time.AfterFunc(back, func() { w.Down(server1, false) })
			end, _ := w.crawl(w.t.Context(), "http://a.test/")
			if pages > 0 {
				w.same("pages", a.Paths(), append(numbered(pages), "/", "/robots.txt")...)
			} else if n := len(w.Refused()); n != 4 || w.at(time.Now()) > 20*time.Minute || end.Frontier.Dropped > 0 {
				t.Errorf("it ended after %v, %d tries and with %d URLs dropped", w.at(time.Now()), n, end.Frontier.Dropped)
			}
		})
	}
}

// TestNoSuchName: a name that does not exist is looked up by the schedule, and then the host is given up.
func TestNoSuchName(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Page("/", "http://nobody.test/1", "http://nobody.test/2")
		dns := new(nameServer) // it knows no names
		w.deps.DialDNS = dns.dial
		w.cfg.Crawl.Patience = 2 * time.Hour
		w.cfg.Crawl.Resolvers = 1
		end, logs := w.run("http://a.test/")
		if end.Frontier.Dropped != 2 || end.Rows["DNS error"] != 4 {
			t.Errorf("%d dropped after %d lookups, want 2 and 4", end.Frontier.Dropped, end.Rows["DNS error"])
		}
		if n := dns.asked.Load(); n < 3 || n > 4 { // the second time, after 30 s, the answer may come from the cache
			t.Errorf("the name server was asked %d times, want 3 or 4", n)
		}
		reasons := logs.about(runlog.EventDNS, "http://nobody.test")
		if len(reasons) != 4 || !strings.Contains(reasons[0], "nobody.test") {
			t.Errorf("logged %q", reasons)
		}
		w.givenUp(logs, "http://nobody.test", "DNS: ", 2)
	})
}

// givenUp complains unless the log says once that a host was given up, why, and with how many URLs.
func (w *trial) givenUp(logs nodeLogs, host, reason string, urls int) {
	w.t.Helper()
	said := logs.events.of(runlog.EventHostDropped, runlog.KeyHost, host)
	if len(said) != 1 || !strings.HasPrefix(said.reasons()[0], reason) || said[0].Attrs[runlog.KeyCount] != float64(urls) {
		w.t.Errorf("%s was given up: %v; want once, for %q with %d URLs", host, said, reason, urls)
	}
}
