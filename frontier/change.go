package frontier

import (
	"strings"
	"time"
)

// change is what the batch does to a host held as Own.
func (b *batch) change(host string) *Change {
	c := b.changeOf[host]
	if c == nil {
		c = &Change{Host: host}
		if b.changeOf == nil {
			b.changeOf = make(map[string]*Change)
		}
		b.changeOf[host] = c
		b.changes = append(b.changes, c)
	}
	return c
}

// told is what the batch did, for others to keep: it holds on to no page.
func (b *batch) told() []Change {
	out := make([]Change, len(b.changes))
	for i, c := range b.changes {
		for k := range c.Added {
			c.Added[k].Path = strings.Clone(c.Added[k].Path)
		}
		out[i] = *c
	}
	return out
}

// alike says that the politeness of a record is that of s, but for the time of the last request.
func (s *hostState) alike(rec *record) bool {
	return near(s.notBefore, rec.notBefore) && s.crawlDelay == rec.crawlDelay && s.level == rec.level && near(s.robotsUntil, rec.robotsUntil)
}

// near says that two times are one but for what reading them from disk at different times makes.
func near(a, b time.Time) bool { return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < time.Second }

func (e entry) pendingURL() PendingURL {
	return PendingURL{Path: e.path, Sitemap: e.flags&flagSitemap != 0,
		Depth: e.depth, Hops: e.hops}
}

// entryOf is the entry of a pending URL of host.
func (p *PendingURL) entryOf(host string) entry {
	e := entry{path: p.Path, depth: p.Depth, hops: p.Hops}
	if p.Sitemap {
		e.flags |= flagSitemap
	}
	e.hash = e.url(host).Hash()
	return e
}
