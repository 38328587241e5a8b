package frontier

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Sitemaps that give all pages another lastmod at each look get the visits of the proof for it and no more, however many they are; those that
// are right get all from the second look on, which is the last here: pages that always change come soon by themselves. Pages that are forgotten
// prove nothing.
func TestTrustInHints(t *testing.T) {
	for _, tt := range []struct {
		found         Found
		looks, visits int
	}{{Unchanged, 10, probedHints}, {Altered, 2, probedHints + 100}, {Moved, 3, 3 * probedHints}} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := recrawlConfig()
			cfg.Recrawl.Max = 300 * 24 * time.Hour
			l := visitedOnce(t, cfg, polite, 100)
			links, visits, digest := pages("http://h1.test", 0, 100), 0, uint64(1)
			for range tt.looks {
				time.Sleep(10 * time.Minute)
				for i := range links {
					links[i].Modified = time.Now()
				}
				for sitemap := range slices.Chunk(links, 25) {
					must(t, l.hint(context.Background(), "http://h1.test", sitemap))
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
