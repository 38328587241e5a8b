package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/node"
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
				{"crawl.fetchers", "0", "not between"}, {"crawl.fetchers", "1\n[peer]\nsecret = 'x'", "more than one line"}, {"crawl.fetchers", "1.5", ""},
				{"crawl.fetcher", "1", "no key (did you mean crawl.fetchers?)"}, {"crwal.fetcher", "1", "no key (did you mean crawl.fetchers?)"},
				{"nowhere.fetcher", "1", "no key"}, {"crawl.fetchers.fetcher", "1", "no key"}, {"site.gap", "1", "no key"}, {"", "1", "no key"},
				{"site", "[]", "cannot change"}, {"crawl", "{}", "no key"},
				{"peer.listen", "127.0.0.1:1", "from the next start on"}, {"crawl.max_pages", "9", "from the next start on"},
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
		acts := logs.events.actsOf("ann")
		if len(acts) != 5 || strings.Contains(strings.Join(acts, " "), "hush") || acts[0] != "set politeness.min_gap from 2s to 1m0s" {
			w.t.Errorf("acts %q", acts)
		}
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
