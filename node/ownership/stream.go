package ownership

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"proxima/frontier"
	"proxima/node/bell"
)

// stream holds the changes of this node's hosts that their replicas do not have yet. It is not on disk: digests show which
// replicas are incomplete after a crash, and those are mended.
//
// New URLs go out soon, because whoever delivered them waits for that. "This page is done" is held back until the links found
// on the page are safe: links to other nodes have been acknowledged, and links to hosts of this node are at their replicas.
// Otherwise this node's disk could take both the page and its links with it.
//
// The way of a change of one host:
//
//	Frontier.Changes ──► take ──► new URLs, state ────────────────► waits ──next──► on its way ──stored──► at the replica
//	                        └───► finished pages ──► held ──mature──┘ ▲                 │
//	                                                                  └─────putBack─────┘
//
// A crash loses all changes, and so does an overflow. Then it is not known which pages were held back, so mended replicas hear of
// no finished page until all links found before are safe: no replica lacks any that waits here. After a crash the first sweep finds those
// that do. A finished page is known by its hash only, so one that a replica may not know yet is in the outbox before it ends (router.Ending).
type stream struct {
	wake      bell.Bell     // somebody waits for new URLs to reach a replica
	gathering chan struct{} // a mutex that a fake clock understands: one goroutine moves changes from the frontier to here
	gathers   atomic.Uint64 // how often that was begun

	// mu guards the fields below.
	mu      sync.Mutex
	hosts   map[string]*waiting
	held    []heldBack // oldest first
	lost    time.Time  // when changes were last lost
	cleared bool       // the links found up to then are safe
	left    time.Time  // when links were last left to the outbox
	begun   time.Time  // when this life began; zero once all replicas of hosts of an earlier life have been compared
	stood   time.Time  // when this node last stood still
	bytes   int        // memory of all waiting changes
	ended   bool
	news    chan struct{} // closed at the next progress; nil if nobody waits
	waiters int
	eager   int // links that the waiters wait for
}

// waiting is what the replica of one host does not have yet.
type waiting struct {
	change *frontier.Change   // to be sent; may be nil
	found  time.Time          // when the oldest URL in change was found; zero if it has none
	away   int                // changes on their way, two at most: that of a host that is handed over may overtake one
	leaves []*frontier.Change // these changes, and such as have arrived meanwhile
	sent   time.Time          // the same as found for those changes
	held   int                // entries in stream.held
	mended bool               // the replica is being mended
	heard  time.Time          // when the replica last stored a part of the host, or was found to differ
	given  int                // how many URLs of change, or of what is on its way, are in the outbox as well: the first ones
	// digest is the host's digest after the latest change seen, held back or not. It is valid if known is set.
	digest frontier.Digest
	known  bool
}

// heldBack is the work done up to a time.
type heldBack struct {
	at    time.Time
	hosts map[string]*frontier.Change
}

// maxStream bounds the bytes of waiting changes. Beyond it they are dropped, and whole hosts are compared and mended instead.
const maxStream = 32 << 20

// newStream makes the stream of a life that begins now. The changes that an earlier life had not sent are lost.
func newStream(now time.Time) *stream {
	return &stream{lost: now, wake: bell.New(), gathering: make(chan struct{}, 1),
		hosts: make(map[string]*waiting)}
}

// atLocked returns the entry of a host and makes it if needed.
func (s *stream) atLocked(host string) *waiting {
	w := s.hosts[host]
	if w == nil {
		w = &waiting{}
		s.hosts[host] = w
	}
	return w
}

// tidyLocked drops the entry of a host if it is empty.
func (s *stream) tidyLocked(host string) {
	if w := s.hosts[host]; w != nil && w.change == nil && w.away == 0 && w.held == 0 && !w.mended {
		delete(s.hosts, host)
	}
}

