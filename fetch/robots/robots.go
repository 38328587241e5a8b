// Package robots decides which paths of a host the host's robots.txt opens to this crawler (RFC 9309). It owns the reading
// of the file, the choice of the group, the normal form of paths and the meaning of the status code. It does not own the
// download of the file, redirects, caching, or what a Crawl-delay does to the spacing of requests.
//
// The file is read here, because github.com/temoto/robotstxt gives up a whole file for one bad line and takes a group for
// "foo" as one for "foobot". That library then matches where it conforms: files whose rules for this crawler are plain
// prefixes. It does not tie wildcards to the start of a path, and measures them by the length of a regular expression, so
// files that have them are matched here, in time linear in the rules and the path.
//
// Where users of the RFC differ, this package errs on the site's side. A trailing `*` counts nothing towards the length of a
// rule. Percent-encoded unreserved octets are decoded in rules and paths alike (`%62` is `b`), as section 2.2.2 demands;
// but an Allow with such needless escapes allows only what it spells, as the public compliance corpus demands. The corpus
// also wants raw octets beyond ASCII in a path to match no rule, since URLs are serialised before they are asked for; here
// they are no way around a Disallow either.
package robots

import (
	"slices"
	"strings"
	"time"

	"github.com/temoto/robotstxt"
)

// Bounds on what a file may cost. They are no settings: all nodes must read a file alike, since rules travel with their host.
const (
	// MaxBytes is the length in bytes of a robots.txt that is read; the rest is ignored (RFC 9309 section 2.5: at least
	// 500 KiB). It also bounds the rules to some 40,000.
	MaxBytes = 500 << 10
	// MaxSitemaps is the number of sitemap addresses kept.
	MaxSitemaps = 1000
	// MaxCrawlDelay is the longest delay reported; longer ones are cut to it. A site that writes a week means "rarely",
	// and a host that is asked once an hour is not lost for the crawl.
	MaxCrawlDelay = time.Hour
	// MaxPathBytes is the length in bytes of the longest path that is matched, before and after it is normalised. A longer
	// one is allowed only where there are no rules: servers refuse such URLs, and the cost of a decision grows with them.
	MaxPathBytes = 8 << 10
)

// Rules are what one robots.txt says to one crawler. They never change: any number of goroutines may use them.
type Rules struct {
	rules []rule           // the strongest first; nil where group decides
	group *robotstxt.Group // the rules, if all are plain prefixes; else nil
	spelt bool             // there is an Allow with needless escapes

	delay    time.Duration
	sitemaps []string
}

// AllowAll returns rules that allow everything: those of a host without robots.txt.
func AllowAll() *Rules { return &Rules{} }

// Parse reads a robots.txt for the crawler whose product token is agent ("proxima", no version). The groups that name the
// agent are merged; only where there is none do the groups for `*` count (RFC 9309 section 2.2.1). Parse never fails: what
// it cannot read it skips. Of a body longer than MaxBytes it reads the whole lines within MaxBytes, so a caller who cuts the
// body should leave one byte more. It keeps nothing of body.
func Parse(body []byte, agent string) *Rules {
	f := read(body, agent)
	g := f.everybody
	if f.named.seen {
		g = f.named
	}
	r := &Rules{rules: ranked(g.rules), delay: g.delay, sitemaps: f.sitemaps}
	r.spelt = slices.ContainsFunc(r.rules, func(l rule) bool { return l.written != "" })
	if group := plainGroup(r.rules); group != nil {
		r.rules, r.group = nil, group
	}
	return r
}

// plainGroup has the library read the rules as a group of its own. It returns nil unless all are plain prefixes. The library
// takes the longest rule that matches, and the first among equals, so Allow rules must come first.
func plainGroup(rules []rule) *robotstxt.Group {
	var b strings.Builder
	b.WriteString("user-agent: *\n")
	for _, l := range rules {
		if !l.plain() {
			return nil
		}
		if l.allow {
			b.WriteString("allow: ")
		} else {
			b.WriteString("disallow: ")
		}
		b.WriteString(l.pattern)
		b.WriteByte('\n')
	}
	data, err := robotstxt.FromString(b.String())
	if err != nil || len(rules) == 0 {
		return nil
	}
	return data.FindGroup("*")
}

// Allowed reports whether the path, with "?query" where there is one, may be fetched. The path is taken as the WHATWG URL
// standard serialises it: octets beyond ASCII must be percent-encoded, for raw ones a Disallow counts as if they were, while
// no Allow names them. A missing leading slash is added, and a fragment is dropped. /robots.txt is always allowed (RFC 9309
// section 2.2.2).
func (r *Rules) Allowed(pathAndQuery string) bool {
	if len(r.rules) == 0 && r.group == nil {
		return true
	}
	if len(pathAndQuery) > MaxPathBytes {
		return false
	}
	path, _, _ := strings.Cut(pathAndQuery, "#")
	decoded := normalPath(path, false)
	switch {
	case decoded == robotsPath:
		return true
	case len(decoded) > MaxPathBytes+len(end):
		return false
	}
	raw := strings.ContainsFunc(path, func(c rune) bool { return c >= 0x80 })
	written := ""
	if raw || r.spelt {
		written = normalPath(path, true)
	}
	// A path with raw octets must be allowed in both forms: encoded, so that it gets around no Disallow, and as written, so
	// that no Allow names it.
	return r.allows(decoded, written) && (!raw || r.allows(written, written))
}

// allows reports what the rules say about a path in normal form. written is needed only where rules are spelt.
func (r *Rules) allows(path, written string) bool {
	if r.group != nil {
		return r.group.Test(path)
	}
	return verdict(r.rules, path, written)
}

// CrawlDelay returns the time that the file asks to leave between two requests, 0 where it asks for none, at most
// MaxCrawlDelay. It belongs to the agents named just above it; where several lines are for this one, the longest counts.
// Crawl-delay is no part of RFC 9309.
func (r *Rules) CrawlDelay() time.Duration { return r.delay }

// Sitemaps returns the values of the Sitemap lines, raw and in order, whatever group they stand in; at most MaxSitemaps.
func (r *Rules) Sitemaps() []string { return slices.Clone(r.sitemaps) }
