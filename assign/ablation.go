package assign

import (
	"fmt"
	"slices"
	"strings"
)

// Ablation is a set of ingredients of nearest that are left out, to measure what each is worth. The zero value leaves out
// none. It is for simulations only: no configuration file has it.
type Ablation uint32

// The ingredients, in the order of ablationNames.
const (
	withoutConnect Ablation = 1 << iota
	withoutKernel
	withoutStated
	withoutBeside
	withoutHeights
	withoutAnywhere
	withoutFactors
	withoutBatch
	withoutPairs
	withoutExpectation
	withoutExplore
	withoutStop
	withoutBalance
	withoutNeighbours
)

var ablationNames = [...]string{"connect", "kernel", "stated", "beside", "heights", "anywhere", "factors", "batch", "pairs",
	"expectation", "explore", "stop", "balance", "neighbours"}

// Ablations are the names of the ingredients that can be left out:
//
//	connect      connect times tell round trips: without, only times to the first byte do
//	kernel       nodes near to each other share detours
//	stated       the location that a database states
//	beside       the server may be beside one of the nodes
//	heights      heights of coordinates may be ways that every round trip takes
//	anywhere     what is expected where nothing fits follows the overlay's own round trips, node by node
//	factors      what nodes publish about their load and bandwidth
//	batch        what servers show about a node that publishes nothing counts for the others
//	pairs        what a node showed at a server besides the model
//	expectation  nodes are ranked by expected time: without, by the median
//	explore      the next estimator is the lowest prediction less deviations: without, the lowest prediction
//	stop         estimates end when one more is worth too little: without, all are used
//	neighbours   servers of the same network are in the same place, mostly
//	balance      nodes share a batch: without, each server goes to the least predicted time
func Ablations() []string { return slices.Clone(ablationNames[:]) }

// ParseAblation reads names separated by commas; the empty text leaves out nothing.
func ParseAblation(text string) (Ablation, error) {
	var a Ablation
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		i := slices.Index(ablationNames[:], name)
		if i < 0 {
			return 0, fmt.Errorf("parse ablation: %q is none of %s", name, strings.Join(ablationNames[:], ", "))
		}
		a |= 1 << i
	}
	return a, nil
}

// String is what ParseAblation reads.
func (a Ablation) String() string {
	var names []string
	for i, name := range ablationNames {
		if a.has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func (a Ablation) has(ingredient Ablation) bool { return a&ingredient != 0 }
