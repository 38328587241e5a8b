package simulate

import (
	"math"
	"math/rand/v2"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

const (
	// round is the time from one round of asks to the next: answers come that often. Nodes publish as often.
	round = 10 * time.Second
	// Each node pings one random peer that often, and has done so for so many pings before anything is decided.
	pingEvery   = 5 * time.Second
	warmUpPings = 200
)

// overlay is what the nodes of a world know of themselves and publish. Each has its own coordinate and its own factors.
type overlay struct {
	world  *World
	coords []*ncoord.Node
	own    []*assign.Own
	// Factors take long to work out and are published as they were while a node downloads nothing; stale says whose are old.
	// They stay as they were where the assigner takes no notice of them.
	factors []assign.Factors
	stale   []bool
	heeded  bool
	rnd     *rand.Rand
	now     time.Time
	view    assign.View // as published last
}

// newOverlay lets the nodes find their coordinates first. heeded says whether the assigner takes notice of factors.
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

// ping lets every node measure one peer.
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
		// A sample that is refused moves nothing; nodes meet such samples in real life, too.
		_ = o.coords[i].Observe(b.id, o.coords[j].Coordinate(), b.location, time.Duration(ms*float64(time.Millisecond)), o.now)
	}
}

// learn lets a node learn from a download of its own from a server. m is what it knows of the server, nil for nothing.
func (o *overlay) learn(node, server int, t assign.Timing, m *assign.Memory) {
	if !o.heeded {
		return
	}
	o.own[node].Observe(o.world.nodes[node].id, o.world.servers[server].addr, t, m, o.view, o.now)
	o.stale[node] = true
}

// pass lets time pass until the next round, and the nodes publish.
func (o *overlay) pass() {
	for range round / pingEvery {
		o.ping()
	}
	o.publish()
}

func (o *overlay) publish() {
	nodes := make([]assign.Node, len(o.coords))
	for i, c := range o.coords {
		if o.stale[i] && o.heeded {
			o.factors[i], o.stale[i] = o.own[i].Factors(), false
		}
		coord, _ := c.Publish(o.now)
		nodes[i] = assign.Node{ID: o.world.nodes[i].id, Coord: coord, Location: o.world.nodes[i].location, Factors: o.factors[i]}
	}
	o.view = assign.View{Nodes: nodes}
}

// viewOf is what is published as a node sees it.
func (o *overlay) viewOf(node int) assign.View {
	v := assign.View{Nodes: append([]assign.Node(nil), o.view.Nodes...)}
	v.Nodes[node].Self = true
	return v
}
