package assign

import (
	"math"
	"testing"
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
