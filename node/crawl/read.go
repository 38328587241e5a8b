package crawl

import (
	"cmp"
	"errors"
	"strings"
	"sync"

	"proxima/fetch"
	"proxima/fetch/page"
	"proxima/fetch/sitemap"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
)

// reader reads bodies. It turns their links into links for the frontier.
type reader struct {
	cfg    Config
	deps   *Deps
	stats  *statistics
	robots *robotsCache
	known  *known
	near   *near     // nil where near-duplicates are followed
	spare  sync.Pool // of *gather
}

func newReader(cfg Config, deps *Deps, stats *statistics) *reader {
	return &reader{cfg: cfg, deps: deps, stats: stats, robots: newRobotsCache(), known: new(known), near: newNear(cfg.NearDuplicates)}
}

// next returns the depth or the number of redirects one step further.
func next(n uint8) uint8 { return min(n, 254) + 1 }

// redirects reports whether an answer leads to another URL.
func redirects(res *fetch.Result) bool {
	return res.Location != "" && res.Status >= 300 && res.Status < 400
}

// read calls parse, and stands a panic in it. A body whose parser panics has no links, and such a robots.txt counts as one that breaks off.
func (r *reader) read(task *frontier.Task, res *fetch.Result, out *frontier.Outcome, g *gather) (found int) {
	before := *out
	err := fetch.Safely(func() { found = r.parse(task, res, out, g) })
	if err == nil {
		return found
	}
	r.warn(task, err)
	*out, *g = before, gather{reader: r}
	out.Reason = err.Error()
	if task.Kind == frontier.Robots {
		*out = brokenRobots(out, err.Error())
	}
	return 0
}

// warn logs what is wrong with a download. The crawl goes on.
func (r *reader) warn(task *frontier.Task, err error) {
	r.deps.RunLog.Events().Warn(runlog.EventWarning, runlog.KeyURL, task.URL.String(), runlog.KeyReason, err.Error())
}

// parse puts what a body says into the outcome, with its links or the target of a redirect. It returns how many references there are.
func (r *reader) parse(task *frontier.Task, res *fetch.Result, out *frontier.Outcome, g *gather) (found int) {
	switch {
	case task.Kind == frontier.Robots:
		r.robotsTxt(task, res, out, g)
	case out.Trouble == frontier.Interrupted:
	case redirects(res):
		// A redirect is a link to the same depth: robots.txt, scope and politeness apply to its target.
		r.widen(task, res.Location)
		g.add(task.URL, res.Location, task.Depth, next(task.Hops), task.Kind == frontier.Sitemap)
		found = 1
	case res.Status/100 != 2:
	default:
		// Of a body that breaks off, what has come is read, as browsers show it: its framing may be wrong each time.
		reason := out.Reason
		listed := false
		if r.readsAsSitemap(task, res) {
			found, listed = r.sitemap(task, res, out, g)
		}
		if !listed {
			found = r.page(task, res, out, g)
		}
		out.Reason = cmp.Or(reason, out.Reason)
	}
	out.Links, out.Known = g.links, g.known
	r.stats.drop(g.drops...)
	return found
}

// widen makes the target of a redirect a seed if a seed of the crawl means it, and it is out of scope.
func (r *reader) widen(task *frontier.Task, target string) {
	if r.deps.Widen == nil || task.Kind != frontier.Page || task.Depth > 0 {
		return
	}
	to, reason := r.deps.Policy.Rules.Resolve(task.URL, target)
	if reason != identity.Accepted || !r.deps.Policy.Rules.Twin(task.URL, to) {
		return
	}
	if err := r.deps.Widen(to); err != nil {
		r.warn(task, err)
	}
}

// maxLinkBytes bounds what the base of a page adds to its links, in bytes: ten thousand links of five bytes below a long base would be
// 20 MB of URLs.
const maxLinkBytes = 4 << 20

