package crawl

import (
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"proxima/fetch"
	"proxima/frontier/identity"
)

// moved remembers the hosts that redirect all their pages to the other scheme of the same name. Their pages need not be requested one by
// one. A host counts as moved for a while after some redirects without any other answer. It no longer does once one of its pages
// answers otherwise, is redirected back to it, or is missing at the other scheme. The node skips one request for each page that it has
// found at the other scheme: so it misses few pages if it was wrong. It is safe for concurrent use.
type moved struct {
	// mu guards what follows.
	mu    sync.Mutex
	hosts *simplelru.LRU[string, *movedHost]
}

// movedHost is what is known of a host.
type movedHost struct {
	redirects int       // in a row
	stays     bool      // one of its pages has answered otherwise, or was redirected back to it
	since     time.Time // the last redirect
	spared    int       // pages that were not requested
	confirmed int       // pages that were found at the other scheme
}

const (
	// maxMoved bounds how many hosts are remembered.
	maxMoved = 10_000
	// A host counts as moved after movedAfter redirects, for the time movedFor after the last one.
	movedAfter = 3
	movedFor   = time.Hour
)

func newMoved() *moved {
	lru, _ := simplelru.NewLRU[string, *movedHost](maxMoved, nil) // it fails only for a size below one
	return &moved{hosts: lru}
}

// otherScheme returns the https host of the name of an http host, and the other way round. It returns "" for a host with a port: what
// another port serves is not known.
func otherScheme(host string) string {
	u := identity.URL{Host: host}
	switch {
	case u.Name() != u.Authority():
		return ""
	case u.Scheme() == "https":
		return "http://" + u.Name()
	}
	return "https://" + u.Name()
}

// learn notes the answer to a page.
func (m *moved) learn(u identity.URL, res *fetch.Result, rules *identity.Rules, now time.Time) {
	other := otherScheme(u.Host)
	if other == "" || res.Status == 0 || res.Status == http.StatusTooManyRequests || res.Status >= 500 {
		return // the answer says nothing about the host
	}
	target := identity.URL{}
	if redirects(res) {
		target, _ = rules.Resolve(u, res.Location)
	}
	crossed := target == identity.URL{Host: other, Path: u.Path}
	m.mu.Lock()
	defer m.mu.Unlock()
	h, _ := m.hosts.Get(u.Host)
	from, _ := m.hosts.Get(other)
	switch {
	case from == nil:
	case crossed, res.Status >= 400: // its redirect to here is redirected back, or a page of it is missing here
		*from = movedHost{stays: true}
	case res.Status < 300:
		from.confirmed++
	}
	if h == nil {
		h = &movedHost{}
		m.hosts.Add(u.Host, h)
	}
	if !crossed || res.Status != http.StatusMovedPermanently && res.Status != http.StatusPermanentRedirect {
		*h = movedHost{stays: true}
		return
	}
	h.redirects++
	h.since = now
}

// spare returns the URL of a page at the other scheme, if the page need not be requested here.
func (m *moved) spare(u identity.URL) (to identity.URL, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, known := m.hosts.Get(u.Host)
	if !known || h.stays || h.redirects < movedAfter || h.spared >= h.confirmed {
		return identity.URL{}, false
	}
	if time.Since(h.since) > movedFor {
		m.hosts.Remove(u.Host)
		return identity.URL{}, false
	}
	h.spared++
	return identity.URL{Host: otherScheme(u.Host), Path: u.Path}, true
}
