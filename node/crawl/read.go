package crawl

import (
	"net/http"
	"slices"

	"proxima/fetch"
	"proxima/fetch/page"
	"proxima/fetch/robots"
	"proxima/fetch/sitemap"
	"proxima/fetch/text"
	"proxima/frontier"
	"proxima/frontier/identity"
)

// gather turns what a download refers to into links for the frontier, and drops what is out of scope or blocked.
type gather struct {
	loop  *Loop
	links []frontier.Link
	drops []drop
	page  []page.Link // those of the page as they stand there
	known int         // references that the frontier is known to have
	fresh []reference // those of links, to be remembered once they are on disk
	// What the sink wants of a page: whether it asks not to be kept, its encoding ("" where it is no HTML), and what its
	// links are relative to.
	noindex bool
	charset string
	base    identity.URL
	doc     *text.Document // what it says, once somebody has asked
	last    string         // host asked about last, and the blocklist's answer: most links of a page stay at home
	rule    string
}

// document is what a page says.
func (g *gather) document(body []byte) *text.Document {
	if g.doc == nil {
		doc := text.Extract(body, g.charset)
		g.doc = &doc
	}
	return g.doc
}

// drop counts links by the reason why they are left out. A page has few reasons.
type drop struct {
	reason string
	n      int
}

// gather gives out one that was released before, or a new one.
func (l *Loop) gather() *gather {
	if g, ok := l.spare.Get().(*gather); ok {
		return g
	}
	return &gather{loop: l}
}

// maxSpare bounds what a released gather keeps, in links.
const maxSpare = 1024

// release takes a gather back whose references are no longer needed. Its links may be: others keep them.
func (l *Loop) release(g *gather) {
	if max(cap(g.fresh), cap(g.page)) <= maxSpare {
		clear(g.page) // they lie in a body that others use from now on
		*g = gather{loop: l, page: g.page[:0], fresh: g.fresh[:0], drops: g.drops[:0]}
		l.spare.Put(g)
	}
}

// add resolves a reference and keeps what it leads to.
func (g *gather) add(base identity.URL, ref string, depth, hops uint8, isSitemap bool) {
	u, reason := g.loop.deps.Rules.Resolve(base, ref)
	if reason != identity.Accepted {
		g.drop(reason.String())
		return
	}
	g.keep(frontier.Link{URL: u, Depth: depth, Hops: hops, Sitemap: isSitemap})
}

// keep keeps a link if it belongs to the crawl.
func (g *gather) keep(link frontier.Link) {
	if reason := g.loop.Admit(link); reason != "" {
		g.drop(reason)
		return
	}
	if link.URL.Host != g.last || g.loop.deps.Blocklist.HasPatterns() {
		g.last = link.URL.Host
		g.rule, _ = g.loop.blocked(link.URL)
	}
	if g.rule != "" {
		g.drop("blocked: " + g.rule)
		return
	}
	g.links = append(g.links, link)
}

// addLinks is add for the links of a page, most of which stand on other pages too. First all are hashed, then all are
// looked up: the memory behind the looks is far, and so the processor waits for many of them at once. all adds those that the
// frontier is known to have, too.
func (g *gather) addLinks(base identity.URL, links []page.Link, depth uint8, all bool) {
	refs := slices.Grow(g.fresh[:0], len(links))[:len(links)]
	g.fresh = refs[:0] // shares its memory: what is written there has been looked at
	if all {
		clear(refs)
	} else {
		from := g.loop.known.origin(base)
		for i, link := range links {
			refs[i] = from.reference(link.Ref)
		}
		for i := range refs {
			refs[i].known = refs[i].look()
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
				g.fresh = append(g.fresh, r)
			}
		}
	}
}

func (g *gather) drop(reason string) {
	for i := range g.drops {
		if d := &g.drops[i]; d.reason == reason {
			d.n++
			return
		}
	}
	g.drops = append(g.drops, drop{reason, 1})
}

func next(depth uint8) uint8 { return min(depth, 254) + 1 }

// readPage takes the links of a page, or the target of a redirect, into the outcome. It returns how many references
// it saw.
func (l *Loop) readPage(task *frontier.Task, res *fetch.Result, out *frontier.Outcome, g *gather) (found int) {
	defer func() { out.Links, out.Known = g.links, g.known; l.dropLinks(g.drops) }()
	if res.Location != "" && res.Status >= 300 && res.Status < 400 {
		// A redirect is a link to the same depth: robots.txt, scope and politeness apply to where it leads.
		g.add(task.URL, res.Location, task.Depth, next(task.Hops), false)
		return 1
	}
	if res.Status != http.StatusOK {
		return 0
	}
	agent, parser := l.agent(task.Host), l.deps.Page
	if agent != l.deps.Agent {
		parser = parser.As(agent)
	}
	_, nofollow := page.RobotsTag(res.Header.Values("X-Robots-Tag"), agent)
	if nofollow && l.deps.Sink == nil && !l.deps.Recrawl {
		return 0
	}
	p := parser.Parse(res.Body, res.Header.Get("Content-Type"), g.page)
	g.page, g.noindex, g.charset, g.base = p.Links, p.NoIndex, p.Charset, task.URL
	if p.NotHTML == page.NotHTMLData {
		out.Reason = "binary labelled as HTML"
	}
	if p.Base != "" {
		if u, reason := l.deps.Rules.Resolve(g.base, p.Base); reason == identity.Accepted {
			g.base = u
		}
	}
	if nofollow || p.NoFollow {
		return 0
	}
	if l.near != nil && p.NotHTML == "" && l.near.duplicate(task.URL.String(), g.document(res.Body)) {
		out.Reason = "near-duplicate, its links are not followed"
		l.DropLinks(map[string]int{"near-duplicate page": len(p.Links)})
		return len(p.Links)
	}
	// What this node knows of is not safe at the node that a page is fetched for.
	g.addLinks(g.base, p.Links, next(task.Depth), l.deps.TrackDepth || task.IsRemoteFetch())
	if n := p.LinksDropped + p.RefsDropped; n > 0 {
		l.DropLinks(map[string]int{"too many links on a page": p.LinksDropped, "too long": p.RefsDropped})
	}
	return len(p.Links) + p.LinksDropped
}

