package crawl

import (
	"strings"
	"testing"

	"proxima/fetch"
	"proxima/fetch/page"
	"proxima/frontier"
)

// The links of a page that says nearly the same as another are counted and not followed; those of the other are,
// whenever it is read.
func TestNearDuplicatesAreNotFollowed(t *testing.T) {
	l := newGathering(t)
	l.deps.Page = page.New(page.Default())
	l.reader.near = newNear(100)
	prose := "<p>" + strings.Repeat("The old bridge across the harbour was opened again on Tuesday after repairs. ", 6)
	read := func(url, body string) (links int, reason string) {
		task := &frontier.Task{Kind: frontier.Page, URL: mustParse(t, url)}
		res := fetch.Result{Status: 200, Body: []byte(body)}
		res.Header = map[string][]string{"Content-Type": {"text/html; charset=utf-8"}}
		var out frontier.Outcome
		g := l.reader.gather()
		l.reader.page(task, &res, &out, g)
		links = len(out.Links)
		l.reader.release(g)
		return links, out.Reason
	}
	for _, c := range []struct {
		name, url, body string
		links           int
	}{
		{"the first", "http://a.test/1", prose + "<p>Visitor 17 <a href=/x>x</a> <a href=/y>y</a>", 2},
		{"with another counter", "http://b.test/1", prose + "<p>Visitor 18 <a href=/x>x</a> <a href=/y>y</a>", 0},
		{"the first again", "http://a.test/1", prose + "<p>Visitor 19 <a href=/x>x</a> <a href=/y>y</a>", 2},
		{"another text", "http://b.test/2", strings.Repeat("Ferries go to the islands of the south until the end of this month, each hour. ", 6) + "<a href=/x>x</a>", 1},
		{"the first, changed", "http://a.test/1", strings.Repeat("There is nothing to be seen here, and nobody knows where all of it has gone. ", 6) + "<a href=/x>x</a>", 1},
		{"few words", "http://c.test/1", "<p>Welcome <a href=/x>x</a>", 1},
		{"the same few words", "http://c.test/2", "<p>Welcome <a href=/x>x</a>", 1},
	} {
		links, reason := read(c.url, c.body)
		if links != c.links || (reason != "") != (c.links == 0) {
			t.Errorf("%s: %d links are followed, want %d; reason %q", c.name, links, c.links, reason)
		}
	}
	if got := l.Stats().Drops["near-duplicate page"]; got != 2 {
		t.Errorf("%d links counted as those of near-duplicates, want 2", got)
	}
}
