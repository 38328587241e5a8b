package view

import (
	"slices"
	"time"
)

// History remembers recent views. It is not safe for concurrent use.
type History struct {
	keep    time.Duration
	periods []period // oldest first, the last one is in force
	// gap is the end of the last time of which nothing is known: before the first view, or before the oldest view that is remembered.
	gap time.Time
}

// period is a view and the time when it came into force. Views with the same settled members and majority share one.
type period struct {
	View
	from time.Time
}

// maxPeriods bounds the views that are remembered. If members change faster, decisions only wait longer.
const maxPeriods = 64

// NewHistory makes a History that remembers views for some time after their end.
func NewHistory(keep time.Duration) *History { return &History{keep: keep} }

// Now returns the view in force. Before the first one it is empty.
func (h *History) Now() *View {
	if len(h.periods) == 0 {
		return &View{}
	}
	return &h.periods[len(h.periods)-1].View
}

// Since returns when the settled members or the majority last changed.
func (h *History) Since() time.Time {
	if len(h.periods) == 0 {
		return time.Time{}
	}
	return h.periods[len(h.periods)-1].from
}

// Set puts a view in force, and reports whether draws from it give other nodes, or the majority has changed.
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

// Begin forgets everything before a time. Nothing is then known of it.
func (h *History) Begin(at time.Time) {
	if n := len(h.periods); n > 0 {
		h.periods = slices.Delete(h.periods, 0, n-1)
		h.periods[0].from, h.gap = at, at
	}
}

// Blind returns how much longer something may last that began without this node's knowledge: in a view in which this node did not decide about
// it, or in a time of which nothing is known. lasts is how long such a thing lasts.
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

// Ever reports whether holds is true for a recent view and the time when it was in force.
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
