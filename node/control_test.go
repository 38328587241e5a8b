package node_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"proxima/frontier/identity"
	"proxima/node"
	"proxima/node/console"
)

// While a node is paused no request begins, and a snapshot has the hosts and what is pending of them; seeds that are added belong to the crawl,
// and are remembered; a host that waits because its server is busy is asked as soon as it is told to be; what is dropped is given up.
func TestControl(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Scope.SeedScope, w.cfg.Crawl.Patience = identity.ScopeHost, 2*time.Hour
		a := w.Site("a.test", server1).Pages(20)
		b := w.Site("b.test", server2).Pages(5)
		c := w.Site("c.test", server3).Pages(50)
		var well atomic.Bool
		busy := w.Site("busy.test", "198.51.100.4").Handle("/", func(out http.ResponseWriter, r *http.Request) {
			if answer := Status(http.StatusServiceUnavailable, "Retry-After", "3000"); !well.Load() {
				answer(out, r)
			}
		})
		var paused, resumed time.Time
		var dropped int
		done := func(what string, err error) {
			if err != nil {
				w.t.Errorf("%s: %v", what, err)
			}
		}
		w.watch = func(n *node.Node) {
			o, ctx := n.Operator(), w.t.Context()
			time.Sleep(10 * time.Second)
			done("pause", o.Pause("tester"))
			paused = time.Now()
			if why := n.Status().Frontier.Paused; why == "" {
				w.t.Error("the status does not say that it is paused")
			}
			var sample console.Sample
			if called(w.t, n, "GET", "/sample", &sample); !sample.Held {
				w.t.Error("the console cannot say that an operator has paused it")
			}
			for range 30 { // in the gap of its server and after it
				time.Sleep(100 * time.Millisecond)
				var list node.HostList
				if called(w.t, n, "GET", "/hosts?part=a.test", &list); len(list.Hosts) != 1 || list.Hosts[0].Wait != "fetching" && !strings.HasPrefix(list.Hosts[0].Sentence, "no request begins: paused") {
					w.t.Errorf("in the pause: %+v", list.Hosts)
				}
			}
			refused, err := o.AddSeeds(ctx, seeds(w.t, "http://b.test/\nhttp://c.test/\nhttps://c.test/"), "tester")
			if err != nil || len(refused) > 0 {
				w.t.Errorf("seeds: %v, %v", refused, err)
			}
			time.Sleep(5 * time.Minute)
			w.snapshot(n, 5)
			resumed = time.Now()
			done("resume", o.Resume("tester"))
			time.Sleep(20 * time.Second)
			if dropped, err = o.Drop(ctx, "c.test", "tester"); err != nil || dropped < 30 {
				w.t.Errorf("%d URLs dropped: %v", dropped, err)
			}
			if tried := busy.Count("/"); tried != 1 {
				w.t.Errorf("a busy host was asked %d times", tried)
			}
			well.Store(true)
			done("retry", o.Retry(ctx, "busy.test", "tester"))
			if dropped, err := o.Drop(ctx, "nobody.test", "tester"); !errors.Is(err, node.ErrNotHere) || dropped != 0 {
				w.t.Errorf("%d URLs of an unknown host dropped: %v", dropped, err)
			}
			if err := o.Retry(ctx, "nobody.test", "tester"); !errors.Is(err, node.ErrNotHere) {
				w.t.Errorf("an unknown host is asked again: %v", err)
			}
		}
		end, logs := w.crawl(w.t.Context(), "http://a.test/", "http://busy.test/")
		w.dropped(end, "dropped by the operator", int64(dropped))
		none(w.t, w.Visits(nil), "in the pause", func(v Visit) bool { return v.Start.After(paused.Add(time.Second)) && v.Start.Before(resumed) })
		got := []int{len(pages(a.Visits())), len(pages(b.Visits())), busy.Count("/")}
		if took := time.Since(w.began); !slices.Equal(got, []int{21, 6, 2}) || took > 10*time.Minute {
			w.t.Errorf("%d pages of the seed, the added seed and the busy host, want 21, 6 and 2; it took %v", got, took)
		}
		if n := len(pages(c.Visits())); n == 0 || n > 20 {
			w.t.Errorf("%d pages of the dropped host", n)
		}
		if acts := logs.events.actsOf("tester"); len(acts) != 6 {
			w.t.Errorf("%q: want pause, seeds, resume, two hosts of one name, and retry", acts)
		}

		w.watch = nil
		_, logs = w.crawl(w.t.Context())
		hosts := map[string]bool{}
		for _, l := range logs.fetches {
			u, err := identity.Parse(l.URL)
			must(w.t, err)
			hosts[u.Name()] = true
		}
		if got := slices.Sorted(maps.Keys(hosts)); !slices.Equal(got, []string{"a.test", "b.test", "busy.test", "c.test"}) {
			w.t.Errorf("hosts %v", got)
		}
	})
}

// snapshot has a node write what it has, and complains unless that is so many hosts, what is pending of them, and their numbers at the end.
func (w *trial) snapshot(n *node.Node, hosts int) {
	w.t.Helper()
	var b bytes.Buffer
	if err := n.Snapshot(w.t.Context(), &b); err != nil {
		w.t.Error(err)
	}
	pending := int(n.Status().Frontier.Pending)
	roles, urls, last := 0, map[string]bool{}, ""
	for line := range strings.Lines(b.String()) {
		var l struct{ Host, URL, Role string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			w.t.Errorf("%s: %v", line, err)
		}
		switch {
		case l.Role != "":
			roles++
		case l.URL != "":
			urls[l.URL] = true
		}
		last = line
	}
	if want := fmt.Sprintf("{\"hosts\":%d,\"urls\":%d}\n", hosts, pending); roles != hosts || len(urls) != pending || pending == 0 || last != want {
		w.t.Errorf("%d hosts and %d URLs, and at the end %s, want %s", roles, len(urls), last, want)
	}
}

// Who asks about a host that the scope leaves out hears that, and of another one that it is not here.
func TestStatusOfAHostThatIsNotHere(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(1)
		w.cfg.Scope.Exclude.Hosts = []string{"c.test", "c.test:81"}
		w.opened = func(n *node.Node) {
			for name, want := range map[string]string{"c.test": "c.test: the scope leaves it out (excluded); a port other than 80 and 443 belongs to the name (HOST:PORT)",
				"c.test:81": "c.test:81: the scope leaves it out (excluded)", "https://b.test": node.ErrNotHere.Error()} {
				var answer struct{ Error string }
				if code := called(w.t, n, "GET", "/host?name="+name, &answer); code != 404 || !strings.Contains(answer.Error, want) {
					w.t.Errorf("%s: %d, %q", name, code, answer.Error)
				}
			}
		}
		w.run("http://a.test/")
	})
}