// take adds changes that the frontier reported. It takes over the changes.
func (s *stream) take(changes map[string]*frontier.Change, now time.Time) {
	if len(changes) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes > maxStream {
		s.dropLocked()
		s.lost, s.cleared = now, false
	}
	back := heldBack{at: now, hosts: make(map[string]*frontier.Change)}
	for host, c := range changes {
		if c.Lost {
			s.lost, s.cleared = now, false
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

// dropLocked drops all changes. Hosts with a change that was to be sent are mended instead.
func (s *stream) dropLocked() {
	s.held, s.bytes = nil, 0
	for host, w := range s.hosts {
		if w.held = 0; w.change != nil {
			w.change, w.given = &frontier.Change{Lost: true}, 0
			s.bytes += w.change.Memory()
		}
		s.tidyLocked(host)
	}
}

// addLocked queues a change behind what waits already. at is when it was seen.
func (s *stream) addLocked(host string, c *frontier.Change, at time.Time) {
	w := s.atLocked(host)
	if len(c.Added) > 0 || c.Lost {
		w.found = earlier(w.found, at)
	}
	if c.Dropped || c.Lost {
		w.given = 0
	}
	if w.change == nil {
		w.change = c
	} else {
		s.bytes -= w.change.Memory()
		w.change.Follow(c)
	}
	s.bytes += w.change.Memory()
}

// earlier returns the earlier of two times, ignoring zero times.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// mature releases the held-back work that is safe now. It reports whether the links found before changes were lost have just
// become safe, or were waited for longer than patience. It does not wait for replicas that have been behind for longer than old.
func (s *stream) mature(settled func(until time.Time) bool, now time.Time, patience, old time.Duration) (cleared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	safe := func(until time.Time) bool {
		if !s.storedLocked(until, s.sinceLocked(now, old)) {
			return false
		}
		if s.left.After(until) { // what was left may have been found before
			until = s.left
		}
		return settled(until)
	}
	if !s.cleared && (safe(s.lost) || s.lost.Before(s.sinceLocked(now, patience))) {
		s.cleared, cleared = true, true
	}
	for len(s.held) > 0 && safe(s.held[0].at) {
		for host, c := range s.held[0].hosts {
			w := s.atLocked(host)
			w.held--
			s.bytes -= c.Memory()
			c.Digest, c.Tracked = w.digest, w.known
			s.addLocked(host, c, time.Time{})
		}
		s.held = s.held[1:]
	}
	return cleared
}

// stopped notes that this node stood still. Nobody could answer meanwhile.
func (s *stream) stopped(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stood = now
}

// sinceLocked returns the time that lies so long before now, or zero if this node has stood still since then: so nobody counts as late who could not
// answer.
func (s *stream) sinceLocked(now time.Time, ago time.Duration) time.Time {
	if at := now.Add(-ago); at.After(s.stood) {
		return at
	}
	return time.Time{}
}

// stored notes that what was sent for these hosts has arrived, or that no node is to receive it.
func (s *stream) stored(hosts ...string) {
	if len(hosts) == 0 {
		return // waking the waiters without progress would make them ask again at once, for ever
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, host := range hosts {
		if w := s.hosts[host]; w != nil {
			w.arrivedLocked()
			w.given = 0
			s.tidyLocked(host)
		}
	}
	s.tellLocked()
}

// ungiven returns the URLs of a change taken from here that the outbox was not given yet.
func (s *stream) ungiven(host string, c *frontier.Change) []frontier.PendingURL {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.Added[min(s.atLocked(host).given, len(c.Added)):]
}

// leave puts a change back once the outbox has its URLs, because the node with the replica is dead. The change goes to that node when it is back, or to
// the one that takes its place.
func (s *stream) leave(host string, c *frontier.Change, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.atLocked(host)
	n, later := len(c.Added), w.found
	if n > w.given {
		s.left = now
	}
	s.putBackLocked(host, c)
	if w.given = n; n > 0 || c.Lost {
		w.found = earlier(later, now)
	}
}

// arrivedLocked notes that a change is no longer on its way: it has arrived, or could not be sent.
func (w *waiting) arrivedLocked() {
	if w.away--; w.away == 0 {
		w.sent, w.leaves = time.Time{}, nil
	}
}

// tellLocked wakes the waiters.
func (s *stream) tellLocked() {
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// end wakes the waiters for good: nothing is sent any more.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.tellLocked()
}

// removeLocked takes the waiting change out, as being on its way. There must be one.
func (s *stream) removeLocked(w *waiting) *frontier.Change {
	c := w.change
	s.bytes -= c.Memory()
	if w.away++; w.away > 1 {
		w.given = 0
	}
	w.sent = earlier(w.sent, w.found)
	w.change, w.found, w.leaves = nil, time.Time{}, append(w.leaves, c)
	return c
}

// holdsBackLocked reports whether some finished pages of a host must not be told yet.
func (s *stream) holdsBackLocked(host string) bool {
	w := s.hosts[host]
	return !s.cleared || w != nil && w.held > 0
}

// holdsBack is holdsBackLocked for callers without the lock.
func (s *stream) holdsBack(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holdsBackLocked(host)
}

// compares reports whether the replica of a host must equal the host once it has stored what is sent now.
func (s *stream) compares(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.hosts[host]
	return !s.holdsBackLocked(host) && (w == nil || !w.mended)
}

// empty reports whether the replicas have everything.
func (s *stream) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cleared && len(s.hosts) == 0
}

// busy reports whether the replica of a host lacks something that this stream will send.
func (s *stream) busy(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.hosts[host]
	return s.holdsBackLocked(host) || w != nil && w.change != nil
}

// withhold removes from a chunk of a host what is held back.
func (s *stream) withhold(host string, c *frontier.Chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cleared {
		c.Done, c.Pages = nil, nil
		return
	}
	back, pages := s.heldLocked(host, time.Time{})
	c.Done = slices.DeleteFunc(c.Done, func(hash uint64) bool { return back[hash] })
	c.Pages = slices.DeleteFunc(c.Pages, func(p frontier.PageRecord) bool { return pages[p.Path] })
}

// next takes the changes of all hosts whose replicas have answered what was sent before: until then, what that brings counts as lacking. If a
// replica is being mended, a change that can only be made good by mending waits.
func (s *stream) next() map[string]*frontier.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]*frontier.Change)
	for host, w := range s.hosts {
		if w.change != nil && w.away == 0 && !(w.mended && w.change.Lost) {
			out[host] = s.removeLocked(w)
		}
	}
	return out
}

