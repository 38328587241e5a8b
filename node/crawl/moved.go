package crawl

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"proxima/fetch"
	"proxima/frontier"
	"proxima/frontier/identity"
)

// moved knows the hosts that redirect all their pages to the other scheme of the same name, and so need not be asked page by page. A host is
// believed after some redirects without any other answer, and for a while; one page that is sent back, is there, or is not at the other
// scheme, ends that. Each page that is there lets one be spared, so few are missed where the host was believed wrongly.
// Safe for concurrent use.
type moved struct {
	// mu guards what follows.
	mu    sync.Mutex
	hosts *simplelru.LRU[string, *movedHost]
}

// movedHost is what is known of a host.
type movedHost struct {
	redirects int       // in a row, none of its pages having answered otherwise
	stays     bool      // a page of it has answered otherwise, or was sent back to it
	since     time.Time // when the last redirect was seen
	spared    int       // pages that were not asked for
	confirmed int       // pages that were there at the other scheme
}

const (
	// maxMoved bounds the hosts that are remembered.
	maxMoved = 10_000
	// movedAfter is after how many redirects a host is believed, and movedFor for how long.
	movedAfter = 3
	movedFor   = time.Hour
)

func newMoved() *moved {
	lru, _ := simplelru.NewLRU[string, *movedHost](maxMoved, nil) // the size is above zero
	return &moved{hosts: lru}
}

// otherScheme is the host of the same name by http where this one is by https, and the other way; "" where it has a port, which
// says nothing of another's.
func otherScheme(host string) string {
	name, secure := strings.CutPrefix(host, "https://")
	if !secure {
		name = strings.TrimPrefix(host, "http://")
	}
	switch {
	case (identity.URL{Host: host}).Name() != name:
		return ""
	case secure:
		return "http://" + name
	}
	return "https://" + name
}

// learn takes note of the answer to a page.
func (m *moved) learn(u identity.URL, res *fetch.Result, rules *identity.Rules, now time.Time) {
	other := otherScheme(u.Host)
	if other == "" || res.Status == 0 || res.Status == http.StatusTooManyRequests || res.Status >= 500 {
		return // it says nothing of the host
	}
	target := identity.URL{}
	if res.Location != "" && res.Status >= 300 && res.Status < 400 {
		target, _ = rules.Resolve(u, res.Location)
	}
	crossed := target == identity.URL{Host: other, Path: u.Path}
	m.mu.Lock()
	defer m.mu.Unlock()
	h, _ := m.hosts.Get(u.Host)
	from, _ := m.hosts.Get(other)
	if from != nil && crossed {
		*from = movedHost{stays: true} // what it sends here is sent back
	} else if from != nil && res.Status < 300 {
		from.confirmed++
	} else if from != nil && res.Status >= 400 {
		*from = movedHost{stays: true} // not all that is there is here
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

// spare returns where a page is that need not be asked for here.
func (m *moved) spare(u identity.URL, now time.Time) (to identity.URL, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, known := m.hosts.Get(u.Host)
	if !known || h.stays || h.redirects < movedAfter || h.spared >= h.confirmed {
		return identity.URL{}, false
	}
	if now.Sub(h.since) > movedFor {
		m.hosts.Remove(u.Host)
		return identity.URL{}, false
	}
	h.spared++
	return identity.URL{Host: otherScheme(u.Host), Path: u.Path}, true
}

// otherwise gives the URL of a page in place of a task of a host that has moved, and says why it does.
func (l *Loop) otherwise(task *frontier.Task) (instead []frontier.Link, reason string) {
	if task.Kind != frontier.Page || task.IsRemoteFetch() {
		return nil, ""
	}
	u, ok := l.moved.spare(task.URL, time.Now())
	link := frontier.Link{URL: u, Depth: task.Depth, Hops: next(task.Hops)}
	if !ok || l.Admit(link) != "" {
		return nil, ""
	}
	if _, blocked := l.blocked(u); blocked {
		return nil, ""
	}
	return []frontier.Link{link}, "its host redirects all to " + u.Scheme()
}

// leaveOut ends a task that is not to be carried out, and says whether it did.
func (l *Loop) leaveOut(ctx context.Context, task *frontier.Task) (done bool, err error) {
	reason, err := l.Refuse(task)
	if err != nil {
		return false, err
	}
	out := frontier.Outcome{Ending: frontier.Dropped, Reason: reason}
	if out.Reason == "" {
		out.Links, out.Reason = l.otherwise(task)
	}
	if out.Reason == "" {
		if out.Reason, err = l.admit(ctx, task); err != nil {
			return false, err
		}
	}
	if out.Reason == "" {
		return false, nil
	}
	if task.Kind == frontier.Robots {
		// What must not be asked for its rules must not be asked for pages: without this it would be tried for ever.
		out.Ending, out.Trouble = frontier.Again, frontier.Forbidden
	}
	if out.Links, err = l.deps.Overlay.Route(ctx, out.Links); err != nil {
		return false, err
	}
	out.Elsewhere = l.deps.Overlay.PassOn
	_, err = l.deps.Frontier.Finish(ctx, task, out)
	l.deps.Overlay.Ended(task, Download{Outcome: out})
	return true, err
}
