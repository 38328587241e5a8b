package assign

import (
	"net/netip"
	"time"
)

// random draws a node for each server by rendezvous: a node that joins or leaves moves nothing but its own share. It asks
// for nothing.
type random struct {
	servers []Server
	ids     []string
}

func newRandom(b Batch, v View) *random {
	r := &random{servers: b.Servers}
	r.SetView(v, time.Time{})
	return r
}

func (r *random) Name() string                           { return Random }
func (r *random) Asks(time.Time) []Ask                   { return nil }
func (r *random) Next(time.Time) (time.Time, bool)       { return time.Time{}, false }
func (r *random) Observe(Result, time.Time)              {}
func (r *random) Memory(server netip.Addr) *Memory       { return remembered(r.servers, server) }
func (r *random) SetView(v View, _ time.Time)            { r.ids = ids(v.sorted()) }
func (r *random) Decide(time.Time) (p []Choice, ok bool) { return drawAll(r.servers, r.ids), true }

func (r *random) Conclude(now time.Time) []Choice {
	choices, _ := r.Decide(now)
	return choices
}

// ids are the ids of nodes.
func ids(nodes []Node) []string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.ID
	}
	return list
}

// draw is the random choice for a server.
func draw(s Server, ids []string) Choice {
	c := Choice{Server: s.Addr, Node: Rendezvous(s.Addr.String(), ids), Reason: randomReason}
	if c.Node == "" {
		c.Reason = noNode
	}
	return c
}

const (
	noNode       = "there is no node to choose"
	randomReason = "random draw"
)

func drawAll(servers []Server, ids []string) []Choice {
	choices := make([]Choice, len(servers))
	for i, s := range servers {
		choices[i] = draw(s, ids)
	}
	return choices
}

// remembered is the memory that came with a server, nil if it is empty.
func remembered(servers []Server, addr netip.Addr) *Memory {
	for i := range servers {
		if servers[i].Addr == addr && !servers[i].Memory.Empty() {
			return &servers[i].Memory
		}
	}
	return nil
}
