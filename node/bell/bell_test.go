package bell

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The pause doubles up to a second, and is random in its second half.
func TestBackoff(t *testing.T) {
	const first = 250 * time.Millisecond
	for n, most := range map[int]time.Duration{1: first, 2: 2 * first, 3: time.Second, 4: time.Second, 100: time.Second} {
		least, longest := time.Hour, time.Duration(0)
		for range 2000 {
			d := Backoff(n, first, time.Second)
			least, longest = min(least, d), max(longest, d)
		}
		if least < most/2 || least > most*51/100 || longest > most || longest < most*99/100 {
			t.Errorf("failure %d: between %v and %v", n, least, longest)
		}
	}
}

// Each calls for all, for no more than some at once, and returns after the last.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most, all atomic.Int64
		Each(3, make([]int, 10), func(int) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Second)
			now.Add(-1)
			all.Add(1)
		})
		if now.Load() != 0 || most.Load() != 3 || all.Load() != 10 {
			t.Errorf("%d calls go on, %d were made at once, %d in all", now.Load(), most.Load(), all.Load())
		}
		Each(3, nil, func(int) { t.Error("a call for nothing") })
	})
}
