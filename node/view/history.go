package view

import (
	"slices"
	"time"
)

// History remembers the views of the last while. Not safe for concurrent use.
type History struct {
	keep    time.Duration
	periods []period // oldest first, the last one is in force
	// gap is when a time ended of which nothing is known: before the first view, or of views that were too many.
	gap time.Time
}

// period is a view from the time on that it came into force. Views with the same settled members and majority share one.
type period struct {
	View
	from time.Time
}

// maxPeriods bounds the views remembered. Members that change faster than that make those wait who decide, no more.
const maxPeriods = 64

// NewHistory remembers views for so long after they ended.
func NewHistory(keep time.Duration) *History { return &History{keep: keep} }

// Now is the view in force; before the first one a view in which nobody is there.
func (h *History) Now() *View {
	if len(h.periods) == 0 {
		return &View{}
	}
	return &h.periods[len(h.periods)-1].View
}

// Since is when the settled members and the majority became what they are.
func (h *History) Since() time.Time {
	if len(h.periods) == 0 {
		return time.Time{}
	}
	return h.periods[len(h.periods)-1].from
}

// Set puts a view into force, and says whether what is drawn from it, or who may decide, has changed.
func (h *History) Set(v View, now time.Time) bool {
	if len(h.periods) == 0 {
		h.gap = now
	} else if last := h.Now(); last.Majority == v.Majority && last.Same(&v) {
		*last = v
		return false
	}
	h.periods = append(h.periods, period{v, now})
	n := 0
	for n+1 < len(h.periods) && !h.periods[n+1].from.After(now.Add(-h.keep)) {
		n++
	}
	if over := len(h.periods) - maxPeriods; over > n {
		n = over
		h.gap = h.periods[n].from
	}
	h.periods = slices.Delete(h.periods, 0, n)
	return true
}

// Begin forgets everything before a time: nothing is known of what was until then.
func (h *History) Begin(at time.Time) {
	if n := len(h.periods); n > 0 {
		h.periods = slices.Delete(h.periods, 0, n-1)
		h.periods[0].from, h.gap = at, at
	}
}

// Blind is for how much longer something may last that lasts for so long, and that was begun where this node did not know of it:
// in views in which it did not decide about it, or in a time of which nothing is known.
func (h *History) Blind(now time.Time, lasts time.Duration, decides func(*View) bool) time.Duration {
	if h.gap.IsZero() {
		return lasts
	}
	end := h.gap
	for i := len(h.periods) - 2; i >= 0 && now.Sub(h.periods[i+1].from) < lasts; i-- {
		if !decides(&h.periods[i].View) {
			end = h.periods[i+1].from
			break
		}
	}
	return max(0, end.Add(lasts).Sub(now))
}

// Ever says whether something holds for a view of the last while and the time in which it was in force.
func (h *History) Ever(now time.Time, holds func(v *View, from, until time.Time) bool) bool {
	until := now
	for _, p := range slices.Backward(h.periods) {
		if holds(&p.View, p.from, until) {
			return true
		}
		until = p.from
	}
	return false
}
