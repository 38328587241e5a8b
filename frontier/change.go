package frontier

import (
	"slices"
	"strings"
	"sync"

	"proxima/frontier/identity"
)

// Change is what happened to an owned host since the last call of Changes.
type Change struct {
	// Added are the accepted URLs, and pending URLs that were found at a smaller depth.
	Added []PendingURL
	// Done are the hashes of URLs that ended. A URL in both is done.
	Done []uint64
	// Pages are the records of pages after their visits.
	Pages []PageRecord
	// State says that more than the time of the last request has changed of politeness or robots.txt. StateOf reads them.
	State bool
	// Dropped says that the host was given up. The URLs that were pending before Added are forgotten.
	Dropped bool
	// Digest is that of the host after the change. Without Tracked only its Drops are known.
	Digest  Digest
	Tracked bool
	// Lost says that there was too much to be kept in memory. The host must be compared as a whole.
	Lost bool
}

func (c *Change) drop() { c.Added, c.Dropped = nil, true }

// Follow adds a later change.
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

// Memory estimates the memory of the change, in bytes.
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

// changed notes what the batch does to an owned host.
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

// feed gathers the changes of committed batches until Changes reads them. Its memory is bounded.
type feed struct {
	// mu guards what follows.
	mu    sync.Mutex
	hosts map[string]*Change
	bytes int
}

// maxFeedBytes bounds the memory of the feed. It usually holds 200,000 URLs, fewer if they are long.
const maxFeedBytes = 20 << 20

func newFeed() *feed { return &feed{hosts: make(map[string]*Change)} }

// add adds the changes of a committed batch.
func (f *feed) add(changes map[string]*Change) {
	if len(changes) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for host, c := range changes {
		n := c.Memory()
		old, known := f.hosts[host]
		if !known {
			old = &Change{}
			f.hosts[host] = old
		}
		switch {
		case old.Lost:
		case f.bytes+n > maxFeedBytes:
			if known {
				f.bytes -= old.Memory()
			}
			*old = Change{Lost: true}
		default:
			for k := range c.Added { // else a URL keeps the text of its page in memory
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

// Changes returns what happened to the owned hosts since the last call, by host. It is for one reader. Without Config.Shared it returns
// nil.
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

// Untold reports whether the next call of Changes tells that a URL was accepted, or may have forgotten that.
func (t *transfers) Untold(u identity.URL) bool {
	d := t.ledger.feed
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.hosts[u.Host]
	return c != nil && (c.Lost || slices.ContainsFunc(c.Added, func(p PendingURL) bool { return p.Path == u.Path }))
}
