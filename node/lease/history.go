package lease

import (
	"net/netip"
	"slices"
	"time"

	"proxima/assign"
)

// history remembers the views of the last window (a lease time and the skew): a node that has been the grantor of a server for that
// long without a gap knows of every lease on it. Pure; not safe for concurrent use.
type history struct {
	window time.Duration
	// founding is what remains of the window for who sees nobody else in its first view: window, but in a node's first life.
	founding time.Duration
	views    []period // oldest first, the last one is in force
	// gap is when a time ended of which nothing is known: before the first view, or of views that were too many.
	gap time.Time
	// founded is when a node that founds an overlay may believe that nobody else is there.
	founded time.Time
}

// begin forgets everything before now: nothing is known of the time until then.
func (h *history) begin(now time.Time) {
	if n := len(h.views); n > 0 {
		h.views = slices.Delete(h.views, 0, n-1)
		h.views[0].from, h.gap = now, now
	}
}

// complete says that nothing was granted before now that this node does not know of.
func (h *history) complete(now time.Time) {
	h.begin(now.Add(-h.window))
}

// period is a view from the time that it came into force.
type period struct {
	View
	from time.Time
}

// maxPeriods bounds the views remembered. Members that change faster than that make grantors wait, no more.
const maxPeriods = 64

// set puts a view into force, and says whether grantors may have changed by it.
func (h *history) set(v View, now time.Time) bool {
	if h.gap.IsZero() {
		h.gap = now
		if v.Majority && len(v.Settled) == 1 && v.Settled[0] == v.Self {
			h.gap, h.founded = now.Add(h.founding-h.window), now.Add(h.founding)
		}
	}
	v.Settled = slices.Clone(v.Settled)
	slices.Sort(v.Settled)
	if last := h.current(); last != nil && last.Self == v.Self && last.Majority == v.Majority &&
		slices.Equal(last.Settled, v.Settled) {
		last.Version = v.Version
		return false
	}
	h.views = append(h.views, period{v, now})
	h.forget(now)
	return true
}

// forget drops views that ended before the window.
func (h *history) forget(now time.Time) {
	n := 0
	for n+1 < len(h.views) && !h.views[n+1].from.After(now.Add(-h.window)) {
		n++
	}
	if over := len(h.views) - maxPeriods; over > n {
		n = over
		h.gap = h.views[n].from
	}
	h.views = slices.Delete(h.views, 0, n)
}

func (h *history) current() *period {
	if len(h.views) == 0 {
		return nil
	}
	return &h.views[len(h.views)-1]
}

// isGrantor says whether this node was the grantor of a server in a view, with the right to grant.
func (p *period) isGrantor(key string) bool {
	return p.Majority && assign.Rendezvous(key, p.Settled) == p.Self
}

// start is how much longer nothing is known of the time before the first view.
func (h *history) start(now time.Time) time.Duration {
	if h.gap.IsZero() {
		return h.window
	}
	return max(0, h.gap.Add(h.window).Sub(now))
}

// blind is how much longer this node, the grantor now, does not know whether an earlier grantor's lease lives.
func (h *history) blind(addr netip.Addr, now time.Time) time.Duration {
	h.forget(now)
	end := h.gap // of the last time that this node was not the grantor
	key := addr.String()
	for i := len(h.views) - 2; i >= 0; i-- {
		if !h.views[i].isGrantor(key) {
			end = h.views[i+1].from
			break
		}
	}
	return max(0, end.Add(h.window).Sub(now))
}
