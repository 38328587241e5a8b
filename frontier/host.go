package frontier

import (
	"math"
	"net/netip"
	"slices"
	"time"

	"proxima/frontier/identity"
)

// pending is a URL in a window, with its place on disk.
type pending struct {
	entry
	ref     *blockRef
	index   int
	retryAt time.Time
	tries
	lowered bool        // a smaller depth for it is on disk
	page    *PageRecord // of a page that is visited again, else nil
	rank    int32       // Site.Rank
}

// tries are how often a URL was asked for, 255 for more, and how often of those it broke off or its host was busy.
type tries struct{ attempt, broken, busy uint8 }

// place says how far a host on the workbench is on its way from disk to a request.
type place uint8

const (
	loading   place = iota // its record and first URLs are being read
	unplaced               // it has no server and waits for its name to be resolved
	resolving              // its name is being resolved
	placed                 // it belongs to a server
)

// host is a host on the workbench: its window of URLs, where it is, and what it waits for. workbench.settle puts it where it belongs after every
// change. The lock of the front guards it.
type host struct {
	name  string
	place place
	site  *Site
	// opens is when its hours and its Crawl-delay allow the next request, as of the last settle; zero if that is now.
	opens time.Time
	hours Hours
	// window holds the next URLs of each queue.
	window [origins]fifo[pending]
	loaded [origins]uint64 // the last block that was put into the window
	more   [origins]bool   // blocks after that may be on disk
	// reading is set while blocks are being read into the window.
	reading bool
	// leftover says which URLs of blocks from an earlier life are done.
	leftover []partialBlock
	// delayed are URLs that wait for another try, in order of time.
	delayed     []pending
	inFlight    int
	ending      int           // calls that are writing its state to disk
	suspended   string        // why it must not be crawled now, "" when it may
	frozen      bool          // it leaves the workbench as soon as nothing of it is under way
	foreign     bool          // it is not owned, as its record says
	gone        chan struct{} // if set, closed when it leaves
	queued      [origins]bool // it is in these queues of its server; unplaced, queued[0] says that it is in workbench.unresolved
	firstInLine bool          // its turn had come when its address was found to be stale: it comes first when it has one again

	server      *server
	placedName  string // the name that was resolved for it
	placedUntil time.Time
	addrs       []netip.Addr // the addresses of that name; the server is one of them
	reservedAt  netip.Addr   // the reserved server that it left to ask for a redirected robots.txt
	resolveTook time.Duration
	slot        // in the sleepers of the workbench

	hostState
	why   string // why notBefore is set, in words
	lost  bool   // its name or all its addresses failed in a way that waiting will hardly change
	taken int    // tasks since it came onto the workbench
	// silent counts its addresses that could not be reached since it last waited for that, or was reached.
	silent int
	// failed is when its last failure was counted. resumes is when it would have been tried next if a last try had not come before (lastTry); else
	// zero.
	failed, resumes time.Time

	robotsBusy   bool // its robots.txt is being asked for
	robotsTarget *redirectedRobots

	// depths are smaller depths found for URLs that are pending.
	depths map[uint64]uint8

	// next is the due time under which the host was found when it came in for its due pages, else 0. lastDue is the last due page
	// that was put into the window. nextDue is when the page after that is due; 0 if there is none.
	next, nextDue stamp
	lastDue       *duePage

	// droppedAt is the last sequence number at the time when its URLs were dropped. Blocks up to it are gone.
	droppedAt uint64
	// givenUp says that its URLs were dropped while it was here. Its pages then wait until it comes in again.
	givenUp bool
}

// redirectedRobots is where the robots.txt of a host is to be asked for next, after some redirects.
type redirectedRobots struct {
	url  identity.URL
	hops uint8
}

// dialName returns the name to resolve for the next request.
func (h *host) dialName() string {
	if h.robotsTarget != nil {
		return h.robotsTarget.url.Name()
	}
	return identity.Name(h.name)
}

// windowed returns how many URLs are in the window.
func (h *host) windowed() int { return total(&h.window) }

// low says whether a queue has at most that many URLs in the window, and more on disk.
func (h *host) low(urls int) bool {
	for o := range h.more {
		if h.more[o] && len(h.window[o]) <= urls {
			return true
		}
	}
	return false
}

// onDisk says whether blocks on disk are not yet in the window.
func (h *host) onDisk() bool { return h.low(math.MaxInt) }

