// Package robots decides which paths a host's robots.txt opens to this crawler (RFC 9309). It owns parsing the file, the choice of
// the group, the normal form of paths and the meaning of the status code. It does not own the download of the file, redirects,
// caching, or how a Crawl-delay spaces requests.
//
// The package parses the file itself, because github.com/temoto/robotstxt rejects a whole file for one bad line and takes a group
// for "foo" as one for "foobot". Where all rules for this crawler are plain prefixes, that library matches them. It does not anchor
// wildcards at the start of a path and ranks them by the length of a regular expression, so files with wildcards are matched here,
// in time linear in the rules and the path.
//
// Where readers of the RFC differ, this package errs on the site's side. A trailing `*` adds nothing to the length of a rule.
// Percent-encoded unreserved octets are decoded in rules and paths alike (`%62` is `b`), as section 2.2.2 demands; but an Allow
// with such needless escapes allows only what it spells, as the public compliance corpus demands. The corpus also wants raw octets
// beyond ASCII in a path to match no rule, since URLs are serialised before a request; here they do not evade a Disallow either.
package robots

import (
	"slices"
	"strings"
	"time"

	"github.com/temoto/robotstxt"
)

// Bounds on what a file may cost. They cannot be configured: rules travel with their host, so all nodes must read a file alike.
const (
	// MaxBytes is how many bytes of a robots.txt are read; the rest is ignored (RFC 9309 section 2.5: at least 500 KiB). It limits
	// the rules to some 40,000.
	MaxBytes = 500 << 10
	// MaxSitemaps is the number of sitemap addresses kept.
	MaxSitemaps = 1000
	// MaxCrawlDelay caps the reported delay. A site that asks for a week means "rarely", and a host that is asked once an hour is
	// not lost for the crawl.
	MaxCrawlDelay = time.Hour
	// MaxPathBytes is the length of the longest path that is matched, before and after normalisation. A longer one is allowed only
	// if there are no rules: servers refuse such URLs, and the cost of a decision grows with them.
	MaxPathBytes = 8 << 10
)

// Rules are what one robots.txt says to one crawler. They never change, so they are safe for concurrent use.
type Rules struct {
	rules []rule           // the strongest first; nil if group decides
	group *robotstxt.Group // the rules if all are plain prefixes, else nil
	spelt bool             // some Allow has needless escapes

	delay    time.Duration
	sitemaps []string
}

// AllowAll returns rules that allow everything: those of a host without robots.txt.
func AllowAll() *Rules { return &Rules{} }

// Parse reads a robots.txt for the crawler whose product token is agent ("proxima", no version). It merges the groups that name
// the agent; if there are none, the groups for `*` count (RFC 9309 section 2.2.1). Parse never fails: it skips what it cannot read.
// Of a body longer than MaxBytes it reads the whole lines within MaxBytes, so a caller who cuts the body should leave one more byte.
// It keeps nothing of body.
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

// plainGroup makes a group of the library from the rules, nil unless all are plain prefixes. The library obeys the longest rule
// that matches, and among equals the first, so ranked rules keep their meaning.
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

// Allowed reports whether a path, with its "?query" if any, may be fetched. The path should be serialised as in the WHATWG URL
// standard, with octets beyond ASCII percent-encoded. If they are raw, a Disallow still covers them, but no Allow does. Allowed
// adds a missing leading slash and drops a fragment. /robots.txt is always allowed (RFC 9309 section 2.2.2).
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
	// A path with raw octets must be allowed in both forms: encoded, so that it evades no Disallow, and as written, so that no
	// Allow covers it.
	return r.allows(decoded, written) && (!raw || r.allows(written, written))
}

// allows reports what the rules say about a path in normal form. It needs written only if some rule is spelt.
func (r *Rules) allows(path, written string) bool {
	if r.group != nil {
		return r.group.Test(path)
	}
	return verdict(r.rules, path, written)
}

// CrawlDelay returns the time that the file wants between two requests, 0 for none, at most MaxCrawlDelay. Of several lines for
// this agent the longest counts. Crawl-delay is not part of RFC 9309.
func (r *Rules) CrawlDelay() time.Duration { return r.delay }

// Sitemaps returns the raw values of the Sitemap lines of all groups in order, at most MaxSitemaps.
func (r *Rules) Sitemaps() []string { return slices.Clone(r.sitemaps) }

// Verdict is what the HTTP status of a robots.txt means for the host (RFC 9309 section 2.3.1).
type Verdict uint8

const (
	// Wait: the file cannot be reached now, and nothing may be fetched before a later attempt (section 2.3.1.4).
	Wait Verdict = iota
	// Usable: the body is the file.
	Usable
	// Redirect: the file is elsewhere; after five redirects it counts as unavailable (section 2.3.1.2).
	Redirect
	// Unavailable: there is no file, and everything is allowed (section 2.3.1.3).
	Unavailable
)

// Judge returns the verdict on a status code. 408, 429 and codes that HTTP does not know mean Wait, which the RFC leaves open.
func Judge(status int) Verdict {
	switch {
	case status >= 200 && status < 300:
		return Usable
	case status >= 300 && status < 400:
		return Redirect
	case status >= 400 && status < 500 && status != 408 && status != 429:
		return Unavailable
	}
	return Wait
}