// readSitemap takes the URLs of a sitemap, or of its children, into the outcome.
func (l *Loop) readSitemap(task *frontier.Task, res *fetch.Result, out *frontier.Outcome) int {
	g := gather{loop: l}
	defer func() { out.Links = g.links; l.dropLinks(g.drops) }()
	if res.Location != "" && res.Status >= 300 && res.Status < 400 {
		g.add(task.URL, res.Location, task.Depth, next(task.Hops), true)
		return 1
	}
	if res.Status != http.StatusOK {
		return 0
	}
	s, err := sitemap.Parse(res.Body, l.deps.Sitemap)
	if err != nil {
		// What could be read is used all the same; that the rest is broken is said in the line of the download.
		out.Reason = err.Error()
	}
	for i, refs := range [][]string{s.URLs, s.Sitemaps} {
		for _, ref := range refs {
			n := len(g.links)
			g.add(task.URL, ref, next(task.Depth), 0, i == 1)
			if len(g.links) > n {
				g.links[n].Modified = s.Modified[ref]
			}
		}
	}
	return len(s.URLs) + len(s.Sitemaps)
}

// maxRobotsHops is how many redirects of a robots.txt are followed (RFC 9309, section 2.3.1.2).
const maxRobotsHops = 5

// allowAll notes that a host has no robots.txt: 4xx, and redirects without end (RFC 9309, section 2.3.1).
func (l *Loop) allowAll(out *frontier.Outcome, host string) {
	l.robots.put(host, robots.AllowAll(), 0)
	out.Robots = &frontier.RobotsOutcome{Lifetime: l.cfg.RobotsTTL}
}

// readRobots says what the answer to a request for robots.txt means for its host.
func (l *Loop) readRobots(task *frontier.Task, res *fetch.Result, out *frontier.Outcome) {
	if out.Trouble == frontier.Interrupted || out.Trouble == frontier.Unreachable || out.Trouble == frontier.Forbidden {
		return
	}
	if res.Class != "" {
		// A robots.txt that breaks off is unreachable (RFC 9309, section 2.3.1.4): the host waits.
		*out = frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Busy, Asked: true, Elapsed: out.Elapsed,
			Reason: "robots.txt: " + words(string(res.Class))}
		return
	}
	switch robots.Judge(res.Status) {
	case robots.Wait:
		out.Ending, out.Trouble = frontier.Again, frontier.Busy
		out.Reason = "robots.txt: " + out.Reason
	case robots.Unavailable:
		*out = frontier.Outcome{Ending: frontier.Done, Asked: true, Elapsed: out.Elapsed}
		l.allowAll(out, task.Host)
	case robots.Redirect:
		target, reason := l.deps.Rules.Resolve(task.URL, res.Location)
		if res.Location == "" || reason != identity.Accepted || task.Hops >= maxRobotsHops {
			l.allowAll(out, task.Host)
			return
		}
		out.Robots = &frontier.RobotsOutcome{Redirect: &target}
	case robots.Usable:
		// One byte more than is read of it, which tells Parse whether the last line is whole.
		body := append([]byte(nil), res.Body[:min(len(res.Body), robots.MaxBytes+1)]...)
		rules := robots.Parse(body, l.agent(task.Host))
		l.robots.put(task.Host, rules, len(body))
		out.Robots = &frontier.RobotsOutcome{Body: body, Lifetime: l.cfg.RobotsTTL, CrawlDelay: rules.CrawlDelay()}
		if l.cfg.Sitemaps {
			g := gather{loop: l}
			for _, ref := range rules.Sitemaps() {
				g.add(task.URL, ref, 0, 0, true)
			}
			out.Links = g.links
			l.dropLinks(g.drops)
		}
	}
}

// robotsOf returns the rules of a URL's host: from memory, or from the frontier's disk.
func (l *Loop) robotsOf(u identity.URL) (*robots.Rules, error) {
	if r := l.robots.get(u.Host); r != nil {
		return r, nil
	}
	body, err := l.deps.Frontier.RobotsBody(u.Host)
	if err != nil {
		return nil, err
	}
	// An empty body is a file without rules, or none at all: both allow everything.
	rules := robots.Parse(body, l.agent(u.Host))
	l.robots.put(u.Host, rules, len(body))
	return rules, nil
}
