package compare

import (
	"maps"
	"math"
	"slices"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/ncoord"
	"proxima/node/journal"
)

// run is what is known of one run of nodes.
type run struct {
	source
	index   int
	truth   *rundir.Truth // nil without a world
	started time.Time
	nodes   []*node
	byID    map[string]int
	servers map[string]int // of the world, by address

	// compared says that several assigners decided the same batches; label is the one of a separate run.
	compared bool
	labels   uint16            // all that decided
	batches  map[uint64]uint16 // by the hash of their names, the assigners that decided them
	tallies  [maxLabels]*tally
	sizes    sizes
	crawl    crawlCounts
	first    time.Time // begin of the first page
	last     time.Time // end of the last
	space    *space
	plots    *plots
}

// node is one node of a run.
type node struct {
	name  string
	id    string
	world int // index in the world, -1 for none
	lives map[uint64]*lifeLogs

	pages, bytes int64 // answered
	busyMs       float64
	recent       recent
	path         *timeline[placed]
	speed, load  *timeline[cell]
}

// lifeLogs are the last counts of a boot.
type lifeLogs struct {
	stopped bool // in order
	queue   journal.Queue
	load    journal.Load
	rss     int64 // most
}

// placed is where a node was.
type placed struct {
	at    ncoord.Coordinate
	known bool
}

func laterPlace(earlier, later placed) placed {
	if later.known {
		return later
	}
	return earlier
}

func newRun(index int, s source) *run {
	r := &run{source: s, index: index, byID: map[string]int{}, servers: map[string]int{}, batches: map[uint64]uint16{}, sizes: sizes{}}
	if s.world != nil {
		r.truth, r.started = rundir.NewTruth(*s.world), s.world.Started
		for i, server := range s.world.Servers {
			r.servers[server.Addr.String()] = i
		}
	}
	r.space, r.plots = newSpace(), newPlots(s.world)
	return r
}

// node is the index of the node with an id; one that has no logs of its own yet is made without a name.
func (r *run) node(id string) int {
	if i, ok := r.byID[id]; ok {
		return i
	}
	r.byID[id] = len(r.nodes)
	r.nodes = append(r.nodes, &node{id: id, world: -1, lives: map[uint64]*lifeLogs{}, path: newTimeline(laterPlace), speed: newSums(),
		load: newSums()})
	return len(r.nodes) - 1
}

// own is node for a line in the node's own logs, whose folder has its name.
func (r *run) own(id, name string) int {
	i := r.node(id)
	if n := r.nodes[i]; n.name == "" {
		n.name = name
		if r.world != nil {
			n.world = slices.IndexFunc(r.world.Nodes, func(w rundir.Node) bool { return w.Name == name })
		}
	}
	return i
}

func (n *node) life(boot uint64) *lifeLogs {
	l := n.lives[boot]
	if l == nil {
		l = &lifeLogs{}
		n.lives[boot] = l
	}
	return l
}

// lastLife is the latest boot that is known of, nil for none.
func (n *node) lastLife() *lifeLogs {
	if len(n.lives) == 0 {
		return nil
	}
	return n.lives[slices.Max(slices.Collect(maps.Keys(n.lives)))]
}

// seconds since the start of the run.
func (r *run) seconds(t time.Time) float64 {
	if r.started.IsZero() {
		r.started = t
	}
	return t.Sub(r.started).Seconds()
}

// alive says which nodes of the world run at a moment.
func (r *run) alive(at time.Time) func(int) bool {
	return func(i int) bool { return r.truth.Alive(i, at) }
}

// expected are the times that a page should take at a node and at the best one, in ms; false where there is no truth.
func (r *run) expected(node uint16, server string, bytes int64, at time.Time) (here, best float64, bestNode int, ok bool) {
	if r.truth == nil || int(node) >= len(r.nodes) || r.nodes[node].world < 0 {
		return 0, 0, 0, false
	}
	k, known := r.servers[server]
	if !known {
		return 0, 0, 0, false
	}
	here = r.truth.DownloadMs(r.nodes[node].world, k, bytes, at)
	bestNode, best = r.truth.Best(k, bytes, at, r.alive(at))
	return here, best, bestNode, bestNode >= 0 && best > 0 && !math.IsInf(here, 0)
}

// tally is the tally of an assigner, made when first needed.
func (r *run) tally(label int) *tally {
	if r.tallies[label] == nil {
		r.tallies[label] = newTally()
	}
	return r.tallies[label]
}

// seed is that of the world; runs of logs without one go together.
func (r *run) seed() uint64 {
	if r.world == nil {
		return 0
	}
	return r.world.Seed
}
