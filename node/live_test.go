package node_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/console"
	"proxima/node/netsim"
	"proxima/node/runlog"
)

// A live key counts from now on, one that is not live waits for the next start, and what makes no sense changes nothing.
func TestSet(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(100)
		w.Site("b.test", server2).Pages(500)
		listed := filepath.Join(t.TempDir(), "list")
		must(t, os.WriteFile(listed, []byte("b.test\n"), 0o600))
		var slow int
		w.watch = func(n *node.Node) {
			ctx := w.t.Context()
			time.Sleep(20 * time.Second)
			for _, c := range []struct{ key, value, why string }{
				{"politeness.min_gap", "soon", "a duration"}, {"politeness.min_gap", "-1s", "min_gap"}, {"politeness.min_gap", "", "duration"},
				{"crawl.fetchers", "0", "not between"}, {"crawl.fetchers", "1\n[peer]\nsecret = 'x'", "more than one line"}, {"crawl.fetchers", "1.5", "crawl.fetchers: want a whole number, got 1.5"},
				{"politeness.min_gap", "5", "in quotes with its unit, like \"250ms\" or \"1h30m\", got 5"},
				{"crawl.fetcher", "1", "no key (did you mean crawl.fetchers?)"}, {"crwal.fetcher", "1", "no key (did you mean crawl.fetchers?)"},
				{"nowhere.fetcher", "1", "no key"}, {"crawl.fetchers.fetcher", "1", "no key"}, {"site.gap", "1", "no key"}, {"", "1", "no key"},
				{"site", "[]", "cannot change"}, {"crawl", "{}", "no key"},
				{"blocklist.sources", `["/nowhere/list"]`, "/nowhere/list: no such file"},
				{"peer.listen", "127.0.0.1:1", "from the next start on"}, {"crawl.max_pages", "9", "configuration file, which counts from the next start on"},
			} {
				err := n.Operator().Set(ctx, c.key, c.value, "ann")
				if err == nil || !strings.Contains(err.Error(), c.why) || strings.HasSuffix(c.why, "no key") && !strings.HasSuffix(err.Error(), c.why) {
					w.t.Errorf("%s set to %q: %v", c.key, c.value, err)
				}
			}
			set := func(key, value string) {
				if err := n.Operator().Set(ctx, key, value, "ann"); err != nil {
					w.t.Errorf("%s set to %s: %v", key, value, err)
				}
			}
			set("politeness.min_gap", "1m")
			time.Sleep(5 * time.Second)
			before := len(a.Visits())
			time.Sleep(10 * time.Minute)
			slow = len(a.Visits()) - before
			set("politeness.min_gap", `"2s"`)
			set("crawl.fetchers", "1")
			set("blocklist.sources", `["https://me:hush@lists.test/list?token=hush"]`)
			set("blocklist.sources", `["`+listed+`"]`)
		}
		end, logs := w.crawl(w.t.Context(), "http://a.test/", "http://b.test/")
		if slow < 9 || slow > 11 {
			w.t.Errorf("%d requests in ten minutes with a gap of one", slow)
		}
		if end.Reason != "idle" || len(pages(a.Visits())) != 101 {
			w.t.Errorf("it ended as %q with %d pages", end.Reason, end.Pages)
		}
		if len(logs.about(runlog.EventHostDropped, "http://b.test")) == 0 {
			w.t.Error("a host of the new blocklist is still there")
		}
		if all := fmt.Sprint(logs.events); !strings.Contains(all, "lists.test") || strings.Contains(all, "hush") {
			w.t.Errorf("the log has a secret, or not the list: %s", all)
		}
		acts := logs.events.actsOf("ann")
		if len(acts) != 5 || strings.Contains(strings.Join(acts, " "), "hush") || acts[0] != "set politeness.min_gap from 2s to 1m0s" {
			w.t.Errorf("acts %q", acts)
		}
	})
}

// silent is a network on which nobody answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A key that has nothing to do with blocklists does not wait for one whose server does not answer.
func TestSetWhileABlocklistIsSilent(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(1)
		w.cfg.Blocklist.Sources, w.deps.Transport = []string{"http://lists.test/1", "http://lists.test/2"}, silent{}
		w.opened = func(n *node.Node) {
			begun := time.Now()
			if err := n.Operator().Set(w.t.Context(), "politeness.min_gap", "1m", "ann"); err != nil || time.Since(begun) > time.Second {
				w.t.Errorf("after %v: %v", time.Since(begun), err)
			}
		}
		w.run("http://a.test/")
	})
}

// Who names a blocklist whose server does not answer is answered within half of the minute that a call may take: another one may wait for the first.
func TestSetABlocklistThatIsSilent(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(1)
		w.deps.Transport = silent{}
		w.opened = func(n *node.Node) {
			begun := time.Now()
			if err := n.Operator().Set(w.t.Context(), "blocklist.sources", `["http://lists.test/1"]`, "ann"); err != nil || time.Since(begun) >= 30*time.Second {
				w.t.Errorf("after %v: %v", time.Since(begun), err)
			}
		}
		w.run("http://a.test/")
	})
}

