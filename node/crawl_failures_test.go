package node_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"proxima/node/netsim"
	"proxima/node/runlog"
)

// TestPageRetries: a page that fails on the server's side is tried again by the schedule, and then has failed. Its host
// does not wait meanwhile.
func TestPageRetries(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		status int
		class  string
	}{
		"500":        {netsim.Status(500), 500, ""},
		"502":        {netsim.Status(502), 502, ""},
		"broken off": {netsim.Broken, 200, "eof"},
		"no answer":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "eof"},
		"too late": {func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(time.Hour):
			case <-r.Context().Done():
			}
		}, 0, "timeout_header"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *trial) {
				a := w.Site("a.test", server1).Pages(30).Handle("/1", c.answer)
				w.cfg.Crawl.Patience = 15 * time.Minute
				w.cfg.Politeness.RetryPage = []time.Duration{20 * time.Second, time.Minute, 5 * time.Minute}
				// Each request has a connection of its own: on one that was idle, net/http would repeat it by itself.
				w.cfg.Fetch.IdleTimeout = time.Second
				end, logs := w.run("http://a.test/")
				if end.Frontier.Failed != 1 || end.Frontier.Done != 30 || a.Count("/torn") != 0 {
					t.Errorf("%d failed, %d done, requests %q; want 1 and 30", end.Frontier.Failed, end.Frontier.Done, a.Paths())
				}
				lines := logs.of("http://a.test/1")
				var tries []netsim.Visit
				for _, v := range a.Visits() {
					if v.Path == "/1" {
						tries = append(tries, v)
					}
				}
				slack := 25 * time.Second // behind a page of the same host, or its own slow answer
				spans := []span{jittered(20 * time.Second), jittered(time.Minute), jittered(5 * time.Minute)}
				for i := range spans {
					spans[i].high += slack
				}
				w.spans("waits", gaps(tries), spans...)
				for i, l := range lines {
					if l.Attempt != i+1 || l.Status != c.status || l.Error != c.class {
						t.Errorf("line %d: attempt %d, status %d, error %q", i, l.Attempt, l.Status, l.Error)
					}
				}
				if len(lines) != 4 {
					t.Errorf("%d lines, want 4", len(lines))
				}
				all := pages(a.Visits())
				if at := w.at(all[15].Start); at > 4*time.Minute {
					t.Errorf("the 16th page was asked for after %v: the host waited with its page", at)
				}
			})
		})
	}
}

// TestPageRecovers: one that answers at last is done.
func TestPageRecovers(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Page("/", "/1").
			Handle("/1", netsim.Turns(netsim.Broken, netsim.Status(500), netsim.Text("text/html", "<a href=/2>"))).Page("/2")
		w.cfg.Crawl.Patience = time.Hour
		end, _ := w.run("http://a.test/")
		w.same("requests", a.Paths(), "/robots.txt", "/", "/1", "/1", "/1", "/2")
		if end.Frontier.Failed != 0 || end.Frontier.Done != 3 {
			t.Errorf("%d failed, %d done, want 0 and 3", end.Frontier.Failed, end.Frontier.Done)
		}
	})
}

// TestServerDown: a host that cannot be reached is tried by the schedule and then given up with all its URLs.
func TestServerDown(t *testing.T) {
	for name, addrs := range map[string][]string{"one address": {server2}, "two addresses": {server2, server3}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *trial) {
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
				s, n := time.Second, len(addrs)
				var rounds []netsim.Visit // the first try of each
				for i, v := range w.Refused() {
					if i%n == 0 {
						rounds = append(rounds, v)
					}
				}
				if got := len(w.Refused()); got != 5*n {
					t.Errorf("%d tries, want %d", got, 5*n)
				}
				spans := []span{jittered(30 * s), jittered(60 * s), jittered(120 * s), jittered(300 * s)}
				for i := range spans {
					spans[i].high += 5 * s
				}
				w.spans("waits", gaps(rounds), spans...)
				w.dropped(end, "refused", 3)
				w.givenUp(logs, "http://down.test", "refused", 3)
				for _, f := range logs.fetches {
					if f.Host == "http://down.test" && (f.Error != "refused" || f.Kind != runlog.KindRobots || f.Status != 0) {
						t.Errorf("logged %+v", f)
					}
				}
			})
		})
	}
}

// TestHTTPSNowhere: a site that has port 80 only loses nothing by one link to its https, which is a host of its own.
func TestHTTPSNowhere(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(30)
		a.Page("/begin", "https://a.test/secure", "/")
		w.deps.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasSuffix(address, ":443") {
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
			}
			return w.Dial(ctx, network, address)
		}
		w.cfg.Crawl.Patience = 15 * time.Minute
		w.cfg.Politeness.RetryConnect = []time.Duration{30 * time.Second, 5 * time.Minute}
		end, logs := w.run("http://a.test/begin")
		if n := len(pages(a.Visits())); n != 32 {
			t.Errorf("%d pages by http, want 32", n)
		}
		if end.Frontier.Done != 32 || end.Frontier.Dropped != 1 {
			t.Errorf("%d done, %d dropped, want 32 and 1", end.Frontier.Done, end.Frontier.Dropped)
		}
		w.givenUp(logs, "https://a.test", "refused", 1)
		if got := logs.about(runlog.EventHostDropped, "http://a.test"); len(got) != 0 {
			t.Errorf("the http host was given up: %q", got)
		}
	})
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
	n := 0
	for _, e := range logs.events {
		if e.Event != runlog.EventHostDropped || e.Attrs[runlog.KeyHost] != host {
			continue
		}
		n++
		why, _ := e.Attrs[runlog.KeyReason].(string)
		if !strings.HasPrefix(why, reason) || e.Attrs[runlog.KeyCount] != float64(urls) {
			w.t.Errorf("%s was given up for %q with %v URLs, want %q and %d", host, why, e.Attrs[runlog.KeyCount], reason, urls)
		}
	}
	if n != 1 {
		w.t.Errorf("%s was given up %d times, want once", host, n)
	}
}
