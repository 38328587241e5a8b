package assign

import "slices"

// Ablation is a set of ingredients that nearest leaves out. It serves to measure the worth of each ingredient in simulations. The
// zero value leaves out none. No configuration file can set it.
type Ablation uint32

// The ingredients, in the order of ablationNames.
const (
	withoutConnect     Ablation = 1 << iota // connect times tell round trips; without them only times to the first byte do
	withoutKernel                           // nodes close to each other share detours
	withoutStated                           // the location that a database states
	withoutBeside                           // the server may stand beside one of the nodes
	withoutHeights                          // heights of coordinates may be distance, which every round trip pays
	withoutAnywhere                         // a server that fits nowhere is expected as far from a node as other nodes are
	withoutFactors                          // what nodes publish about their load and bandwidth
	withoutBatch                            // the batch tells load and bandwidth of nodes that publish nothing
	withoutPairs                            // what a node showed at a server beyond the model
	withoutExpectation                      // nodes are ranked by expected time; without it, by the median
	withoutExplore                          // the next estimator has the lowest prediction less deviations; without it, the lowest prediction
	withoutStop                             // estimates end when one more is worth too little; without it, all are used
	withoutBalance                          // nodes share a batch; without it, each server goes to the least predicted time
	withoutNeighbours                       // servers of one network mostly stand in one place
)

var ablationNames = [...]string{"connect", "kernel", "stated", "beside", "heights", "anywhere", "factors", "batch", "pairs",
	"expectation", "explore", "stop", "balance", "neighbours"}

// Ablations lists the names of the ingredients that can be left out. The i-th is left out by 1 << i.
func Ablations() []string { return slices.Clone(ablationNames[:]) }

func (a Ablation) has(ingredient Ablation) bool { return a&ingredient != 0 }
