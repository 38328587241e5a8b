package frontier

import (
	"strings"
	"sync"
	"time"
)

// Change is what happened to a host owned since Changes was called before.
type Change struct {
	// Added are the URLs accepted, and pending URLs that were found less deep than before.
	Added []PendingURL
	// Done are the hashes of URLs that ended. A URL in both is done.
	Done []uint64
	// Pages are those that were visited, as they are since then.
	Pages []PageRecord
	// State says that politeness or robots.txt changed by more than the time of the last request: StateOf reads them.
	State bool
	// Dropped says that the host was given up: what was pending before Added is forgotten.
	Dropped bool
	// Digest is that of the host after the change; without Tracked only its Drops are known.
	Digest  Digest
	Tracked bool
	// Lost says that too much happened to be kept in memory: the host has to be compared as a whole.
	Lost bool
}

func (c *Change) drop() { c.Added, c.Dropped = nil, true }

// Follow adds what happened later.
func (c *Change) Follow(later *Change) {
	if later.Dropped {
		c.drop()
	}
	c.Digest, c.Tracked, c.Lost = later.Digest, later.Tracked, c.Lost || later.Lost
	c.Added = append(c.Added, later.Added...)
	c.Done = append(c.Done, later.Done...)
	c.Pages = append(c.Pages, later.Pages...)
	c.State = c.State || later.State
}

// Memory is about how much it takes, in bytes.
func (c *Change) Memory() int {
	n := 64 + 8*len(c.Done)
	for i := range c.Added {
		n += len(c.Added[i].Path) + pendingCost
	}
	for i := range c.Pages {
		n += c.Pages[i].memory()
	}
	return n
}

// changed notes what the batch does to a host owned.
func (b *batch) changed(host string, note func(*Change)) {
	if b.changes == nil {
		return
	}
	c := b.changes[host]
	if c == nil {
		c = &Change{}
		b.changes[host] = c
	}
	note(c)
}

// feed gathers what was committed until somebody reads it. Its memory is bounded.
type feed struct {
	// mu guards what follows.
	mu    sync.Mutex
	hosts map[string]*Change
	bytes int
}

// maxFeedBytes bounds what the feed keeps: 200,000 URLs as a rule, fewer where they are long.
const maxFeedBytes = 20 << 20

func newFeed() *feed { return &feed{hosts: make(map[string]*Change)} }

// add takes note of a committed batch.
func (f *feed) add(changes map[string]*Change) {
	if len(changes) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for host, c := range changes {
		n := c.Memory()
		old := f.hosts[host]
		if old == nil {
			old = &Change{}
			f.hosts[host] = old
		}
		switch {
		case old.Lost:
		case f.bytes+n > maxFeedBytes:
			f.bytes -= old.Memory()
			*old = Change{Lost: true}
		default:
			for k := range c.Added { // else a URL keeps the page alive that it was found in
				c.Added[k].Path = strings.Clone(c.Added[k].Path)
			}
			for k := range c.Pages {
				c.Pages[k].Path = strings.Clone(c.Pages[k].Path)
			}
			old.Follow(c)
			f.bytes += n
		}
	}
}

// Changes returns what happened to the hosts owned since the last call, by host. It is for one reader; where
// Config.Leases is off there is nothing to read.
func (t *transfers) Changes() map[string]*Change {
	d := t.ledger.feed
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.hosts
	d.hosts, d.bytes = make(map[string]*Change), 0
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
