package node_test

import (
	"fmt"
	"net/netip"
	"time"

	"proxima/node/netsim"
)

// since is a time since the bed was made.
func (b *bed) since(t time.Time) time.Duration { return t.Sub(b.began).Round(time.Millisecond) }

// judge holds what must hold of every crawl, whatever happens to its nodes: a server answers one request at a time, of
// whatever node, and no page is asked for before the robots.txt of its host.
func (b *bed) judge() {
	b.t.Helper()
	known := map[string]bool{}
	last := map[netip.Addr]netsim.Visit{}
	for _, v := range b.Visits(nil) {
		if v.Path == "/robots.txt" {
			known[v.Site] = true
		} else if !known[v.Site] {
			b.t.Errorf("%s was asked for before the robots.txt of its host", v.URL())
		}
		if l, ok := last[v.Server]; ok && (l.End.IsZero() || v.Start.Before(l.End)) {
			b.t.Errorf("at %v %s asked for %s while %s was answered to %s, from %v to %v", b.since(v.Start), v.From, v.URL(),
				l.URL(), l.From, b.since(l.Start), b.since(l.End))
		}
		last[v.Server] = v
	}
}

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
	for _, v := range pages(b.Visits(netsim.At(site))) {
		if !v.Start.Before(from) {
			n[v.From]++
		}
	}
	return n
}

type visit = netsim.Visit

// pagesOf are the visits of a site's pages.
func (b *bed) pagesOf(site string) []visit { return pages(b.Visits(netsim.At(site))) }
