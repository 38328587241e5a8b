package ownership

import (
	"context"
	"slices"
	"sync"
	"time"

	"proxima/frontier"
)

// stream carries what changes at the hosts of this node to the nodes that keep their replicas. Nothing of it is on disk: a
// digest tells whether a replica is whole, and one that is not is mended.
//
// URLs that were found go out soon, and who delivered them waits for that. That a page is done is held back until the links
// found on it are safe: those for other nodes have been answered by then, and those for hosts of this node are at the replicas
// of these. Else both the page and its links would be gone with this node's disk.
type stream struct {
	flush     chan chan struct{}
	wake      chan struct{} // somebody waits for what was found
	gathering chan struct{} // filled by who gathers: what it has taken from the frontier is here before the next one looks

	// mu guards what follows.
	mu      sync.Mutex
	hosts   map[string]*waiting
	held    []heldBack // in the order of time
	cleared bool       // links of an earlier life are answered
	bytes   int        // of all that waits
	ended   bool
	news    chan struct{} // closed when something has been stored; nil: nobody waits
	waiters int
	eager   int // links that they wait for
}

// waiting is what waits of one host.
type waiting struct {
	change *frontier.Change // to be sent, nil: nothing
	found  time.Time        // when the first of its URLs were found; zero: it has none
	sent   time.Time        // the same of what is on its way
	held   int              // entries held back
	paused int              // it is being mended: its changes wait
	// digest is that after the last change seen, what is held back included; known says that it is one.
	digest frontier.Digest
	known  bool
}

// heldBack is what was done until a time.
type heldBack struct {
	at    time.Time
	hosts map[string]*frontier.Change
}

// maxStream bounds the memory of what waits, in bytes. Beyond it hosts are mended as a whole.
const maxStream = 32 << 20

func newStream() *stream {
	return &stream{flush: make(chan chan struct{}), wake: make(chan struct{}, 1), gathering: make(chan struct{}, 1),
		hosts: make(map[string]*waiting)}
}

// atLocked is what waits of a host, for a change of it.
func (s *stream) atLocked(host string) *waiting {
	w := s.hosts[host]
	if w == nil {
		w = &waiting{}
		s.hosts[host] = w
	}
	return w
}

// tidyLocked forgets a host of which nothing waits.
func (s *stream) tidyLocked(host string) {
	if w := s.hosts[host]; w != nil && w.change == nil && w.sent.IsZero() && w.held+w.paused == 0 {
		delete(s.hosts, host)
	}
}

// take adds what the frontier tells, at a time.
func (s *stream) take(changes map[string]*frontier.Change, now time.Time) {
	if len(changes) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	back := heldBack{at: now, hosts: make(map[string]*frontier.Change)}
	for host, c := range changes {
		if s.bytes > maxStream {
			c = &frontier.Change{Lost: true}
		}
		w := s.atLocked(host)
		w.digest, w.known = c.Digest, c.Tracked
		if len(c.Done)+len(c.Pages) > 0 {
			done := &frontier.Change{Done: c.Done, Pages: c.Pages}
			back.hosts[host] = done
			w.held++
			s.bytes += done.Memory()
			c.Done, c.Pages = nil, nil
		}
		s.addLocked(host, c, now)
	}
	if len(back.hosts) > 0 {
		s.held = append(s.held, back)
	}
}

// addLocked adds a change that was seen at a time.
func (s *stream) addLocked(host string, c *frontier.Change, at time.Time) {
	w := s.atLocked(host)
	if len(c.Added) > 0 || c.Lost {
		w.found = earlier(w.found, at)
	}
	if w.change == nil {
		w.change = c
	} else {
		s.bytes -= w.change.Memory()
		w.change.Follow(c)
	}
	s.bytes += w.change.Memory()
}

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// mature lets go what was held back and is safe now. cleared says that links of an earlier life have just been answered.
func (s *stream) mature(settled func(until time.Time) bool, startup, now time.Time, patience time.Duration) (cleared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cleared && (settled(startup) || now.Sub(startup) > patience) {
		s.cleared, cleared = true, true
	}
	for len(s.held) > 0 && (s.bytes > maxStream || s.storedLocked(s.held[0].at) && settled(s.held[0].at)) {
		for host, c := range s.held[0].hosts {
			s.letGoLocked(host, c)
		}
		s.held = s.held[1:]
	}
	return cleared
}

// storedLocked says that all URLs found up to a time are at the replicas of their hosts.
func (s *stream) storedLocked(until time.Time) bool {
	for _, w := range s.hosts {
		if w.lacks(until) {
			return false
		}
	}
	return true
}

// lacks says that URLs found up to a time are not at the replica.
func (w *waiting) lacks(until time.Time) bool {
	first := earlier(w.sent, w.found)
	return !first.IsZero() && !first.After(until)
}