// only takes the change of one host.
func (s *stream) only(host string) map[string]*frontier.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]*frontier.Change)
	if w := s.hosts[host]; w != nil && w.change != nil {
		out[host] = s.removeLocked(w)
	}
	return out
}

// mend notes that the replica of a host is being mended. The caller calls over when that has ended, with its error. A change that only mending
// can make good (Lost) is forgotten on success, and queued again after an error. While there is such a change, later ones wait for the end.
// Otherwise they go out meanwhile, as mending may take long.
func (s *stream) mend(host string) (over func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.atLocked(host)
	w.mended = true
	var lost *frontier.Change
	if w.change != nil && w.change.Lost {
		lost = s.removeLocked(w)
	}
	return func(err error) {
		switch {
		case lost == nil:
		case err == nil:
			s.stored(host)
		default:
			s.putBack(host, lost)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		w.mended = false
		s.tidyLocked(host)
	}
}

// putBack queues a change that could not be sent, before everything that has come since.
func (s *stream) putBack(host string, c *frontier.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putBackLocked(host, c)
}

func (s *stream) putBackLocked(host string, c *frontier.Change) {
	w := s.atLocked(host)
	at, since := earlier(w.sent, w.found), w.change
	if since != nil {
		s.removeLocked(w)
		w.arrivedLocked()
		c.Follow(since)
	}
	w.arrivedLocked()
	s.addLocked(host, c, at)
}
