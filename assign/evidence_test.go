package assign

import (
	"math"
	"net/netip"
	"testing"
	"time"
)

// The hypotheses that remained of a field make the same field again: what they come with is what was believed before the
// connect times, which would count twice else.
func TestLikelyHypothesesComeAsTheyWere(t *testing.T) {
	at := func(ms float64) *place { return &place{log: math.Log(ms), sd: 0.3} }
	seen := []measured{{node: 0, y: math.Log(14), noise: 0.02}}
	rho := func(int, int) float64 { return 1 }
	f := newField(seen, rho, []hypothesis{{place: at(10), weight: 0.3}, {place: at(30), weight: 0.7}})
	again := newField(seen, rho, f.likely())
	for i, h := range again.hyps {
		if math.Abs(h.weight-f.hyps[i].weight) > 1e-9 {
			t.Errorf("hypothesis %d has weight %.3f, and then %.3f", i, f.hyps[i].weight, h.weight)
		}
	}
}

// The least connect time of a server is believed for one to two spans of time, and no longer.
func TestTripsAreBelievedForAWhile(t *testing.T) {
	var all trips
	server, begin := netip.MustParseAddr("192.0.2.1"), time.Unix(1_000_000, 0)
	for _, c := range []struct {
		at             time.Duration
		connect, least float64
	}{
		{0, 20, 20}, {tripSpan, 50, 20}, {tripSpan + time.Second, 50, 20}, {2*tripSpan + time.Second, 0, 20},
		{2*tripSpan + 2*time.Second, 70, 50}, {10 * tripSpan, 90, 70}, {11*tripSpan + time.Second, 90, 90},
	} {
		if got := all.take(server, c.connect, 5, begin.Add(c.at)); got.least != c.least {
			t.Errorf("after %v, connecting in %v ms: the least is %v ms, want %v", c.at, c.connect, got.least, c.least)
		}
	}
}