// due returns when the host has a URL to ask for; false if it has none.
func (h *host) due() (time.Time, bool) {
	if h.windowed() > 0 {
		return h.rests(), true
	}
	if len(h.delayed) > 0 {
		return later(h.rests(), h.delayed[0].retryAt), true
	}
	return time.Time{}, false
}

// rests returns when the wait of the whole host ends.
func (h *host) rests() time.Time { return later(h.notBefore, h.opens) }

// displaced says of a host that has left the workbench that it still has URLs and will come back.
func (h *host) displaced() bool {
	_, work := h.due()
	return !h.foreign && (h.frozen || work || h.onDisk())
}

// evictable says that the host can be sent back to disk without losing anything but its place.
func (h *host) evictable() bool { return h.still() && (h.server == nil || !h.server.reserved) }

// still says that nothing of the host is under way: no request, no look at the disk or at its name, no write.
func (h *host) still() bool {
	return h.inFlight == 0 && h.ending == 0 && !h.reading && (h.place == placed || h.place == unplaced)
}

// delay adds a URL to the delayed, in the order of their next tries.
func (h *host) delay(p pending) {
	i := len(h.delayed)
	for i > 0 && h.delayed[i-1].retryAt.After(p.retryAt) {
		i--
	}
	h.delayed = slices.Insert(h.delayed, i, p)
}

// revive moves the delayed URLs whose time has come to the head of the window.
func (h *host) revive(now time.Time) {
	for len(h.delayed) > 0 && !h.delayed[0].retryAt.After(now) {
		p := h.delayed[0]
		h.delayed = h.delayed[1:]
		h.window[p.ref.origin].unshift(p)
	}
}

// recovered ends the waits and failures of the host: it has answered, or an operator has it tried anew.
func (h *host) recovered() {
	h.reached()
	h.level, h.notBefore, h.why = 0, time.Time{}, ""
}

// reached ends the row of failed connections and lookups.
func (h *host) reached() { h.failures, h.silent, h.lost, h.resumes = 0, 0, false, time.Time{} }

// countFailure counts that all addresses of a host have failed, or the lookup of its name, and reports whether it did. A last try does not count: the
// host waits as long as it would have without that try.
func (h *host) countFailure(now time.Time) bool {
	h.silent = 0
	if now.Before(h.resumes) {
		h.notBefore = h.resumes
		return false
	}
	h.failures++
	h.failed, h.resumes = now, time.Time{}
	return true
}

// take appends the entries of a block to the window, except those that are done.
func (h *host) take(ref *blockRef, entries []entry) {
	if ref.seq <= h.droppedAt {
		return
	}
	at := blockAt(h.leftover, ref.seq)
	for i, e := range entries {
		if at < 0 || !h.leftover[at].done.has(i) {
			p := pending{entry: e, ref: ref, index: i}
			if h.site != nil && h.site.Rank != nil {
				p.rank = int32(h.site.Rank(e.url(h.name), e.Depth))
			}
			h.window[ref.origin].push(p)
		}
	}
	h.loaded[ref.origin] = max(h.loaded[ref.origin], ref.seq)
}

// fill takes blocks of a queue that were read from disk. more means that others follow there.
func (h *host) fill(origin Origin, blocks []block, more bool) {
	for _, b := range blocks {
		h.take(b.ref, b.entries)
	}
	h.more[origin] = h.more[origin] || more
}

// forget empties the window, because the URLs up to a sequence number are no longer on disk.
func (h *host) forget(seq uint64) {
	h.droppedAt, h.givenUp = seq, true
	for o := range h.window {
		h.window[o] = fifo[pending]{}
		h.loaded[o] = max(h.loaded[o], seq)
	}
	h.more = [origins]bool{} // later blocks have not been offered yet
	h.delayed = nil
	clear(h.depths)
	h.nextDue, h.lastDue = 0, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// sooner returns the earlier of two times. A zero one means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
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
	hosts    map[*host]struct{} // the hosts that are placed here
	queue    [origins]fifo[*host]
	next     time.Time     // when it may be asked
	since    time.Time     // when it became ready
	ready    [origins]bool // it is in a ready queue of the workbench
	slot                   // in the timer
	lease    *lease        // nil without one
	told     bool          // it was reported as wanted since its lease began or ended
	out      []*Task       // the tasks that are out, with Config.Leases only
	reserved bool          // only takeHost takes its tasks
}

// rest leaves a server alone until a time at least.
func (s *server) rest(until time.Time) {
	s.next = later(s.next, until)
}
