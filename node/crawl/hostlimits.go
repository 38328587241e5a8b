package crawl

import (
	"context"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

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
	// hosts and domains count pages, including those under way, by the hash of the name. A map stays empty if there is no such limit.
	hosts, domains map[uint64]int64
}

func newHostLimits(cfg Config, requested func(context.Context, string) (int64, error)) *hostLimits {
	return &hostLimits{perHost: cfg.MaxHostPages, perDomain: cfg.MaxDomainPages, requested: requested, hosts: map[uint64]int64{}, domains: map[uint64]int64{}}
}

// full returns why there must be no more pages of a task's host and domain, "" if there may be.
func (l *hostLimits) full(ctx context.Context, task *frontier.Task) (refused string, err error) {
	return l.look(ctx, task, false)
}

// admit counts a page of its host and domain. If there must be no more pages of them, it returns why.
func (l *hostLimits) admit(ctx context.Context, task *frontier.Task) (refused string, err error) {
	return l.look(ctx, task, true)
}

func (l *hostLimits) look(ctx context.Context, task *frontier.Task, count bool) (refused string, err error) {
	if !l.concerns(task) {
		return "", nil
	}
	if l.unknown(task.Host) {
		had, err := l.requested(ctx, task.Host)
		if err != nil {
			return "", err
		}
		l.meet(task.Host, had)
	}
	host, domain := siteKeys(task.Host)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.perHost > 0 && l.hosts[host] >= l.perHost:
		return fmt.Sprintf("limit: %d pages a host", l.perHost), nil
	case l.perDomain > 0 && l.domains[domain] >= l.perDomain:
		return fmt.Sprintf("limit: %d pages a domain", l.perDomain), nil
	case count:
		l.countLocked(host, domain)
	}
	return "", nil
}

// unknown reports whether it is not known yet how many pages of a host were requested before.
func (l *hostLimits) unknown(name string) bool {
	if l.perHost == 0 {
		return false
	}
	host, _ := siteKeys(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.hosts[host]
	return !known
}

// meet sets how many pages of a host were requested before.
func (l *hostLimits) meet(name string, pages int64) {
	host, _ := siteKeys(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.hosts[host]; !known {
		l.hosts[host] = pages
	}
}

// fetched counts a page that another node downloaded for this one. The pages of an unknown host are counted when it is met.
func (l *hostLimits) fetched(task *frontier.Task) {
	if !l.concerns(task) || l.unknown(task.Host) {
		return
	}
	host, domain := siteKeys(task.Host)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(host, domain)
}

func (l *hostLimits) countLocked(host, domain uint64) {
	if l.perHost > 0 {
		l.hosts[host]++
	}
	if l.perDomain > 0 {
		l.domains[domain]++
	}
}

// forget removes the count of a host that has left or come.
func (l *hostLimits) forget(host string) {
	key, _ := siteKeys(host)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hosts, key)
}

// unadmit undoes admit for a task that did not become a page.
func (l *hostLimits) unadmit(task *frontier.Task) {
	if !l.concerns(task) {
		return
	}
	host, domain := siteKeys(task.Host)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts[host] > 0 { // it is 0 if the host has left meanwhile
		l.hosts[host]--
	}
	if l.perDomain > 0 {
		l.domains[domain]--
	}
}

// concerns reports whether a task counts for its host. A remote fetch does not: it counts at the node that owns the host. A revisit does not:
// its page has counted.
func (l *hostLimits) concerns(task *frontier.Task) bool {
	return l.perHost+l.perDomain > 0 && task.Kind == frontier.Page && task.Page == nil && !task.IsRemoteFetch()
}

func siteKeys(host string) (ofHost, ofDomain uint64) {
	return xxhash.Sum64String(host), xxhash.Sum64String(identity.RegistrableDomain(host))
}
