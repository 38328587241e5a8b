package node_test

import (
	"fmt"
	"time"
)

// since is a time since the bed was made.
func (b *bed) since(t time.Time) time.Duration { return t.Sub(b.began).Round(time.Millisecond) }

// got are the pages that were downloaded, with how often; robots.txt files are none.
func (b *bed) got() map[string]int {
	n := map[string]int{}
	for _, v := range pages(b.Visits(nil)) {
		n[v.Site+v.Path]++
	}
	return n
}

// complete complains about pages that were not downloaded, or more often than once where nothing was killed. It returns how many came again.
func (b *bed) complete(pages int, repeats bool) (again int) {
	b.t.Helper()
	got, missing := b.got(), 0
	example := ""
	for _, site := range b.sites {
		for _, path := range append(numbered(pages), "/") {
			switch n := got[site+path]; {
			case n == 0:
				missing++
				example = fmt.Sprintf("%s%s is missing", site, path)
			case n > 1:
				again += n - 1
				example = fmt.Sprintf("%s%s came %d times", site, path, n)
			}
		}
	}
	if missing > 0 || again > 0 && !repeats {
		b.t.Errorf("%d pages are missing, %d came again: %s", missing, again, example)
	}
	return again
}

// by counts the pages of a site by the node that asked, from a time on.
func (b *bed) by(site string, from time.Time) map[string]int {
	n := map[string]int{}
	for _, v := range pages(b.Visits(At(site))) {
		if !v.Start.Before(from) {
			n[v.From]++
		}
	}
	return n
}

// pagesOf are the visits of a site's pages.
func (b *bed) pagesOf(site string) []Visit { return pages(b.Visits(At(site))) }

// longestPause is the longest time without a request for a page of a site, from a time until its last one.
func (b *bed) longestPause(site string, from time.Time) (longest time.Duration) {
	for _, v := range b.pagesOf(site) {
		if v.Start.After(from) {
			longest, from = max(longest, v.Start.Sub(from)), v.Start
		}
	}
	return longest
}
