package crawl

import "testing"

// Of the tasks that have a place, no more are carried out than pages are allowed. The limit that was reached first is the one that ended the crawl.
func TestLimits(t *testing.T) {
	l := NewLimits(Config{MaxPages: 3}, nil)
	begun := 0
	for range 5 { // which were taken before they had places
		if l.join(); l.begin() {
			begun++
		}
	}
	if begun != 3 {
		t.Errorf("%d tasks are carried out, 3 are allowed", begun)
	}
	l.giveBack(true, false)
	if !l.begin() || l.begin() {
		t.Error("not one more is carried out for one that became no page")
	}
	for range 3 {
		l.giveBack(true, true)
	}
	l.End("max_time")
	if why := l.why(); why != "max_pages" || l.begin() {
		t.Errorf("the crawl ended for %q, or goes on", why)
	}
}
