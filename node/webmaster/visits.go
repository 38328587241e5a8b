package webmaster

import (
	"strings"
	"sync"
	"time"
)

const (
	// mostVisits is how many requests to all sites are remembered, mostTold how many to one site are shown.
	mostVisits, mostTold = 20_000, 20
	// maxPath is how many bytes of a URL are remembered.
	maxPath = 200
)

// Visit is a request to a site.
type Visit struct {
	At     time.Time
	URL    string
	Status int // 0 if there was no answer

	name string // of the host
}

// visits holds the latest requests to all sites.
type visits struct {
	// mu guards the fields below.
	mu   sync.Mutex
	ring []Visit
	next int
}

// Visited records a request to a host name.
func (d *Door) Visited(name, url string, status int) {
	v := &d.visits
	if len(url) > maxPath {
		url = strings.ToValidUTF8(url[:maxPath], "") + "…"
	}
	one := Visit{At: time.Now().UTC(), URL: strings.Clone(url), Status: status, name: strings.Clone(name)}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.ring) < mostVisits {
		v.ring = append(v.ring, one)
		return
	}
	v.ring[v.next] = one
	v.next = (v.next + 1) % mostVisits
}

// of returns the latest requests to a host and its subdomains, the newest first.
func (v *visits) of(host string) (found []Visit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.ring {
		one := v.ring[(v.next+len(v.ring)-1-i)%len(v.ring)]
		if one.name == host || strings.HasSuffix(one.name, "."+host) {
			if found = append(found, one); len(found) == mostTold {
				break
			}
		}
	}
	return found
}
