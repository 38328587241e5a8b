package crawl

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// limits say what a crawl may still ask for. A page has a place from before its task is taken until it is known whether it counts:
// so the limits of pages are never exceeded, however many downloads are under way. Where the limits are those of a whole overlay, it is
// told how many pages this node may ask for, and when the crawl is over.
type limits struct {
	cfg    Config
	shared bool

	// mu guards what follows.
	mu sync.Mutex
	// allowed is how many pages may count. pages are those that do, places those that may; of these, begun have a task.
	allowed, pages, places, begun int64
	bytes                         int64
	reached                       string        // the key of the limit that is reached
	freed                         chan struct{} // closed when a place becomes free that somebody waits for
	enough                        chan struct{} // closed when a limit is reached
	// hosts and domains count pages, those under way included, by the hash of the name. They are empty without such limits.
	hosts, domains map[uint64]int64
}

func newLimits(cfg Config, shared bool) *limits {
	allowed := cfg.MaxPages
	switch {
	case allowed == 0:
		allowed = math.MaxInt64
	case shared:
		allowed = 0
	}
	return &limits{cfg: cfg, shared: shared, allowed: allowed, freed: make(chan struct{}), enough: make(chan struct{}), hosts: map[uint64]int64{}, domains: map[uint64]int64{}}
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
	if l.reached != "" || l.pages+l.places >= l.allowed {
		return false, l.freed
	}
	l.places++
	return true, nil
}

// join takes a place for a task that is there already: begin says whether it may be carried out.
func (l *limits) join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places++
}

// begin says whether a task that has a place may be carried out. It may have one too many, or the place was withdrawn meanwhile.
func (l *limits) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pages+l.begun >= l.allowed {
		return false
	}
	l.begun++
	return true
}

// giveBack ends a place, and what began there. If no page was made of it, it is free again.
func (l *limits) giveBack(begun, page bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places--
	if begun {
		l.begun--
	}
	if page {
		l.pages++
	} else if l.cfg.MaxPages > 0 {
		l.wakeLocked()
	}
	if page && !l.shared && l.pages == l.cfg.MaxPages {
		l.endLocked("max_pages")
	}
}

func (l *limits) wakeLocked() {
	close(l.freed)
	l.freed = make(chan struct{})
}

// received counts bytes of bodies.
func (l *limits) received(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes += bytes; l.cfg.MaxBytes > 0 && !l.shared && l.bytes >= l.cfg.MaxBytes {
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

// strange says that nothing is known of the pages of a task's host that other nodes asked for, before it came here.
func (l *limits) strange(task *frontier.Task) bool {
	if !l.shared || l.cfg.MaxHostPages == 0 || !l.concerns(task) {
		return false
	}
	host, _ := siteKeys(task.Host)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.hosts[host]
	return !known
}

// meet says how many pages of a host were asked for before it came here.
func (l *limits) meet(name string, pages int64) {
	host, _ := siteKeys(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.hosts[host]; !known {
		l.hosts[host] = pages
	}
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
	l.countLocked(host, domain)
	return ""
}

// fetched counts a page that another node downloaded for this one.
func (l *limits) fetched(task *frontier.Task) {
	if !l.concerns(task) || l.strange(task) { // who is strange is counted when it is met
		return
	}
	host, domain := siteKeys(task.Host)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLocked(host, domain)
}

func (l *limits) countLocked(host, domain uint64) {
	if l.cfg.MaxHostPages > 0 {
		l.hosts[host]++
	}
	if l.cfg.MaxDomainPages > 0 {
		l.domains[domain]++
	}
}

// forget forgets a host that has left or come.
func (l *limits) forget(host string) {
	key, _ := siteKeys(host)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.hosts, key)
}

// unadmit takes an admission back that did not become a page.
func (l *limits) unadmit(task *frontier.Task) {
	if !l.concerns(task) {
		return
	}
	host, domain := siteKeys(task.Host)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts[host] > 0 { // else the host has left meanwhile
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

// The limits of a whole overlay.

// wantsBelow is how many more pages a node may ask for when it wants more: it should have them before it waits.
const wantsBelow = 100

// Spent returns how many pages and bytes count at this node; wants says that it can use more pages than it may ask for.
func (l *Loop) Spent() (pages, bytes int64, wants bool) {
	idle, _ := l.deps.Frontier.Idle(l.live.Load().Patience)
	s := l.limits
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages, s.bytes, !idle && s.reached == "" && s.allowed-s.pages-s.begun < wantsBelow
}

// Allow says how many pages this node may ask for in all. It must not be called while Withdraw is.
func (l *Loop) Allow(pages int64) {
	s := l.limits
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = max(pages, s.pages+s.begun)
	s.wakeLocked()
}

// Withdraw takes back the pages that this node may ask for and has not begun to, and returns how many they are.
func (l *Loop) Withdraw() int64 {
	s := l.limits
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.allowed - s.pages - s.begun
	s.allowed -= n
	return n
}

// End ends the crawl, as a limit of the overlay is reached.
func (l *Loop) End(limit string) { l.limits.end(limit) }

// admit counts a page of its host and domain, or says why there must be no more of them.
func (l *Loop) admit(ctx context.Context, task *frontier.Task) (refused string, err error) {
	if l.limits.strange(task) {
		had, err := l.deps.Frontier.DigestOf(ctx, task.Host)
		if err != nil {
			return "", err
		}
		l.limits.meet(task.Host, int64(had.Done))
	}
	return l.limits.admit(task), nil
}
