package frontier

import (
	"net/netip"
	"time"

	"proxima/frontier/identity"
)

// pending is a URL of a window: where it is on disk, and how often it was tried in this life of the process.
type pending struct {
	entry
	ref     *blockRef
	index   int
	retryAt time.Time
	lowered bool        // it has a smaller depth on disk
	page    *PageRecord // of a page that is visited again
	rank    int32
}

// place is where a host stands between the disk and a request.
type place uint8

const (
	loading   place = iota // its record and first URLs are being read
	unplaced               // it has no server: waits for its name to be resolved
	resolving              // its name is being resolved
	placed                 // it belongs to a server
)

// host is a host on the workbench.
type host struct {
	name  string
	place place
	site  *Site
	opens time.Time // when its hours begin, as of the last settle; zero: it is within them, or has none
	// window holds the next URLs of each queue; more of them wait on disk while loaded < known.
	window [origins]fifo[pending]
	loaded [origins]uint64 // the last block that was put into the window
	known  [origins]uint64 // the last block that is on disk
	// reading is set while blocks are being read into the window.
	reading bool
	// leftover says which URLs of blocks from an earlier life are done.
	leftover []partialBlock
	// delayed are URLs that wait for another try, in order of time.
	delayed   []pending
	inFlight  int
	ending    int           // calls that write what became of it: until then the disk is behind
	suspended string        // why it must not be crawled now, "" when it may
	frozen    bool          // it leaves as soon as nothing of it is under way
	foreign   bool          // on disk it is not owned
	gone      chan struct{} // if set, closed when it leaves
	queued    [origins]bool // stands in its server's queue
	sleeping  bool          // stands in its server's heap, or in that of the unplaced

	server      *server
	placedName  string // what was resolved for it
	placedUntil time.Time
	addrs       []netip.Addr // what the name resolved to; the server is one of them
	reservedAt  netip.Addr   // the reserved server that it left for its robots.txt
	resolveTook time.Duration
	wake        time.Time // key in the heap it sleeps in
	heapIndex   int

	notBefore   time.Time
	why         string // why notBefore is set, in words
	lost        bool   // it failed at each of its addresses, or its name did, in ways that waiting does not mend soon
	failures    int    // failed connections or names in a row
	level       uint8
	crawlDelay  time.Duration // as its robots.txt asks
	lastRequest time.Time
	taken       int

	robotsUntil  time.Time
	robotsBusy   bool // its robots.txt is being asked for
	robotsTarget *redirectedRobots

	// depths are smaller depths found for URLs that are pending.
	depths map[uint64]uint8

	// next is where it stood among the hosts with pages to visit again when it came in for them. lastDue is the last such
	// page that was put into the window, and nextDue when the one after it is due; 0: there is none.
	next, nextDue stamp
	lastDue       *duePage

	// droppedAt is the last sequence number when its URLs were dropped: blocks up to it are gone.
	droppedAt uint64
	// givenUp says that its URLs were dropped while it was here: its pages wait until it comes in again.
	givenUp bool
}

// redirectedRobots says that a robots.txt is to be had elsewhere.
type redirectedRobots struct {
	url  identity.URL
	hops uint8
}

// dialName is the name to resolve for the host's next request.
func (h *host) dialName() string {
	if h.robotsTarget != nil {
		return h.robotsTarget.url.Name()
	}
	return identity.Name(h.name)
}

func (h *host) state() hostState {
	return hostState{lastRequest: h.lastRequest, notBefore: h.notBefore, crawlDelay: h.crawlDelay,
		level: h.level, robotsUntil: h.robotsUntil, failures: uint8(min(h.failures, 255))}
}

func (h *host) windowed() int {
	n := 0
	for o := range h.window {
		n += h.window[o].len()
	}
	return n
}

// low says whether a queue has at most some URLs in the window and more on disk.
func (h *host) low(urls int) bool {
	for o := range h.loaded {
		if h.loaded[o] < h.known[o] && h.window[o].len() <= urls {
			return true
		}
	}
	return false
}

