package assign

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"proxima/ncoord"
)

// The values of CANConfig.Policy: which zone a newcomer splits, and where.
const (
	CANDL     = "dl"       // the zone at the newcomer's place, in the middle, in each dimension in turn
	CANMPP    = "mpp"      // the same zone, at the median of its servers
	CANNH     = "nh"       // the most loaded of that zone and its neighbours
	CANGH     = "gh"       // the most loaded of all zones
	CANMP     = "mp"       // the zone at the newcomer's place, between the newcomer and its owner
	CANMPThen = "mp_30_nh" // mp for the first 30 % of the nodes, then nh
	CANDLThen = "dl_30_nh" // dl for the first 30 %, then nh
)

// canPolicies lists the values of CANConfig.Policy.
func canPolicies() []string {
	return []string{CANDL, CANMPP, CANNH, CANGH, CANMP, CANMPThen, CANDLThen}
}

const (
	canOutliers = 0.05 // share of hosts that are moved to the border of the others
	canSwitch   = 0.3  // share of the nodes that join before a two-part policy switches
	canStarts   = 5    // number of landmarks from which the search for a server's place starts
)

// can gives each server to the node whose zone of the coordinate space it lies in (X. Xu, W. Zhang, H. Zhang, B. Fang: Exploiting
// Location-aware Mechanism for Distributed Web Crawling over DHTs, 2010). Nodes join one after another, and each takes over half
// of a zone, by the policy. A few nodes, the landmarks, probe each server; its place is the one of the least squared relative
// error (T. S. E. Ng, H. Zhang: Predicting Internet Network Distance with Coordinates-Based Approaches, 2002).
//
// The paper leaves some details open. Here nodes join in an order drawn from their ids, at the coordinates that they publish. All
// servers of the batch are present before the first join. The newcomer's half is the one with its own place (mp), or drawn (the other
// policies).
type can struct {
	cfg       CANConfig
	nodes     []Node
	landmarks []string
	servers   []*probed
	zones     []*zone          // nil until all landmarks have answered
	places    map[*probed]spot // of the servers that could be placed
}

// spot is a place in the coordinate space, without height.
type spot [ncoord.MaxDims]float64

// zone is a half-open box.
type zone struct {
	least, most spot
	node        string // the owner
	at          spot   // place of the owner; an outlier's is moved to the border
	servers     []spot // in the zone
	splits      int
}

// join begins anew: the nodes, and with them the zones and landmarks, have changed.
func (c *can) join(nodes []Node, servers []*probed) {
	c.nodes, c.servers, c.zones = nodes, servers, nil
	c.landmarks = RendezvousOrder("landmark", ids(nodes), c.cfg.Landmarks)
}

// step has all landmarks probe each server before the space is divided.
func (c *can) step(s *probed) (string, *Choice) {
	if landmark := c.missing(s); landmark != "" {
		return landmark, nil
	}
	if c.zones == nil {
		if slices.ContainsFunc(c.servers, func(s *probed) bool { return c.missing(s) != "" }) {
			return "", nil // zones need the places of all servers
		}
		c.divide()
	}
	at, ok := c.places[s]
	if !ok {
		return "", new(s.fastestOf(ids(c.nodes), "no place found, fastest landmark"))
	}
	z := zoneAt(c.zones, at)
	return "", &Choice{Node: z.node, Reason: fmt.Sprintf("in its zone, by %s", c.cfg.Policy)}
}

// missing returns a landmark that has not probed s, or "".
func (c *can) missing(s *probed) string {
	for _, id := range c.landmarks {
		if s.times[id] == 0 {
			return id
		}
	}
	return ""
}

