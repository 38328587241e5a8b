package assign

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"proxima/ncoord"
)

// geographic gives each server to the node at the least distance over the ground. Servers without a location, and all
// servers where no node has one, are drawn at random; the reason says so and how many in the batch there are. It asks for
// nothing.
type geographic struct {
	servers []Server
	nodes   []Node
}

func newGeographic(b Batch, v View) *geographic {
	return &geographic{servers: b.Servers, nodes: v.sorted()}
}

func (g *geographic) Name() string                     { return Geographic }
func (g *geographic) Asks(time.Time) []Ask             { return nil }
func (g *geographic) Next(time.Time) (time.Time, bool) { return time.Time{}, false }
func (g *geographic) Observe(Result, time.Time)        {}
func (g *geographic) SetView(v View, _ time.Time)      { g.nodes = v.sorted() }
func (g *geographic) Memory(server netip.Addr) *Memory { return remembered(g.servers, server) }

func (g *geographic) Decide(time.Time) ([]Choice, bool) {
	missing := 0
	choices := make([]Choice, len(g.servers))
	for i, s := range g.servers {
		c, ok := nearestByGround(s, g.nodes)
		if !ok {
			c = draw(s, ids(g.nodes))
			if c.Node != "" {
				missing++
			}
		}
		choices[i] = c
	}
	for i := range choices {
		if choices[i].Reason == randomReason && missing > 0 {
			choices[i].Reason = fmt.Sprintf("no location: random draw (%d of %d servers)", missing, len(choices))
		}
	}
	return choices, true
}

func (g *geographic) Conclude(now time.Time) []Choice {
	choices, _ := g.Decide(now)
	return choices
}

// nearestByGround is the choice by great circle, false if server or nodes have no valid location.
func nearestByGround(s Server, nodes []Node) (Choice, bool) {
	if s.Location == nil || !s.Location.Valid() {
		return Choice{}, false
	}
	best, least := "", math.Inf(1)
	for _, n := range nodes {
		if n.Location != nil && n.Location.Valid() {
			if km := ncoord.GreatCircleKm(*n.Location, *s.Location); km < least {
				best, least = n.ID, km
			}
		}
	}
	if best == "" {
		return Choice{}, false
	}
	return Choice{Server: s.Addr, Node: best, Reason: fmt.Sprintf("nearest over the ground: %.0f km", least)}, true
}
