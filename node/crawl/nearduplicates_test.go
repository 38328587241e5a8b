package crawl

import (
	"strings"
	"testing"
)

// The links of a page that says nearly the same as another are counted and not followed; those of the other are,
// whenever it is read.
func TestNearDuplicatesAreNotFollowed(t *testing.T) {
	l := newReading(t)
	l.reader.near = newNear(100)
	prose := "<p>" + strings.Repeat("The old bridge across the harbour was opened again on Tuesday after repairs. ", 6)
	other := "<p>" + strings.Repeat("Ferries go to the islands of the south until the end of this month, each hour. ", 6)
	changed := "<p>" + strings.Repeat("There is nothing to be seen here, and nobody knows where all of it has gone. ", 6)
	const one, two = "<a href=/x>x</a>", "<a href=/x>x</a> <a href=/y>y</a>"
	for _, c := range []struct {
		name, url, body string
		links           int
	}{
		{"the first", "http://a.test/1", prose + "<p>Visitor 17 " + two, 2},
		{"with another counter", "http://b.test/1", prose + "<p>Visitor 18 " + two, 0},
		{"the first again", "http://a.test/1", prose + "<p>Visitor 19 " + two, 2},
		{"another text", "http://b.test/2", other + one, 1},
		{"the first, changed", "http://a.test/1", changed + one, 1},
		{"few words", "http://c.test/1", "<p>Welcome " + one, 1},
		{"the same few words", "http://c.test/2", "<p>Welcome " + one, 1},
	} {
		out := l.readPage(t, c.url, "", c.body).out
		if len(out.Links) != c.links || (out.Reason != "") != (c.links == 0) {
			t.Errorf("%s: %d links are followed, want %d; reason %q", c.name, len(out.Links), c.links, out.Reason)
		}
	}
	if got := l.Stats().Drops["near-duplicate page"]; got != 2 {
		t.Errorf("%d links counted as those of near-duplicates, want 2", got)
	}
}
