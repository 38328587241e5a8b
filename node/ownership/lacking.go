package ownership

import (
	"context"
	"slices"
	"time"

	"proxima/frontier"
)

// storedLocked reports whether all URLs found up to a time are at the replicas of their hosts. It ignores replicas that have been
// behind since before old. Of those that have not been compared in this life nobody knows.
func (s *stream) storedLocked(until, old time.Time) bool {
	for _, w := range s.hosts {
		if w.lacks(until) && !w.since().Before(old) {
			return false
		}
	}
	return s.begun.IsZero() || s.cleared
}

// lacks reports whether the replica lacks URLs that were found up to a time.
func (w *waiting) lacks(until time.Time) bool {
	first := earlier(w.sent, w.found)
	return !first.IsZero() && !first.After(until)
}

// since returns since when the replica has stored nothing of what it lacks.
func (w *waiting) since() time.Time {
	first := earlier(w.sent, w.found)
	if !first.IsZero() && w.heard.After(first) {
		return w.heard
	}
	return first
}

// hear notes that the replica of a host has stored a part of it.
func (s *stream) hear(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.hosts[host]; w != nil {
		w.heard = time.Now()
	}
}

// begin notes that this node has hosts of an earlier life, of which the replicas may lack something.
func (s *stream) begin(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = now
}

// begins reports whether the replicas of hosts of an earlier life have not all been compared yet.
func (s *stream) begins() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.begun.IsZero()
}

// compared notes that the replicas of all hosts of an earlier life have been compared. Those that differ lack something until they are mended.
func (s *stream) compared() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun = time.Time{}
}

// differs notes that the replica of a host differs. In an earlier life it may have missed changes.
func (s *stream) differs(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.begun.IsZero() {
		s.addLocked(host, &frontier.Change{Lost: true}, s.begun)
		s.hosts[host].heard = time.Now()
	}
}

// unsure returns those of some links to known pages that the replicas may lack: all after changes were lost here, otherwise those to finished pages
// that have been held back since a time. A replica that was mended meanwhile has heard nothing of such a page.
func (s *stream) unsure(links []frontier.Link, since time.Time) []frontier.Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cleared {
		return links
	}
	back := make(map[string]map[uint64]bool)
	return slices.DeleteFunc(links, func(l frontier.Link) bool {
		if back[l.URL.Host] == nil {
			back[l.URL.Host], _ = s.heldLocked(l.URL.Host, since)
		}
		return !back[l.URL.Host][l.URL.Hash()]
	})
}

// heldLocked returns what has been held back of a host since a time: the hashes of finished pages, and the paths of visited ones.
func (s *stream) heldLocked(host string, since time.Time) (done map[uint64]bool, pages map[string]bool) {
	done, pages = make(map[uint64]bool), make(map[string]bool)
	if w := s.hosts[host]; w == nil || w.held == 0 {
		return done, pages
	}
	for _, b := range s.held {
		if h := b.hosts[host]; h != nil && !b.at.Before(since) {
			for _, hash := range h.Done {
				done[hash] = true
			}
			for i := range h.Pages {
				pages[h.Pages[i].Path] = true
			}
		}
	}
	return done, pages
}

// unknown reports whether the replica of a host may not know a URL, and neither does the outbox.
func (s *stream) unknown(host, path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	has := func(c *frontier.Change, from int) bool {
		return c.Lost || slices.ContainsFunc(c.Added[min(from, len(c.Added)):], func(p frontier.PendingURL) bool { return p.Path == path })
	}
	w := s.hosts[host]
	return !s.begun.IsZero() || w != nil && (w.change != nil && has(w.change, w.given) ||
		slices.ContainsFunc(w.leaves, func(c *frontier.Change) bool { return has(c, 0) }))
}

// maxWaiters bounds the calls that wait for replicas, so that the calls that store replicas still find room.
const maxWaiters = 64

// await waits until the URLs found up to a time are at the replicas of hosts, for patience at most. It returns the hosts that
// are late then. It does not wait for replicas that have been behind for longer than old, and returns how many those are. links
// is how many links the caller wants stored.
func (s *stream) await(ctx context.Context, hosts []string, until time.Time, links int, patience, old time.Duration,
) (late map[string]bool, alone int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.waiters >= maxWaiters
	s.waiters, s.eager = s.waiters+1, s.eager+links
	defer func() { s.waiters, s.eager = s.waiters-1, s.eager-links }()
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		late, alone = make(map[string]bool), 0
		for _, host := range hosts {
			switch w := s.hosts[host]; {
			case w == nil || !w.lacks(until):
			case w.since().Before(s.sinceLocked(time.Now(), old)):
				alone++
			default:
				late[host] = true
			}
		}
		if len(late) == 0 || ended || s.ended {
			return late, alone
		}
		if s.news == nil {
			s.news = make(chan struct{})
		}
		news := s.news
		s.mu.Unlock()
		s.wake.Ring()
		select {
		case <-news:
		case <-over.C:
			ended = true
		case <-ctx.Done():
			ended = true
		}
		s.mu.Lock()
	}
}

// manyLinks is how many awaited links are worth a message at once.
const manyLinks = 500

// crowded reports whether the waiters wait for enough links to fill a message.
func (s *stream) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eager >= manyLinks
}