// stored notes that what was sent of hosts is at their replicas, or that there are none that answer.
func (s *stream) stored(hosts ...string) {
	if len(hosts) == 0 {
		return // those who wait would have all sent again at once, without end
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, host := range hosts {
		if w := s.hosts[host]; w != nil {
			w.sent = time.Time{}
			s.tidyLocked(host)
		}
	}
	s.tellLocked()
}

// tellLocked has those look again who wait.
func (s *stream) tellLocked() {
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// maxWaiters bounds who waits for replicas: calls that do the work for them must find room beside them.
const maxWaiters = 64

// await waits until what was found of hosts up to a time is at their replicas, and returns those where that is not so when
// its patience ends. It does not wait for replicas that have not answered for as long as old. links is how many links the
// caller asks for.
func (s *stream) await(ctx context.Context, hosts []string, until time.Time, links int, patience, old time.Duration) (late []string, given int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := s.waiters >= maxWaiters
	s.waiters, s.eager = s.waiters+1, s.eager+links
	defer func() { s.waiters, s.eager = s.waiters-1, s.eager-links }()
	over := time.NewTimer(patience)
	defer over.Stop()
	for ended := full; ; {
		late, given = late[:0], 0
		for _, host := range hosts {
			switch w := s.hosts[host]; {
			case w == nil || !w.lacks(until):
			case time.Since(earlier(w.sent, w.found)) > old:
				given++
			default:
				late = append(late, host)
			}
		}
		if len(late) == 0 || ended || s.ended {
			return late, given
		}
		if s.news == nil {
			s.news = make(chan struct{})
		}
		news := s.news
		s.mu.Unlock()
		signal(s.wake)
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

// manyLinks are so many that they are not made to wait for company.
const manyLinks = 500

// crowded says that those who wait have enough for a message.
func (s *stream) crowded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.eager >= manyLinks
}

// end lets those go who wait: nothing more is sent.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.tellLocked()
}

func (s *stream) letGoLocked(host string, c *frontier.Change) {
	s.bytes -= c.Memory()
	w := s.atLocked(host)
	w.held--
	c.Digest, c.Tracked = w.digest, w.known
	s.addLocked(host, c, time.Time{})
}

// release lets go everything that is held back of a host.
func (s *stream) release(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, back := range s.held {
		if c := back.hosts[host]; c != nil {
			s.letGoLocked(host, c)
			delete(back.hosts, host)
		}
	}
}

// forget drops what waits of a host, which this node does not own any more.
func (s *stream) forget(host string) {
	s.release(host)
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.hosts[host]; w != nil {
		s.removeLocked(w)
		w.sent = time.Time{}
		s.tidyLocked(host)
	}
	s.tellLocked()
}

// removeLocked takes what waits of a host for sending.
func (s *stream) removeLocked(w *waiting) *frontier.Change {
	c := w.change
	if c == nil {
		return nil
	}
	s.bytes -= c.Memory()
	w.sent = earlier(w.sent, w.found)
	w.change, w.found = nil, time.Time{}
	return c
}

// holdsBack says that not everything that is done of a host may be told.
func (s *stream) holdsBack(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.hosts[host]
	return !s.cleared || w != nil && w.held > 0
}

// busy says that something of a host is on its way.
func (s *stream) busy(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.hosts[host]
	return !s.cleared || w != nil && (w.held > 0 || w.change != nil)
}

// withhold takes out of a chunk what is held back of its host.
func (s *stream) withhold(host string, c *frontier.Chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cleared {
		c.Done, c.Pages = nil, nil
		return
	}
	if w := s.hosts[host]; w == nil || w.held == 0 || len(c.Done)+len(c.Pages) == 0 {
		return
	}
	back, pages := make(map[uint64]bool), make(map[string]bool)
	for _, b := range s.held {
		if h := b.hosts[host]; h != nil {
			for _, hash := range h.Done {
				back[hash] = true
			}
			for i := range h.Pages {
				pages[h.Pages[i].Path] = true
			}
		}
	}
	done := c.Done[:0]
	for _, hash := range c.Done {
		if !back[hash] {
			done = append(done, hash)
		}
	}
	c.Done = done
	c.Pages = slices.DeleteFunc(c.Pages, func(p frontier.PageRecord) bool { return pages[p.Path] })
}

// pause keeps the changes of a host until the function that it returns is called.
func (s *stream) pause(host string) (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.atLocked(host).paused++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hosts[host].paused--
		s.tidyLocked(host)
	}
}

// next takes what can be sent now.
func (s *stream) next() map[string]*frontier.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]*frontier.Change)
	for host, w := range s.hosts {
		if w.paused == 0 && w.change != nil {
			out[host] = s.removeLocked(w)
			s.tidyLocked(host)
		}
	}
	return out
}

// only takes what waits of one host, nil for nothing.
func (s *stream) only(host string) *frontier.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.hosts[host]; w != nil {
		return s.removeLocked(w)
	}
	return nil
}

// mend begins to make a replica whole, if it has to be for what waits, and returns what ends that.
func (s *stream) mend(host string) (over func(error)) {
	resume := s.pause(host)
	s.mu.Lock()
	defer s.mu.Unlock()
	var lost *frontier.Change
	if w := s.hosts[host]; w.change != nil && w.change.Lost {
		lost = s.removeLocked(w)
	}
	return func(err error) {
		if err == nil {
			s.stored(host)
		} else if lost != nil {
			s.putBack(host, lost)
		}
		resume()
	}
}

// putBack returns what could not be sent, before what came since.
func (s *stream) putBack(host string, c *frontier.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.atLocked(host)
	at, since := earlier(w.sent, w.found), w.change
	if since != nil {
		s.removeLocked(w)
		c.Follow(since)
	}
	w.sent = time.Time{}
	s.addLocked(host, c, at)
}
