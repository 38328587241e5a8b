package node_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node"
)

// Addresses of servers of the small web: a documentation range, which the guard lets pass by configuration alone.
const (
	webPrefix = "198.51.100.0/24"
	server1   = "198.51.100.1"
	server2   = "198.51.100.2"
	server3   = "198.51.100.3"
)

// trial is a node and a small web in a bubble: its clock is fake, its files are real.
type trial struct {
	*Web
	t     *testing.T
	cfg   node.Config
	deps  node.Deps
	began time.Time
	// byDNS has the names of the sites looked up by deps.DialDNS.
	byDNS bool
	// opened, if set, looks at the node before it runs, watch while it runs.
	opened, watch func(n *node.Node)
}

// small is a configuration for the small web: the defaults, but for what a small machine has no room for.
func small(dir string) node.Config {
	c := node.Default()
	// A path too long for a socket: a listener of the system is nothing that a bubble waits for, and without a status
	// socket a node crawls all the same.
	c.Node.Data = filepath.Join(dir, strings.Repeat("long", 30))
	c.Crawl.Fetchers, c.Crawl.Resolvers = 6, 2
	c.Node.MemoryMiB, c.Frontier.MinFreeMiB = 64, 0
	c.Fetch.AllowPrefixes = []string{webPrefix}
	c.Fetch.TLSVerify = false
	c.Fetch.DNS.Servers = []string{"127.0.0.1"}
	return c
}

// inBubble runs a test in a bubble with an empty web.
func inBubble(t *testing.T, test func(w *trial)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		web, err := NewWeb()
		must(t, err)
		defer web.Close()
		w := &trial{Web: web, t: t, cfg: small(t.TempDir()), began: time.Now()}
		w.deps = node.Deps{
			Dial:      web.Dial,
			DialDNS:   new(nameServer).dial, // it knows no names
			FreeBytes: func() (uint64, error) { return 1 << 40, nil },
		}
		test(w)
		w.judge()
	})
}

// each runs a case of a test in a bubble.
func each(t *testing.T, name string, test func(t *testing.T, w *trial)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		inBubble(t, func(w *trial) { test(w.t, w) })
	})
}

// crawl opens the node, runs it to its end and returns how it ended and what it logged in all its lives.
func (w *trial) crawl(ctx context.Context, urls ...string) (node.End, nodeLogs) {
	w.t.Helper()
	if !w.byDNS {
		w.cfg.Fetch.DNS.Hosts = w.Names()
	}
	if errs := w.cfg.Validate(); errs != nil {
		w.t.Fatal(errs)
	}
	n, err := node.New(w.cfg, seeds(w.t, strings.Join(urls, "\n")), w.deps)
	must(w.t, err)
	if w.opened != nil {
		w.opened(n)
	}
	if w.watch != nil {
		go w.watch(n)
	}
	end, err := n.Run(ctx)
	if err != nil {
		w.t.Error(err)
	}
	return end, readLogs(w.t, n.LogDir())
}

// run is crawl to an idle end with nothing left.
func (w *trial) run(urls ...string) (node.End, nodeLogs) {
	w.t.Helper()
	end, logs := w.crawl(w.t.Context(), urls...)
	if end.Reason != "idle" || end.Unfinished != 0 {
		w.t.Errorf("ended as %q with %d URLs unfinished", end.Reason, end.Unfinished)
	}
	return end, logs
}

// judge holds what must hold in every crawl, of one's own servers but for gaps.
func (w *trial) judge() {
	w.t.Helper()
	visits := slices.DeleteFunc(w.Visits(nil), func(v Visit) bool {
		// A web master has asked for the one; to the other robots.txt files are redirected.
		return v.Path == "/.well-known/proxima.txt" || strings.HasPrefix(v.Path, "/rules")
	})
	judge(w.t, visits, w.cfg.Politeness.MinGap, len(w.cfg.Politeness.Own) > 0)
}

