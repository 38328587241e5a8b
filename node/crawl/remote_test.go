package crawl

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/fetch/blocklist"
	"proxima/frontier"
	"proxima/frontier/identity"
)

// noted is an overlay that notes what the loop gives it.
type noted struct {
	alone
	mu     sync.Mutex
	routed []string
	answer []frontier.Link
}

func (n *noted) Route(_ context.Context, links []frontier.Link) ([]frontier.Link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.routed = append(n.routed, urls(links)...)
	return links, nil
}

func (n *noted) Ended(task *frontier.Task, d Download) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if task.IsRemoteFetch() {
		n.answer = d.Outcome.Links
	}
}

// take is what was routed since it was called last.
func (n *noted) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.routed = nil }()
	return strings.Join(n.routed, " ")
}

func urls(links []frontier.Link) (all []string) {
	for _, l := range links {
		all = append(all, l.URL.String())
	}
	return all
}

// The links of a page that is fetched for another node leave with the answer, those that are known here among them: were
// they kept here, they would be on this disk only while the page counts as done there.
func TestLinksOfARemoteFetchLeaveWithTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &web{html: `<a href="/x">x</a> <a href="http://a.example/y">y</a> <a href="ftp://a.example/z">z</a>`}
		l, _ := testLoop(t, w, nil)
		over := &noted{}
		l.deps.Overlay = over
		l.cfg.End = EndNever
		ctx, stop := context.WithCancel(t.Context())
		var g sync.WaitGroup
		g.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Second)
		links := "http://a.example/x http://a.example/y"
		if got := over.take(); !strings.HasPrefix(got, links) {
			t.Errorf("of its own page it routes %q", got)
		}
		before := l.deps.Frontier.Status().Accepted
		page := identity.URL{Host: "http://a.example", Path: "/other"}
		if !l.deps.Frontier.Enqueue(frontier.RemoteFetch{URL: page, Server: netip.MustParseAddr("10.0.0.1"), Origin: frontier.Estimate}) {
			t.Fatal("no room for a remote fetch")
		}
		time.Sleep(10 * time.Second)
		stop()
		g.Wait()
		if got := strings.Join(urls(over.answer), " "); got != links {
			t.Errorf("the answer has the links %q", got)
		}
		if got, n := over.take(), l.deps.Frontier.Status().Accepted; got != "" || n != before {
			t.Errorf("kept here: %q, %d more URLs", got, n-before)
		}
	})
}

// What another node found goes the way of what is found here, and what is not wanted here goes no way.
func TestLinksOfAnAnswerAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := testLoop(t, &web{}, nil)
		over := &noted{}
		l.deps.Overlay = over
		list := blocklist.Default()
		list.Sources = []string{filepath.Join(t.TempDir(), "list")}
		if err := os.WriteFile(list.Sources[0], []byte("blocked.example\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if l.deps.Policy.Blocklist, err = blocklist.New(list, blocklist.Deps{}); err != nil {
			t.Fatal(err)
		}
		if err := l.deps.Policy.Blocklist.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() {
			if u, err := l.deps.Frontier.Resolve(t.Context()); err == nil {
				err = l.placer.place(t.Context(), u)
				if err != nil {
					t.Error(err)
				}
			}
		}()
		task, err := l.deps.Frontier.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		links := []frontier.Link{{URL: identity.URL{Host: "http://a.example", Path: "/new"}, Depth: 1},
			{URL: identity.URL{Host: "http://blocked.example", Path: "/"}, Depth: 1}}
		if err := l.Finish(t.Context(), task, frontier.Outcome{Ending: frontier.Done, Asked: true, Links: links}); err != nil {
			t.Fatal(err)
		}
		if got := over.take(); got != "http://a.example/new" || l.deps.Frontier.Status().Accepted != 2 || l.Stats().New != 1 {
			t.Errorf("it keeps %q: %+v, %+v", got, l.deps.Frontier.Status(), l.Stats())
		}
	})
}

// Pages that other nodes download for this one count for the limit of their host, and end at it. Those that were not answered do not count.
func TestRemoteFetchesKeepTheLimitOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := testLoop(t, &web{}, nil)
		l.hosts.perHost = 2
		go func() {
			if u, err := l.deps.Frontier.Resolve(t.Context()); err == nil {
				if err := l.placer.place(t.Context(), u); err != nil {
					t.Error(err)
				}
			}
		}()
		next := func() (*frontier.Task, string) {
			task, err := l.deps.Frontier.Take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			refused, err := l.Refuse(t.Context(), task)
			if err != nil {
				t.Fatal(err)
			}
			return task, refused
		}
		finish := func(task *frontier.Task, out frontier.Outcome) {
			if err := l.Finish(t.Context(), task, out); err != nil {
				t.Fatal(err)
			}
		}
		robots, _ := next()
		finish(robots, frontier.Outcome{Ending: frontier.Done, Asked: true, Robots: &frontier.RobotsOutcome{Lifetime: time.Hour}})
		var links []frontier.Link
		for _, path := range []string{"/1", "/2", "/3"} {
			links = append(links, frontier.Link{URL: identity.URL{Host: "http://a.example", Path: path}, Depth: 1})
		}
		unanswered := frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true}
		for i, out := range []frontier.Outcome{unanswered, unanswered, unanswered, {Ending: frontier.Done, Asked: true, Links: links}, {Ending: frontier.Done, Asked: true}} {
			task, refused := next()
			if refused != "" {
				t.Errorf("after %d remote fetches, three of them not answered, %s is refused: %s", i, task.URL, refused)
			}
			finish(task, out)
		}
		if task, refused := next(); refused != "limit: 2 pages a host" {
			t.Errorf("%s, the third page of two, is refused: %q", task.URL, refused)
		}
	})
}
