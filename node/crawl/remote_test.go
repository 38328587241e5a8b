package crawl

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// The links of a page that is fetched for another node leave with the answer, those that are known here among them: were
// they kept here, they would be on this disk only while the page counts as done there.
func TestLinksOfARemoteFetchLeaveWithTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, &web{html: `<a href="/x">x</a> <a href="http://a.example/y">y</a> <a href="ftp://a.example/z">z</a>`})
		const links = "http://a.example/x http://a.example/y"
		var before uint64
		b.crawl(func() {
			time.Sleep(10 * time.Second)
			if got := b.over.take(); !strings.HasPrefix(got, links) {
				t.Errorf("of its own page it routes %q", got)
			}
			before = b.deps.Frontier.Status().Accepted
			b.enqueue("http://a.example", "/other", "10.0.0.1")
			time.Sleep(10 * time.Second)
		})
		if len(b.over.ended) != 1 || urls(b.over.ended[0].Links) != links {
			t.Errorf("the answer is %+v", b.over.ended)
		}
		if got, n := b.over.take(), b.deps.Frontier.Status().Accepted; got != "" || n != before {
			t.Errorf("kept here: %q, %d more URLs", got, n-before)
		}
	})
}

// What another node found goes the way of what is found here, and what is not wanted here goes no way.
func TestLinksOfAnAnswerAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, new(web))
		b.block("blocked.example")
		b.place()
		task, _ := b.next()
		b.finish(task, frontier.Outcome{Ending: frontier.Done, Asked: true, Links: []frontier.Link{
			{URL: identity.URL{Host: "http://a.example", Path: "/new"}, Depth: 1},
			{URL: identity.URL{Host: "http://blocked.example", Path: "/"}, Depth: 1},
		}})
		if got := b.over.take(); got != "http://a.example/new" || b.deps.Frontier.Status().Accepted != 2 || b.Stats().New != 1 {
			t.Errorf("it keeps %q: %+v, %+v", got, b.deps.Frontier.Status(), b.Stats())
		}
	})
}

// The overlay hears of each page before it is done or has failed, and not of one that is tried again or dropped. If it cannot note that, the page does
// not end.
func TestOverlayHearsOfPagesThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, new(web))
		task := b.firstPage()
		b.finish(task, frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted})
		found := func(path string, sitemap bool) frontier.Link {
			return frontier.Link{URL: identity.URL{Host: "http://a.example", Path: path}, Depth: 1, Sitemap: sitemap}
		}
		task, _ = b.next()
		all := []frontier.Link{found("/1", false), found("/2", false), found("/3", true)}
		b.finish(task, frontier.Outcome{Ending: frontier.Done, Asked: true, Links: all})
		for range all {
			task, _ = b.next()
			b.finish(task, frontier.Outcome{Ending: map[string]frontier.Ending{"/1": frontier.Failed, "/2": frontier.Dropped, "/3": frontier.Done}[task.URL.Path]})
		}
		slices.SortFunc(b.over.ending, func(a, b frontier.Link) int { return strings.Compare(b.URL.Path, a.URL.Path) })
		want := []frontier.Link{{URL: mustParse(t, "http://a.example/page")}, all[2], all[0]}
		if !slices.Equal(b.over.ending, want) {
			t.Errorf("it hears of %+v", b.over.ending)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, new(web))
		task := b.firstPage()
		b.over.broken = errors.New("bad sector")
		err := b.Finish(t.Context(), task, frontier.Outcome{Ending: frontier.Done})
		if n := b.deps.Frontier.Status().Pending; !errors.Is(err, b.over.broken) || n != 1 {
			t.Errorf("%v, and %d URLs wait", err, n)
		}
	})
}

// A seed that another node asked for makes its twin a seed if it redirects to it, and not if it links to it.
func TestTwinOfASeedThatAnotherNodeFound(t *testing.T) {
	for hops, want := range map[uint8]string{0: "", 1: "http://www.a.example/"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, new(web))
			cfg := identity.Default()
			cfg.SeedScope = identity.ScopeHost
			rules, err := identity.New(cfg, []identity.URL{mustParse(t, "http://a.example/page")})
			must(t, err)
			b.deps.Policy.Rules = rules
			b.deps.Widen = func(seed identity.URL) error {
				return rules.Widen(rules.Brought([]identity.URL{seed}), func([]string) error { return nil })
			}
			task := b.firstPage()
			b.finish(task, frontier.Outcome{Ending: frontier.Done, Asked: true, Links: []frontier.Link{{URL: mustParse(t, "http://www.a.example/"), Hops: hops}}})
			if got := b.over.take(); got != want {
				t.Errorf("%d redirects: it keeps %q, want %q", hops, got, want)
			}
		})
	}
}

// Pages that other nodes download for this one count for the limit of their host, and end at it. Those that were not answered do not count.
func TestRemoteFetchesKeepTheLimitOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, new(web))
		b.hosts.perHost = 2
		b.place()
		robots, _ := b.next()
		b.finish(robots, frontier.Outcome{Ending: frontier.Done, Asked: true, Robots: &frontier.RobotsOutcome{Lifetime: time.Hour}})
		var links []frontier.Link
		for _, path := range []string{"/1", "/2", "/3"} {
			links = append(links, frontier.Link{URL: identity.URL{Host: "http://a.example", Path: path}, Depth: 1})
		}
		unanswered := frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true}
		done := frontier.Outcome{Ending: frontier.Done, Asked: true, Links: links}
		for i, out := range []frontier.Outcome{unanswered, unanswered, unanswered, done, {Ending: frontier.Done, Asked: true}} {
			task, refused := b.next()
			if refused != "" {
				t.Errorf("after %d remote fetches, three of them not answered, %s is refused: %s", i, task.URL, refused)
			}
			b.finish(task, out)
		}
		if task, refused := b.next(); refused != "limit: 2 pages a host" {
			t.Errorf("%s, the third page of two, is refused: %q", task.URL, refused)
		}
	})
}

// Links whose host is moving are passed on before their page counts as done, whoever found them: the frontier does not take them.
func TestLinksToAHostThatMovesArePassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = "http://away.example"
		b := newBed(t, &web{html: `<a href="` + away + `/found">x</a>`})
		must(t, b.deps.Frontier.SetRole(t.Context(), away, frontier.Leaving))
		b.place()
		task, _ := b.next()
		b.finish(task, frontier.Outcome{Ending: frontier.Done, Asked: true, Links: []frontier.Link{{URL: mustParse(t, away+"/answered"), Depth: 1}}})
		_, err := b.Seed(t.Context(), []identity.URL{mustParse(t, away+"/seed")})
		must(t, err)
		b.crawl(func() { time.Sleep(10 * time.Second) })
		if want := away + "/answered " + away + "/seed " + away + "/found"; strings.Join(b.over.passed, " ") != want {
			t.Errorf("passed on are %q, want %q", b.over.passed, want)
		}
	})
}
