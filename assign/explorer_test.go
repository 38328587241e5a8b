package assign_test

import (
	"math/rand/v2"
	"testing"

	"proxima/assign"
)

func TestExplorerAsksWhoWasSlow(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	cfg := assign.Default()
	others := 0
	for seed := range uint64(10) {
		o := newOwned(t, seed)
		node, ok := assign.Explorer(cfg, o.m, o.View(), o.owner, rnd.Float64)
		scout, better := assign.Scout(cfg, o.m, o.View(), o.owner)
		switch {
		case better && node != scout:
			t.Errorf("seed %d: explorer %q, scout %q", seed, node, scout)
		case ok && node == o.owner:
			t.Errorf("seed %d: the owner explores", seed)
		}
		if better {
			continue
		}
		others++
		// Nobody promises to be faster: all that have downloaded are asked now and then, the fast ones more often.
		asked := map[string]int{}
		for range 2000 {
			node, _ := assign.Explorer(cfg, o.m, o.View(), o.owner, rnd.Float64)
			asked[node]++
		}
		best, most := "", 0
		for _, p := range assign.Predictions(o.m, o.View()) {
			switch {
			case p.Node == o.owner:
			case (p.Seen > 0) != (asked[p.Node] > 0):
				t.Errorf("seed %d: %s has downloaded %d pages and was asked %d times", seed, p.Node, p.Seen, asked[p.Node])
			case p.Seen > 0 && best == "": // predictions come best first
				best, most = p.Node, asked[p.Node]
			case asked[p.Node] > most+most/5+20:
				t.Errorf("seed %d: %s was asked %d times, %s, the faster one, %d times", seed, p.Node, asked[p.Node], best, most)
			}
		}
	}
	if others == 0 {
		t.Error("somebody always promised to be faster: nothing was drawn")
	}
}
