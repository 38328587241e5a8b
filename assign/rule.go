package assign

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"proxima/ncoord"
)

// rule is a method that needs no probes: it chooses for all servers at once, again whenever the nodes change. It is not
// asked without a node.
type rule func(servers []*probed, nodes []Node) []Choice

func (r rule) join(nodes []Node, servers []*probed) {
	if len(nodes) == 0 {
		return
	}
	for i, c := range r(servers, nodes) {
		servers[i].choice = &c
	}
}

func (r rule) step(*probed) (string, *Choice) { return "", nil } // join has settled all

const randomReason = "random draw"

// draw picks a node for a server by rendezvous.
func draw(s Server, ids []string) Choice {
	return Choice{Server: s.Addr, Node: Rendezvous(s.Addr.String(), ids), Reason: randomReason}
}

// random draws a node for each server by rendezvous. When a node joins or leaves, only its own share moves.
func random(servers []*probed, nodes []Node) []Choice {
	choices := make([]Choice, len(servers))
	list := ids(nodes)
	for i, s := range servers {
		choices[i] = draw(s.Server, list)
	}
	return choices
}

// geographic gives each server to the node at the shortest great-circle distance. If the server or all nodes have no location, it draws
// a node. The reason says how many servers of the batch were drawn.
func geographic(servers []*probed, nodes []Node) []Choice {
	choices := make([]Choice, len(servers))
	missing := 0
	for i, s := range servers {
		var ok bool
		if choices[i], ok = nearestByGround(s.Server, nodes); !ok {
			choices[i] = draw(s.Server, ids(nodes))
			missing++
		}
	}
	for i := range choices {
		if choices[i].Reason == randomReason {
			choices[i].Reason = fmt.Sprintf("no location: random draw (%d of %d servers)", missing, len(choices))
		}
	}
	return choices
}

// nearestByGround chooses by great-circle distance. ok is false if the server or all nodes lack a valid location.
func nearestByGround(s Server, nodes []Node) (c Choice, ok bool) {
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

// choose is the consistent hashing of UbiCrawler (P. Boldi, B. Codenotti, M. Santini, S. Vigna: UbiCrawler, a scalable
// fully distributed web crawler, 2004, section 5). Each node has replicas at pseudo-random points of a circle, and a host
// belongs to the node of the closest replica. When a node joins, it gets about its share of the hosts, and all others stay.
//
// The hosts of a server must stay together, so the alphabetically first of their names is hashed.
func (cfg HashConfig) choose(servers []*probed, nodes []Node) []Choice {
	circle := newCircle(nodes, cfg.Replicas)
	choices := make([]Choice, len(servers))
	for i, s := range servers {
		name := s.Addr.String()
		if len(s.Hosts) > 0 {
			name = slices.MinFunc(s.Hosts, func(a, b Host) int { return strings.Compare(a.Name, b.Name) }).Name
		}
		choices[i] = Choice{Server: s.Addr, Node: circle.closest(weight("host", name)),
			Reason: fmt.Sprintf("closest replica to the hash of %s", name)}
	}
	return choices
}

// circle has the replicas of all nodes, ordered by their points.
type circle []replica

// replica is a point of a node on the circle.
type replica struct {
	point uint64
	node  string
}

// newCircle puts each node at so many points.
func newCircle(nodes []Node, replicas int) circle {
	var c circle
	for _, n := range nodes {
		for i := range replicas {
			c = append(c, replica{weight(strconv.Itoa(i), n.ID), n.ID})
		}
	}
	slices.SortFunc(c, func(a, b replica) int {
		return cmp.Or(cmp.Compare(a.point, b.point), strings.Compare(a.node, b.node))
	})
	return c
}

// closest returns the node of the replica closest to a point in either direction.
func (c circle) closest(point uint64) string {
	i, _ := slices.BinarySearchFunc(c, point, func(r replica, p uint64) int { return cmp.Compare(r.point, p) })
	after, before := c[i%len(c)], c[(i+len(c)-1)%len(c)]
	if point-before.point <= after.point-point { // unsigned differences wrap around the circle
		return before.node
	}
	return after.node
}
