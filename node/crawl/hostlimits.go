package crawl

import (
	"context"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// hostLimits bound the pages of each host and of each registrable domain.
type hostLimits struct {
	perHost, perDomain int64
	// requested returns how many pages of a host were requested before this node met it: in earlier lives, or at other nodes.
	requested func(ctx context.Context, host string) (int64, error)

	// mu guards what follows.
	mu sync.Mutex
	// hosts and domains count pages, including those under way, by the hash of the name. One stays empty if there is no such limit. A host
	// that is not in it is met anew: requested knows all its pages but those under way.
	hosts, domains *simplelru.LRU[uint64, int64]
}

// maxCounted bounds how many hosts and how many domains are counted, those asked about last. Each takes some 100 bytes.
const maxCounted = 1_000_000

func newHostLimits(cfg Config, requested func(context.Context, string) (int64, error)) *hostLimits {
	l := &hostLimits{perHost: cfg.MaxHostPages, perDomain: cfg.MaxDomainPages, requested: requested}
	l.hosts, _ = simplelru.NewLRU[uint64, int64](maxCounted, nil) // it fails only for a size below one
	l.domains, _ = simplelru.NewLRU[uint64, int64](maxCounted, nil)
	return l
}

// admit counts n pages of a task's host and domain: 1 before it is requested, 0 if another node is to do so. If there must be no more pages of
// them, admit returns why.
func (l *hostLimits) admit(ctx context.Context, task *frontier.Task, n int64) (refused string, err error) {
	if !l.concerns(task) {
		return "", nil
	}
	host, domain := siteKeys(task.Host)
	if err := l.meet(ctx, task.Host, host); err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if had, _ := l.hosts.Get(host); l.perHost > 0 && had >= l.perHost {
		return fmt.Sprintf("limit: %d pages a host", l.perHost), nil
	}
	if had, _ := l.domains.Get(domain); l.perDomain > 0 && had >= l.perDomain {
		return fmt.Sprintf("limit: %d pages a domain", l.perDomain), nil
	}
	l.countLocked(host, domain, n)
	return "", nil
}

// meet finds out how many pages of a host were requested before, if that is not known.
func (l *hostLimits) meet(ctx context.Context, name string, host uint64) error {
	l.mu.Lock()
	known := l.hosts.Contains(host)
	l.mu.Unlock()
	if l.perHost == 0 || known {
		return nil
	}
	had, err := l.requested(ctx, name)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.hosts.Contains(host) {
		l.hosts.Add(host, had)
	}
	return nil
}

// count counts n pages: 1 for a page that another node downloaded for this one, -1 for a task that was admitted and did not become a page.
func (l *hostLimits) count(task *frontier.Task, n int64) {
	if !l.concerns(task) {
		return
	}
	host, domain := siteKeys(task.Host)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(host, domain, n)
}

// countLocked adds n pages. Those of an unknown host are counted when it is met.
func (l *hostLimits) countLocked(host, domain uint64, n int64) {
	if had, known := l.hosts.Get(host); known {
		l.hosts.Add(host, max(0, had+n)) // it was met anew while a page was under way if this is below 0
	}
	if l.perDomain > 0 {
		had, _ := l.domains.Get(domain)
		l.domains.Add(domain, max(0, had+n))
	}
}

// forget removes the count of a host that has left or come.
func (l *hostLimits) forget(host string) {
	key, _ := siteKeys(host)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hosts.Remove(key)
}

// concerns reports whether a task counts for its host. A remote fetch does not: it counts at the node that owns the host. A revisit does not:
// its page has counted.
func (l *hostLimits) concerns(task *frontier.Task) bool {
	return l.perHost+l.perDomain > 0 && task.Kind == frontier.Page && task.Page == nil && !task.IsRemoteFetch()
}

func siteKeys(host string) (ofHost, ofDomain uint64) {
	return xxhash.Sum64String(host), xxhash.Sum64String(identity.RegistrableDomain(host))
}
