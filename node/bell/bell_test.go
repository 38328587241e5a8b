package bell

import (
	"testing"
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
