package crawl

import (
	"context"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// limits say what a crawl may still ask for. A page has a place from before its task is taken until it is known whether it counts:
// so the limits of pages are never exceeded, however many downloads are under way.
type limits struct {
	cfg Config

	// mu guards what follows.
	mu sync.Mutex
	// pages are those that count, places those that are under way.
	pages, places int64
	bytes         int64
	reached       string        // the key of the limit that is reached
	freed         chan struct{} // closed when a place becomes free that somebody waits for
	enough        chan struct{} // closed when a limit is reached
	// hosts and domains count pages, those under way included, by the hash of the name. They are empty without such limits.
	hosts, domains map[uint64]int64
}

func newLimits(cfg Config) *limits {
	return &limits{cfg: cfg, freed: make(chan struct{}), enough: make(chan struct{}), hosts: map[uint64]int64{}, domains: map[uint64]int64{}}
}

// sated says that a limit is reached: nothing more may be asked for.
func (l *limits) sated() bool {
	select {
	case <-l.enough:
		return true
	default:
		return false
	}
}

// reserve takes a place, and waits for one where all are taken. It is false when there will be none.
func (l *limits) reserve(ctx context.Context) bool {
	for {
		ok, freed := l.try()
		if ok {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-l.enough:
			return false
		case <-freed:
		}
	}
}

// try takes a place if there is one now; else it returns what is closed when there may be.
func (l *limits) try() (ok bool, freed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reached != "" || l.cfg.MaxPages > 0 && l.pages+l.places >= l.cfg.MaxPages {
		return false, l.freed
	}
	l.places++
	return true, nil
}

// giveBack ends a place: a page was made of it, or it is free again.
func (l *limits) giveBack(page bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places--
	if page {
		l.pages++
		if l.pages == l.cfg.MaxPages {
			l.endLocked("max_pages")
		}
		return
	}
	if l.cfg.MaxPages > 0 {
		close(l.freed)
		l.freed = make(chan struct{})
	}
}

// received counts bytes of bodies.
func (l *limits) received(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes += bytes; l.cfg.MaxBytes > 0 && l.bytes >= l.cfg.MaxBytes {
		l.endLocked("max_bytes")
	}
}

// end says that a limit is reached.
func (l *limits) end(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(key)
}

func (l *limits) endLocked(key string) {
	if l.reached == "" {
		l.reached = key
		close(l.enough)
	}
}

// why is the key of the limit that ended the crawl, "" where none did.
func (l *limits) why() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reached
}

// admit counts a page of its host and domain, or says why there must be no more of them.
func (l *limits) admit(task *frontier.Task) (refused string) {
	if !l.concerns(task) {
		return ""
	}
	host, domain := siteKeys(task.Host)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.cfg.MaxHostPages > 0 && l.hosts[host] >= l.cfg.MaxHostPages:
		return fmt.Sprintf("limit: %d pages a host", l.cfg.MaxHostPages)
	case l.cfg.MaxDomainPages > 0 && l.domains[domain] >= l.cfg.MaxDomainPages:
		return fmt.Sprintf("limit: %d pages a domain", l.cfg.MaxDomainPages)
	}
	if l.cfg.MaxHostPages > 0 {
		l.hosts[host]++
	}
	if l.cfg.MaxDomainPages > 0 {
		l.domains[domain]++
	}
	return ""
}

// unadmit takes an admission back that did not become a page.
func (l *limits) unadmit(task *frontier.Task) {
	if !l.concerns(task) {
		return
	}
	host, domain := siteKeys(task.Host)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cfg.MaxHostPages > 0 {
		l.hosts[host]--
	}
	if l.cfg.MaxDomainPages > 0 {
		l.domains[domain]--
	}
}

// concerns says that a task counts for its host: the pages of remote fetches count at the node that owns the host.
func (l *limits) concerns(task *frontier.Task) bool {
	return l.cfg.MaxHostPages+l.cfg.MaxDomainPages > 0 && task.Kind == frontier.Page && !task.IsRemoteFetch()
}

func siteKeys(host string) (ofHost, ofDomain uint64) {
	return xxhash.Sum64String(host), xxhash.Sum64String(identity.RegistrableDomain(host))
}