// page gathers the links of a page. It returns how many references the page has.
func (r *reader) page(task *frontier.Task, res *fetch.Result, out *frontier.Outcome, g *gather) (found int) {
	agent, limits := r.deps.Policy.agent(task.Host), r.deps.Page
	limits.Agent = agent
	_, nofollow := page.RobotsTag(res.Header.Values("X-Robots-Tag"), agent)
	if nofollow && r.deps.Sink == nil && !r.deps.Recrawl {
		return 0
	}
	g.page, g.base = limits.Parse(res.Body, res.Header.Get("Content-Type"), g.page.Links), task.URL
	p := &g.page
	if p.NotHTML == page.NotHTMLData {
		out.Reason = "binary labelled as HTML"
	}
	if p.Base != "" {
		if u, reason := r.deps.Policy.Rules.Resolve(g.base, p.Base); reason == identity.Accepted {
			g.base = u
		}
	}
	if most := maxLinkBytes / g.base.Len(); len(p.Links) > most {
		p.LinksDropped += len(p.Links) - most
		p.Links = p.Links[:most]
	}
	if nofollow || p.NoFollow {
		return 0
	}
	if r.near != nil && p.NotHTML == "" && r.near.duplicate(task.URL.String(), g.document(res.Body)) {
		out.Reason = "near-duplicate, its links are not followed"
		r.stats.drop(drop{"near-duplicate page", len(p.Links)})
		return len(p.Links)
	}
	if ref := page.Refresh(res.Header.Get("Refresh")); ref != "" {
		found = 1
		g.add(g.base, ref, next(task.Depth), 0, false)
	}
	// A link of a remote fetch must reach the node that asked for the page, even if this node knows the link.
	g.addLinks(g.base, p.Links, next(task.Depth), r.deps.TrackDepth || task.IsRemoteFetch())
	r.stats.drop(drop{"too many links on a page", p.LinksDropped}, drop{"too long", p.RefsDropped})
	return found + len(p.Links) + p.LinksDropped
}

// readsAsSitemap reports whether a body is read as a sitemap: that of a sitemap, and that of a page in XML, which may be one or a feed.
func (r *reader) readsAsSitemap(task *frontier.Task, res *fetch.Result) bool {
	if task.Kind != frontier.Page || res.Status/100 != 2 || !r.cfg.Sitemaps {
		return task.Kind == frontier.Sitemap
	}
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	switch kind = strings.ToLower(strings.TrimSpace(kind)); kind {
	case "application/xml", "text/xml", "application/rss+xml", "application/rdf+xml", "application/atom+xml":
		_, nofollow := page.RobotsTag(res.Header.Values("X-Robots-Tag"), r.deps.Policy.agent(task.Host))
		return !nofollow
	}
	return false
}

// sitemap gathers the URLs of a sitemap, and those of its child sitemaps. It returns how many there are. listed is false for what is no
// sitemap: XML of another kind, or a page of HTML, which some sites name as their sitemap.
func (r *reader) sitemap(task *frontier.Task, res *fetch.Result, out *frontier.Outcome, g *gather) (found int, listed bool) {
	s, err := sitemap.Parse(res.Body, r.deps.Sitemap)
	if errors.Is(err, sitemap.ErrFormat) && (task.Kind == frontier.Page || page.IsHTML(res.Header.Get("Content-Type"), res.Body)) {
		return 0, false
	}
	if err != nil {
		// The URLs before the error are used all the same. The log tells of the error.
		out.Reason = err.Error()
	} else if s.Truncated {
		out.Reason = "sitemap is too large, its rest is not read"
	}
	r.stats.drop(drop{"too long", s.RefsDropped})
	for i, refs := range [][]string{s.URLs, s.Sitemaps} {
		for _, ref := range refs {
			n := len(g.links)
			g.add(task.URL, ref, next(task.Depth), 0, i == 1)
			if len(g.links) > n {
				g.links[n].Modified = s.Modified[ref]
			}
		}
	}
	return len(s.URLs) + len(s.Sitemaps), true
}