// judge holds what must hold of every crawl: no page is asked for before the robots.txt of its host, and a server that is not one's own is
// asked for one thing at a time, of whatever node, with a least gap.
func judge(t *testing.T, visits []Visit, least time.Duration, own bool) {
	t.Helper()
	known, last := map[string]bool{}, map[netip.Addr]Visit{}
	for _, v := range visits {
		origin := v.Scheme + "://" + v.Site
		if known[origin] = known[origin] || v.Path == "/robots.txt"; !known[origin] {
			t.Errorf("%s was asked for before the robots.txt of its host", v.URL())
		}
		if l, ok := last[v.Server]; ok && !own && (l.End.IsZero() || v.Start.Sub(l.End) < least) {
			t.Errorf("%s asked for %s at %v, %s for %s from %v to %v: the gap is %v", v.From, v.URL(), v.Start, l.From, l.URL(), l.Start, l.End,
				v.Start.Sub(l.End))
		}
		last[v.Server] = v
	}
}

// at is a time since the trial began.
func (w *trial) at(t time.Time) time.Duration { return t.Sub(w.began) }

// pages are the visits without those of robots.txt.
func pages(visits []Visit) []Visit {
	return slices.DeleteFunc(slices.Clone(visits), func(v Visit) bool { return v.Path == "/robots.txt" })
}

// urls are those that were asked for.
func urls(visits []Visit) (all []string) {
	for _, v := range visits {
		all = append(all, v.URL())
	}
	return all
}

// none complains about visits that should not be.
func none(t *testing.T, visits []Visit, why string, bad func(v Visit) bool) {
	t.Helper()
	for _, v := range visits {
		if bad(v) {
			t.Errorf("%s asked for %s at %v %s", v.From, v.URL(), v.Start, why)
		}
	}
}

// gaps are the times from the end of each visit to the start of the next.
func gaps(visits []Visit) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(visits); i++ {
		out = append(out, visits[i].Start.Sub(visits[i-1].End))
	}
	return out
}

// span is what a time may be.
type span struct{ low, high time.Duration }

// exactly allows for what the crawler does between two timers.
func exactly(d time.Duration) span { return span{d, d + 100*time.Millisecond} }

// jittered is a wait of the politeness: a quarter to either side.
func jittered(d time.Duration) span { return span{d * 3 / 4, d*5/4 + 100*time.Millisecond} }

// later allows for something else that may come first.
func (s span) later(d time.Duration) span { return span{s.low, s.high + d} }

// spans complains about times out of their spans, or too few or many.
func (w *trial) spans(what string, got []time.Duration, want ...span) {
	w.t.Helper()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		ok = got[i] >= want[i].low && got[i] <= want[i].high
	}
	if !ok {
		w.t.Errorf("%s: %v, want within %v", what, got, want)
	}
}

// apart complains about times between visits that are out of a span.
func (w *trial) apart(what string, visits []Visit, want span) {
	w.t.Helper()
	all := gaps(visits)
	w.spans(what, all, slices.Repeat([]span{want}, len(all))...)
}

// same complains about lists that differ as sets.
func (w *trial) same(what string, got []string, want ...string) {
	w.t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// dropped complains about the count of a reason among the drops of frontier and loop.
func (w *trial) dropped(end node.End, reason string, want int64) {
	w.t.Helper()
	if got := end.Drops[reason] + int64(end.Frontier.Reasons[reason]); got != want {
		w.t.Errorf("dropped %d for %q, want %d (%v, %v)", got, reason, want, end.Drops, end.Frontier.Reasons)
	}
}

// numbered are paths "/0" to "/n-1".
func numbered(n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("/%d", i)
	}
	return paths
}

// blocklist writes the node's blocklist, which is a file beside its data. Its length must change with its content.
func (w *trial) blocklist(text string) {
	path := w.cfg.Node.Data + ".blocklist"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Error(err)
	}
	w.cfg.Blocklist.Sources = []string{path}
}
