package member

import (
	"slices"
	"time"

	"proxima/ncoord/quantile"
)

// trips are the latest round trips to a peer, in ms.
type trips struct {
	ms [8]float64
	n  int // how many there were, more than are kept
}

func (t *trips) add(d time.Duration) {
	t.ms[t.n%len(t.ms)] = float64(d) / float64(time.Millisecond)
	t.n++
}

// median is the middle one, the lower of two; 0 if there is none.
func (t *trips) median() float64 {
	kept := t.ms
	n := min(t.n, len(kept))
	if n == 0 {
		return 0
	}
	slices.Sort(kept[:n])
	return quantile.Of(kept[:n], .5)
}
