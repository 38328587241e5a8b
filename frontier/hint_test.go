package frontier

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// hintedSite is a frontier with n pages of one host that were seen some time ago, and links to them as a sitemap names them.
func hintedSite(t *testing.T, n int) (l *life, links []Link) {
	cfg, polite := recrawlConfig()
	cfg.Recrawl.Max = 300 * 24 * time.Hour
	l = visitedOnce(t, cfg, polite, n)
	time.Sleep(5 * time.Minute)
	return l, pages("http://h1.test", 0, n)
}

// A page comes earlier that its sitemap says was modified since it was seen; what is to come, was before, belongs to another
// host, or to a page that was not there lately, is not believed.
func TestSitemapHints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, links := hintedSite(t, 40)
		want := make(map[string]bool)
		now := time.Now()
		for i := range links {
			switch {
			case i < 5:
				links[i].Modified = now.Add(-time.Minute)
				want[links[i].URL.String()] = true
			case i < 10:
				links[i].Modified = now.Add(time.Hour)
			case i < 15:
				links[i].Modified = now.Add(-24 * time.Hour)
			case i < 20: // its latest visit got no answer, or found no page
				links[i].Modified = now.Add(-time.Minute)
				p := PageRecord{Path: links[i].URL.Path, Seen: now.Add(-2 * time.Minute), Due: now.Add(20 * 24 * time.Hour), Failures: 1}
				if i%2 == 0 {
					p.Failures, p.Gone = 0, 1
				}
				l.imported("http://h1.test", Chunk{Pages: []PageRecord{p}})
			}
		}
		elsewhere := pages("http://h2.test", 0, 3)
		l.add(elsewhere...)
		l.visit(3, func(*Task) Outcome { return asSeen(1) })
		for i := range elsewhere {
			elsewhere[i].Modified = time.Now().Add(time.Second)
		}
		time.Sleep(5 * time.Second)
		l.add(Link{URL: pages("http://h1.test", 99, 1)[0].URL, Sitemap: true})
		l.visit(1, func(task *Task) Outcome {
			if task.Kind != Sitemap {
				t.Errorf("%s comes before the sitemap", task.URL)
			}
			out := asSeen(2)
			out.Links = append(links, elsewhere...)
			return out
		})
		again := l.visit(40, func(task *Task) Outcome {
			if !want[task.URL.String()] || !task.Page.Hinted {
				t.Errorf("%s came again", task.URL)
			}
			return Outcome{Ending: Done, Asked: true, Visit: &Visit{Found: Unchanged}}
		})
		if len(again) != len(want) {
			t.Errorf("%d of %d modified pages came again", len(again), len(want))
		}
	})
}

// A sitemap that gives all pages another lastmod at each look gets the visits of the proof for it and no more; one that is right gets
// all from the second look on, which is the last here: pages that always change come soon by themselves.
func TestTrustInHints(t *testing.T) {
	for _, tt := range []struct {
		found         Found
		looks, visits int
	}{{Unchanged, 10, probedHints}, {Altered, 2, probedHints + 100}} {
		synctest.Test(t, func(t *testing.T) {
			l, links := hintedSite(t, 100)
			visits, digest := 0, uint64(1)
			for range tt.looks {
				time.Sleep(10 * time.Minute)
				for i := range links {
					links[i].Modified = time.Now()
				}
				if err := l.hint(context.Background(), "http://h1.test", links); err != nil {
					t.Fatal(err)
				}
				digest++
				l.visit(200, func(task *Task) Outcome {
					if task.Page.Hinted {
						visits++
					}
					return Outcome{Ending: Done, Asked: true, Visit: &Visit{Found: tt.found, Digest: digest}}
				})
			}
			if visits != tt.visits {
				t.Errorf("%d visits for hints where pages are %v, want %d", visits, tt.found, tt.visits)
			}
			l.stop()
		})
	}
}

// Old hints weigh less than new ones. Few are followed without proof, and none of a host that has been wrong too often.
func TestHintsAreJudged(t *testing.T) {
	var h hints
	for range 4 * probedHints {
		h.note(true)
	}
	if h.note(false); h != (hints{2*probedHints + 1, 2 * probedHints}) {
		t.Errorf("after many hints that were right, and one that was not: %+v", h)
	}
	for h, want := range map[hints]int{{}: probedHints, {5, 0}: probedHints - 5, {probedHints, 3}: 0, {probedHints, 4}: math.MaxInt} {
		if _, most := h.trust(); most != want {
			t.Errorf("%+v: %d are followed, want %d", h, most, want)
		}
	}
}