// onDisk says that blocks wait that are not in the window.
func (h *host) onDisk() bool {
	for o := range h.loaded {
		if h.loaded[o] < h.known[o] {
			return true
		}
	}
	return false
}

// due is when the host has something to ask for; false when it has nothing.
func (h *host) due() (time.Time, bool) {
	if h.windowed() > 0 {
		return h.rests(), true
	}
	if len(h.delayed) > 0 {
		return later(h.rests(), h.delayed[0].retryAt), true
	}
	return time.Time{}, false
}

// rests is until when the host as a whole waits.
func (h *host) rests() time.Time { return later(h.notBefore, h.opens) }

// displaced says of a host that has left that it did so for a while only, and not for want of work.
func (h *host) displaced() bool {
	_, work := h.due()
	return !h.foreign && (h.frozen || work || h.onDisk())
}

// delay inserts a URL among the delayed, in order.
func (h *host) delay(p pending) {
	i := len(h.delayed)
	for i > 0 && h.delayed[i-1].retryAt.After(p.retryAt) {
		i--
	}
	h.delayed = append(h.delayed, pending{})
	copy(h.delayed[i+1:], h.delayed[i:])
	h.delayed[i] = p
}

// revive moves the delayed URLs whose time has come to the head of the window.
func (h *host) revive(now time.Time) {
	for len(h.delayed) > 0 && !h.delayed[0].retryAt.After(now) {
		p := h.delayed[0]
		h.delayed = h.delayed[1:]
		h.window[p.ref.origin].unshift(p)
	}
}

// recovered forgets failures and waits.
func (h *host) recovered() {
	h.failures, h.level, h.lost = 0, 0, false
	h.notBefore, h.why = time.Time{}, ""
}

// take appends the entries of a block to the window, but for those that were done before.
func (h *host) take(ref *blockRef, entries []entry) {
	if ref.seq <= h.droppedAt {
		return
	}
	var done *bitmap
	for i := range h.leftover {
		if h.leftover[i].seq == ref.seq {
			done = &h.leftover[i].done
		}
	}
	for i, e := range entries {
		if done == nil || !done.has(i) {
			p := pending{entry: e, ref: ref, index: i}
			if h.site != nil && h.site.Rank != nil {
				p.rank = int32(h.site.Rank(e.url(h.name), e.depth))
			}
			h.window[ref.origin].push(p)
		}
	}
	h.loaded[ref.origin] = max(h.loaded[ref.origin], ref.seq)
	h.known[ref.origin] = max(h.known[ref.origin], ref.seq)
}

// lower notes a smaller depth of a pending URL.
func (h *host) lower(hash uint64, depth uint8) {
	if h.depths == nil {
		h.depths = make(map[uint64]uint8)
	}
	h.depths[hash] = depth
}

// forget empties the host's windows, because its URLs up to a sequence number are no longer on disk.
func (h *host) forget(seq uint64) {
	h.droppedAt, h.givenUp = seq, true
	for o := range h.window {
		h.window[o] = fifo[pending]{}
		h.loaded[o], h.known[o] = max(h.loaded[o], seq), max(h.known[o], seq)
	}
	h.delayed = nil
	h.nextDue, h.lastDue = 0, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// server is an address on the workbench, with the hosts that it serves.
type server struct {
	addr     netip.Addr
	parallel int
	inFlight int
	hosts    map[*host]struct{} // placed here
	queue    [origins]fifo[*host]
	sleepers timeHeap[*host] // hosts that wait for a time of their own
	next     time.Time
	since    time.Time     // when it became ready
	ready    [origins]bool // stands in a ready queue
	due      time.Time     // key in the timer
	timed    bool
	timerAt  int
	lease    *lease  // nil without one
	told     bool    // that it is wanted, since the lease began or ended
	out      []*Task // with leases, the tasks that are out
	reserved bool    // its tasks are for takeHost only
}

func (s *server) queuedHosts() int {
	n := 0
	for o := range s.queue {
		n += s.queue[o].len()
	}
	return n
}
