package simulate

import (
	"math"
	"math/rand/v2"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

const (
	// round is the time between two rounds of asks. Answers come, and nodes publish, as often.
	round = 10 * time.Second
	// Every pingEvery, each node pings one random peer. It has done so warmUpPings times before anything is decided.
	pingEvery   = 5 * time.Second
	warmUpPings = 200
)

// overlay is what the nodes of a world know about themselves and publish. Each has its own coordinate and its own factors.
type overlay struct {
	world  *World
	coords []*ncoord.Node
	own    []*assign.Own
	// Factors take long to compute. They are published unchanged while a node downloads nothing; stale marks those to compute
	// again. heeded says whether the assigner uses them at all.
	factors []assign.Factors
	stale   []bool
	heeded  bool
	rnd     *rand.Rand
	now     time.Time
	view    assign.View // as last published
}

// newOverlay makes an overlay whose nodes have found their coordinates. heeded says whether the assigner uses factors.
func newOverlay(w *World, heeded bool) *overlay {
	o := &overlay{world: w, heeded: heeded, factors: make([]assign.Factors, len(w.nodes)), stale: make([]bool, len(w.nodes)),
		rnd: stream(w.seed, streamPings), now: time.Unix(1_000_000_000, 0)}
	for i, n := range w.nodes {
		c := ncoord.NewNode(stream(w.seed, streamPings+uint64(i+1)<<16))
		c.SetLocation(n.location)
		o.coords = append(o.coords, c)
		o.own = append(o.own, assign.NewOwn(assign.Factors{}))
	}
	for range warmUpPings {
		o.ping()
	}
	o.publish()
	return o
}

// ping lets every node measure the round trip to one peer.
func (o *overlay) ping() {
	o.now = o.now.Add(pingEvery)
	w := o.world
	for i := range o.coords {
		j := o.rnd.IntN(len(o.coords))
		if i == j {
			continue
		}
		a, b := &w.nodes[i], &w.nodes[j]
		ms := (w.matrix.RTT[a.city][b.city] + a.loadMs + b.loadMs) * math.Exp(pingSD*w.cfg.Noise*o.rnd.NormFloat64())
		// Real nodes, too, meet samples that are refused.
		_ = o.coords[i].Observe(b.id, o.coords[j].Coordinate(), b.location, time.Duration(ms*float64(time.Millisecond)), o.now)
	}
}

// learn lets a node learn from its own download. m is what it knows about the server; nil means nothing.
func (o *overlay) learn(node, server int, t assign.Timing, m *assign.Memory) {
	if !o.heeded {
		return
	}
	o.own[node].Observe(o.world.nodes[node].id, o.world.servers[server].addr, t, m, o.view, o.now)
	o.stale[node] = true
}

func (o *overlay) pass() {
	for range round / pingEvery {
		o.ping()
	}
	o.publish()
}

func (o *overlay) publish() {
	o.view.Nodes = make([]assign.Node, len(o.coords))
	for i, c := range o.coords {
		if o.stale[i] && o.heeded {
			o.factors[i], o.stale[i] = o.own[i].Factors(), false
		}
		coord, _ := c.Publish(o.now)
		o.view.Nodes[i] = assign.Node{ID: o.world.nodes[i].id, Coord: coord, Location: o.world.nodes[i].location, Factors: o.factors[i]}
	}
}
