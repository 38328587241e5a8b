// Package robots decides which paths of a host the host's robots.txt opens to this crawler (RFC 9309). It owns the reading
// of the file, the choice of the group, the normalisation of paths and the meaning of the status code. It does not own the
// download of the file, redirects, caching, or what a Crawl-delay does to the spacing of requests.
//
// The matching is done by github.com/temoto/robotstxt, which alone does not conform: this package hands it one group
// that it has built so that the library's rule, the longest text wins and the first among equals, becomes the RFC's.
// How the two are made equal is told at [compile]. The library gets the same group without its wildcard rules too, for the
// many paths that none of them covers: finding that out costs a twentieth of running their regexps.
//
// Where users of the RFC differ, this package errs on the site's side. A trailing `*` counts nothing towards the length of a
// rule. Percent-encoded unreserved octets are decoded in rules and paths alike (`%62` is `b`), as section 2.2.2 demands;
// but an Allow that holds such needless escapes allows only what it spells, as the public compliance corpus demands. The
// corpus also wants raw octets beyond ASCII in a path to match no rule, since URLs are serialised before they are asked for;
// here they are no way around a Disallow either.
package robots

import (
	"slices"
	"time"

	"github.com/temoto/robotstxt"
)

// Bounds on what a file may cost. They are laws of the package rather than settings: no operator knows a better value, and
// all nodes must read a file alike, since rules travel with their host.
const (
	// MaxBytes is the length in bytes of a robots.txt that is read; the rest is ignored (RFC 9309 section 2.5: at least
	// 500 KiB). It also bounds the rules without wildcards to some 40,000, which take about 0.2 ms a decision.
	MaxBytes = 500 << 10
	// MaxSitemaps is the number of sitemap addresses kept.
	MaxSitemaps = 1000
	// MaxCrawlDelay is the longest delay reported; longer ones are cut to it. A site that writes a week means "rarely",
	// and a host that is asked once an hour is not lost for the crawl.
	MaxCrawlDelay = time.Hour
	// MaxPathBytes is the length in bytes of the longest normalised path that is matched. A longer one is allowed only
	// where no rule applies at all: servers refuse URLs of this length, and the cost of a decision grows with it.
	MaxPathBytes = 8 << 10
)

// Rules are what one robots.txt says to one crawler. They never change: any number of goroutines may use them.
type Rules struct {
	all    *robotstxt.Group // every rule but excess; nil: everything is allowed
	plain  *robotstxt.Group // the rules without wildcards; enough for paths that no wildcard rule covers
	wild   []string         // the wildcard patterns in all, those of Allow rules first
	grants int              // how many of wild are of Allow rules
	excess []string         // wildcard patterns of Disallow rules beyond the budget of all; they win over any Allow
	spelt  []rule           // every rule, the strongest first, where an Allow holds needless escapes; else nil
	closed bool             // nothing but /robots.txt is allowed

	delay    time.Duration
	sitemaps []string
}

// AllowAll returns rules that allow everything: those of a host without robots.txt.
func AllowAll() *Rules { return &Rules{} }

// DisallowAll returns rules that allow nothing but /robots.txt: those of a host whose robots.txt cannot be reached.
func DisallowAll() *Rules { return &Rules{closed: true} }

// Parse reads a robots.txt for the crawler whose product token is agent ("proxima", no version). The groups that name the
// agent are merged; only where there is none do the groups for `*` count (RFC 9309 section 2.2.1). Parse never fails: what
// it cannot read it skips. Of a body longer than MaxBytes it reads the whole lines within MaxBytes, so a caller who cuts the
// body should leave one byte more. It keeps nothing of body.
func Parse(body []byte, agent string) *Rules {
	f := read(body, agent)
	g := f.named
	if !g.seen {
		g = f.others
	}
	r := compile(g.rules)
	r.delay, r.sitemaps = g.delay, f.sitemaps
	return r
}

// Allowed reports whether the path, with "?query" where there is one, may be fetched. The path is taken as the WHATWG URL
// standard serialises it: octets beyond ASCII must be percent-encoded, for raw ones a Disallow counts as if they were, while
// no Allow names them. A missing leading slash is added, and a fragment is dropped. /robots.txt is always allowed (RFC 9309
// section 2.2.2).
func (r *Rules) Allowed(pathAndQuery string) bool {
	if r.all == nil && !r.closed && len(r.excess) == 0 && r.spelt == nil {
		return true
	}
	if len(pathAndQuery) > MaxPathBytes {
		return false // unless it shrinks when decoded, which nobody honest needs
	}
	var buffer [512]byte
	text := string(appendText(buffer[:0], pathAndQuery, false))
	path := text[len(lead):]
	switch {
	case path == robotsPath:
		return true
	case r.closed || len(path) > MaxPathBytes+len(endMark) || !r.matchAllows(text):
		return false
	}
	raw := holdsRaw(pathAndQuery)
	if !raw && r.spelt == nil {
		return true
	}
	// A path with raw octets must be allowed in both forms: encoded, so that it gets around no Disallow, and as written, so
	// that no Allow names it.
	written := string(appendText(buffer[:0], pathAndQuery, true))
	return (!raw || r.matchAllows(written)) && speltAllows(r.spelt, path, written[len(lead):])
}

// matchAllows reports what the library, and what is kept from it, say about a text of appendText.
func (r *Rules) matchAllows(text string) bool {
	path := text[len(lead):]
	switch {
	case anyCovers(r.excess, path):
		return false
	case r.all == nil:
		return true
	case len(path) > maxRegexpPath:
		return !anyCovers(r.wild[r.grants:], path) && r.plain.Test(text)
	case anyCovers(r.wild, path):
		return r.all.Test(text)
	}
	return r.plain.Test(text)
}

// CrawlDelay returns the time that the file asks to leave between two requests, 0 where it asks for none, at most
// MaxCrawlDelay. Where merged groups differ it is the longest. Crawl-delay is no part of RFC 9309.
func (r *Rules) CrawlDelay() time.Duration { return r.delay }

// Sitemaps returns the values of the Sitemap lines, raw and in order, whatever group they stand in; at most MaxSitemaps.
func (r *Rules) Sitemaps() []string { return slices.Clone(r.sitemaps) }