// divide places the servers and lets the nodes join.
func (c *can) divide() {
	c.places = make(map[*probed]spot)
	var all []spot
	for _, n := range c.nodes {
		all = append(all, spot(n.Coord.Vec))
	}
	for _, s := range c.servers {
		if at, ok := c.locate(s); ok {
			c.places[s] = at
			all = append(all, at)
		}
	}
	box := boxOf(all)
	first := &zone{least: box.least, most: box.most}
	for s, at := range c.places {
		c.places[s] = first.clamp(at)
		first.servers = append(first.servers, c.places[s])
	}
	order := RendezvousOrder("join", ids(c.nodes), len(c.nodes))
	for i, id := range order {
		at := box.clamp(spot(View{c.nodes}.find(id).Coord.Vec))
		if i == 0 {
			first.node, first.at = id, at
			c.zones = []*zone{first}
			continue
		}
		c.zones = append(c.zones, c.enter(id, at, float64(i) < canSwitch*float64(len(order))))
	}
}

// locate returns the place with the least squared relative error of the landmarks' probes. ok is false if fewer than two landmarks
// with coordinates answered.
func (c *can) locate(s *probed) (spot, bool) {
	type landmark struct {
		coord ncoord.Coordinate
		ms    float64
	}
	var marks []landmark
	for _, id := range c.landmarks {
		if n := (View{c.nodes}).find(id); known(n.Coord) && s.times[id] < unanswered {
			marks = append(marks, landmark{n.Coord, s.times[id]})
		}
	}
	if len(marks) < 2 {
		return spot{}, false
	}
	slices.SortStableFunc(marks, func(a, b landmark) int { return cmp.Compare(a.ms, b.ms) })
	// x has the dimensions that some node uses (the others remain zero), and then the height.
	at := func(x []float64) (coord ncoord.Coordinate) {
		copy(coord.Vec[:dims(c.nodes)], x)
		coord.Height = math.Abs(x[len(x)-1])
		return coord
	}
	cost := func(x []float64) (sum float64) {
		for _, m := range marks {
			e := (ncoord.Distance(m.coord, at(x)) - m.ms) / m.ms
			sum += e * e
		}
		return sum
	}
	var best spot
	least := math.Inf(1)
	for _, m := range marks[:min(canStarts, len(marks))] {
		x, f := descend(cost, append(slices.Clone(m.coord.Vec[:dims(c.nodes)]), 0))
		if f < least {
			best, least = spot(at(x).Vec), f
		}
	}
	return best, true
}

// dims returns the number of dimensions that nodes use.
func dims(nodes []Node) (n int) {
	for _, node := range nodes {
		for d, x := range node.Coord.Vec {
			if x != 0 {
				n = max(n, d+1)
			}
		}
	}
	return n
}

// descend finds a local minimum near x. It moves along the axes in decreasing steps, in ms.
func descend(cost func([]float64) float64, x []float64) ([]float64, float64) {
	least := cost(x)
	for step := 64.0; step > 0.1; step /= 2 {
		for moved, rounds := true, 0; moved && rounds < 50; rounds++ {
			moved = false
			for i := range x {
				for _, by := range [2]float64{step, -step} {
					was := x[i]
					x[i] += by
					if c := cost(x); c < least {
						least, moved = c, true
					} else {
						x[i] = was
					}
				}
			}
		}
	}
	return x, least
}

// boxOf returns the bounding box of all spots except outliers, which are farthest from the median of a dimension. It sorts them.
func boxOf(all []spot) zone {
	var middle spot
	for d := range middle {
		middle[d] = median(all, d)
	}
	distance := func(s spot) (sum float64) {
		for d := range s {
			sum += (s[d] - middle[d]) * (s[d] - middle[d])
		}
		return sum
	}
	slices.SortFunc(all, func(a, b spot) int { return cmp.Compare(distance(a), distance(b)) })
	all = all[:len(all)-int(canOutliers*float64(len(all)))]
	box := zone{least: all[0], most: all[0]}
	for _, s := range all {
		for d := range s {
			box.least[d], box.most[d] = min(box.least[d], s[d]), max(box.most[d], s[d])
		}
	}
	for d := range box.most { // half-open, so that the last one is inside
		box.most[d] = math.Nextafter(box.most[d], math.Inf(1))
	}
	return box
}