// The configuration that is read again changes what is live, says what is not, and changes nothing where it is wrong.
func TestReload(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(3)
		file, wrong := w.cfg, error(nil)
		w.deps.Config = func() (node.Config, error) { return file, wrong }
		w.opened = func(n *node.Node) {
			file = w.cfg
			if changed, refused, err := n.Operator().Reload(w.t.Context(), "ann"); len(changed)+len(refused) > 0 || err != nil {
				w.t.Errorf("nothing is new: %q, %q, %v", changed, refused, err)
			}
			file.Politeness.MinGap, file.Politeness.RetryPage, file.Fetch.UserAgent = time.Minute, []time.Duration{time.Second}, "other/1"
			changed, refused, err := n.Operator().Reload(w.t.Context(), "ann")
			if !slices.Equal(changed, []string{"politeness.min_gap", "politeness.retry_page"}) || len(refused) != 1 ||
				!strings.HasPrefix(refused[0], "fetch.user_agent cannot change") || err != nil {
				w.t.Errorf("%q, %q, %v", changed, refused, err)
			}
			file.Politeness.MinGap, wrong = time.Hour, errors.New("line 3")
			if changed, _, err := n.Operator().Reload(w.t.Context(), "ann"); len(changed) > 0 || err == nil {
				w.t.Errorf("a file that is wrong: %q, %v", changed, err)
			}
		}
		w.run("http://a.test/")
		if took := time.Since(w.began); took < 4*time.Minute || took > time.Hour {
			w.t.Errorf("four pages took %v with a gap of a minute", took)
		}
	})
}

// Of two calls that read the configuration, the one that reads later counts, however slowly the other one reads.
func TestReloadsDoNotOvertake(t *testing.T) {
	older := config(t)
	newer := older
	older.Politeness.MinGap, newer.Politeness.MinGap = time.Minute, 3*time.Second
	var reads atomic.Int64
	reading, second := make(chan struct{}), make(chan struct{})
	n, err := node.New(older, seeds(t, "http://a.test/"), node.Deps{Config: func() (node.Config, error) {
		if reads.Add(1) > 1 {
			return newer, nil
		}
		close(reading)
		select {
		case <-second:
		case <-time.After(100 * time.Millisecond): // it waits for this call, as it should
		}
		return older, nil
	}})
	must(t, err)
	reload := func() []string {
		changed, _, err := n.Operator().Reload(t.Context(), "ann")
		if err != nil {
			t.Error(err)
		}
		return changed
	}
	var first sync.WaitGroup
	first.Go(func() { reload() })
	<-reading
	reload()
	close(second)
	first.Wait()
	if changed := reload(); len(changed) > 0 {
		t.Errorf("what was read last does not count: %q", changed)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Run(over); err != nil {
		t.Error(err)
	}
}

// The console of a running node takes the tokens that are in its file now. It warns once of a file that it cannot use, and goes on.
func TestTokensAreFollowed(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(50)
		place, err := netsim.New(nil).Open(netip.MustParseAddr("203.0.113.1"))
		must(w.t, err)
		w.deps.Listen = func(network, _ string) (net.Listener, error) { return place.Listen(network, ":8300") }
		file, first, second := filepath.Join(t.TempDir(), "tokens"), strings.Repeat("a", 32), strings.Repeat("b", 32)
		must(w.t, os.WriteFile(file, []byte("ann "+first), 0o600))
		w.cfg.Console = console.Config{Listen: ":8300", TokenFile: file}
		w.watch = func(*node.Node) {
			client := http.Client{Transport: &http.Transport{DialContext: place.DialContext, DisableKeepAlives: true}}
			expect := func(token string, want int) {
				req, err := http.NewRequestWithContext(w.t.Context(), "GET", "http://203.0.113.1:8300/api/v1/status", nil)
				must(w.t, err)
				req.Host = "localhost"
				req.Header.Set("Authorization", "Bearer "+token)
				res, err := client.Do(req)
				must(w.t, err)
				if res.Body.Close(); res.StatusCode != want {
					w.t.Errorf("%s: %s, want %d", token, res.Status, want)
				}
			}
			time.Sleep(time.Second)
			expect(first, 200)
			must(w.t, os.WriteFile(file, []byte("bob "+second), 0o600))
			time.Sleep(console.ReadEvery)
			expect(first, 401)
			expect(second, 200)
			must(w.t, os.Truncate(file, 10))
			time.Sleep(3 * console.ReadEvery)
			expect(second, 200)
		}
		_, logs := w.run("http://a.test/")
		warned := strings.Join(logs.events.of(runlog.EventWarning).reasons(), "\n")
		if strings.Count(warned, "the console goes on with what it read before") != 1 || !strings.Contains(warned, "tokens:1") {
			w.t.Errorf("it warns %q", warned)
		}
	})
}
