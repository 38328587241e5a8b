package crawl

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"proxima/fetch/page"
	"proxima/fetch/text"
	"proxima/frontier"
	"proxima/frontier/identity"
)

// gather collects what one body refers to. It turns references into links for the frontier, and drops those that are out of scope
// or blocked.
type gather struct {
	reader *reader
	links  []frontier.Link
	drops  []drop
	page   page.Page      // with the links as they stand on it; of what is not HTML it is empty
	known  int            // how many references were left out because the frontier has their URLs for certain
	fresh  []reference    // those of links, to be remembered (known) once the links are on disk
	base   identity.URL   // what the links of page are relative to
	doc    *text.Document // nil until document is called
}

// gather returns an empty gather, which may be used a second time.
func (r *reader) gather() *gather {
	if g, ok := r.spare.Get().(*gather); ok {
		return g
	}
	return &gather{reader: r}
}

// maxSpare bounds the memory of a released gather, in links.
const maxSpare = 1024

// release makes a gather available again. Its references must no longer be used. Its links may be.
func (r *reader) release(g *gather) {
	if max(cap(g.fresh), cap(g.page.Links)) <= maxSpare {
		clear(g.page.Links) // they point into a body whose memory is used again
		*g = gather{reader: r, page: page.Page{Links: g.page.Links[:0]}, fresh: g.fresh[:0], drops: g.drops[:0]}
		r.spare.Put(g)
	}
}

// document returns the text of the page. The first call extracts it.
func (g *gather) document(body []byte) *text.Document {
	if g.doc == nil {
		doc := text.Extract(body, g.page.Charset, g.page.XML)
		g.doc = &doc
	}
	return g.doc
}

// add resolves a reference and keeps the link, or counts why it is left out.
func (g *gather) add(base identity.URL, ref string, depth, hops uint8, isSitemap bool) {
	u, reason := g.reader.deps.Policy.Rules.Resolve(base, ref)
	if reason != identity.Accepted {
		g.drop(string(reason))
		return
	}
	g.keep(frontier.Link{URL: u, Depth: depth, Hops: hops, Sitemap: isSitemap})
}

// keep adds a link, or counts why it does not belong to the crawl.
func (g *gather) keep(link frontier.Link) {
	if reason := g.reader.deps.Policy.Refuse(link); reason != "" {
		g.drop(reason)
		return
	}
	g.links = append(g.links, link)
}

// addLinks adds the links of a page. It skips those that the frontier has for certain, unless all is set. It computes all hashes before
// it looks any of them up: the processor then waits for many distant places of memory at once.
func (g *gather) addLinks(base identity.URL, links []page.Link, depth uint8, all bool) {
	refs := slices.Grow(g.fresh[:0], len(links))[:len(links)]
	g.fresh = refs[:0] // overwrites only references that the loop below has read
	if all {
		clear(refs)
	} else {
		from := g.reader.known.origin(base)
		for i, link := range links {
			refs[i] = from.reference(link.Ref)
		}
		for i := range refs {
			refs[i].known = refs[i].isKnown()
		}
	}
	for i, link := range links {
		switch r := refs[i]; {
		case link.NoFollow:
			g.drop("nofollow")
		case r.known:
			g.known++
		default:
			n := len(g.links)
			g.add(base, string(link.Ref), depth, 0, false)
			if r.shelf != nil && len(g.links) > n {
				r.host = xxhash.Sum64String(g.links[n].URL.Host)
				g.fresh = append(g.fresh, r)
			}
		}
	}
}

// remember remembers references, except those to hosts that have refused links: these may be taken later. It is called once the others are on disk.
func remember(fresh []reference, refusing []string) {
	hosts := make([]uint64, len(refusing))
	for i, host := range refusing {
		hosts[i] = xxhash.Sum64String(host)
	}
	for i := range fresh {
		if !slices.Contains(hosts, fresh[i].host) {
			fresh[i].remember()
		}
	}
}

// drop counts links that are left out, by reason. A list is shorter than a map here: a page has few reasons.
type drop struct {
	reason string
	n      int
}

// drop counts a link that is left out.
func (g *gather) drop(reason string) {
	for i := range g.drops {
		if d := &g.drops[i]; d.reason == reason {
			d.n++
			return
		}
	}
	g.drops = append(g.drops, drop{reason, 1})
}