// clamp moves a spot outside of z to its border.
func (z *zone) clamp(s spot) spot {
	for d := range s {
		s[d] = max(z.least[d], min(s[d], math.Nextafter(z.most[d], math.Inf(-1))))
	}
	return s
}

func (z *zone) contains(s spot) bool {
	for d := range s {
		if s[d] < z.least[d] || s[d] >= z.most[d] {
			return false
		}
	}
	return true
}

// zoneAt returns the zone that holds a spot. The zones cover the box, and s lies in it.
func zoneAt(zones []*zone, s spot) *zone {
	return zones[slices.IndexFunc(zones, func(z *zone) bool { return z.contains(s) })]
}

// neighbour reports whether two zones share a face.
func (z *zone) neighbour(o *zone) bool {
	touching := 0
	for d := range z.least {
		switch {
		case z.most[d] < o.least[d] || o.most[d] < z.least[d]:
			return false
		case z.most[d] == o.least[d] || o.most[d] == z.least[d]:
			touching++
		}
	}
	return touching == 1
}

// enter splits a zone for a node that joins, and returns the newcomer's half. early: a two-part policy has not switched yet.
func (c *can) enter(id string, at spot, early bool) *zone {
	policy := c.cfg.Policy
	switch {
	case policy == CANMPThen && early:
		policy = CANMP
	case policy == CANDLThen && early:
		policy = CANDL
	case policy == CANMPThen || policy == CANDLThen:
		policy = CANNH
	}
	own := zoneAt(c.zones, at)
	z := own
	for _, o := range c.zones {
		if (policy == CANGH || policy == CANNH && own.neighbour(o)) && len(o.servers) > len(z.servers) {
			z = o
		}
	}
	d, cut, upper := z.cut(policy, at, id)
	half := *z
	half.node, half.at = id, at
	if upper {
		half.least[d], z.most[d] = cut, cut
	} else {
		half.most[d], z.least[d] = cut, cut
	}
	z.splits++
	half.splits = z.splits
	half.servers = slices.DeleteFunc(slices.Clone(z.servers), z.contains)
	z.servers = slices.DeleteFunc(z.servers, half.contains)
	return &half
}

// cut says in which dimension and where z is split for a newcomer, and whether the newcomer gets the upper half. A zone too
// small to split stays whole, and the newcomer gets an empty zone.
func (z *zone) cut(policy string, at spot, id string) (d int, cut float64, upper bool) {
	if policy == CANMP {
		owner := z.clamp(z.at) // it may be outside of its zone if another node is at the same place
		for i := range at {
			if math.Abs(at[i]-owner[i]) > math.Abs(at[d]-owner[d]) {
				d = i
			}
		}
		if least := min(at[d], owner[d]); at[d] != owner[d] {
			cut = max(least+math.Abs(at[d]-owner[d])/2, math.Nextafter(least, math.Inf(1)))
			return d, cut, at[d] >= cut
		}
	}
	middle := func(d int) float64 { return z.least[d] + (z.most[d]-z.least[d])/2 }
	var open []int // dimensions in which the zone can be split
	for d := range at {
		if m := middle(d); m > z.least[d] && m < z.most[d] {
			open = append(open, d)
		}
	}
	if len(open) == 0 {
		return 0, z.most[0], true
	}
	d = open[z.splits%len(open)]
	cut = middle(d)
	if policy == CANMPP && len(z.servers) > 0 {
		if m := median(z.servers, d); m > z.least[d] {
			cut = m
		}
	}
	return d, cut, weight("half", id)%2 == 1
}

// median returns the median of some spots in one dimension, the upper one of two.
func median(all []spot, d int) float64 {
	values := make([]float64, len(all))
	for i, s := range all {
		values[i] = s[d]
	}
	slices.Sort(values)
	return values[len(values)/2]
}
