package assign

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"proxima/ncoord"
)

// Zones are neighbours that have a face in common, not an edge or a corner, wherever they lie apart.
func TestCANNeighbours(t *testing.T) {
	box := func(least, most float64) *zone {
		return &zone{least: spot{least, least, least, least}, most: spot{most, most, most, most}}
	}
	for d := range box(0, 1).least {
		for _, c := range []struct {
			least, most float64 // in one dimension; like the other in the rest
			want        bool
		}{{1, 2, true}, {-1, 0, true}, {1.5, 2, false}, {-1, -0.5, false}, {0.5, 2, false}} {
			z := box(0, 1)
			z.least[d], z.most[d] = c.least, c.most
			if got := z.neighbour(box(0, 1)); got != c.want {
				t.Errorf("from %v to %v in dimension %d: %t", c.least, c.most, d, got)
			}
		}
	}
	if box(0, 1).neighbour(box(1, 2)) {
		t.Error("zones that touch at a corner are neighbours")
	}
	for _, apart := range [][2]float64{{-2, -1}, {2, 3}} { // in one dimension, though level in another
		z := box(0, 1)
		z.least[0], z.most[0], z.least[1], z.most[1] = 1, 2, apart[0], apart[1]
		if z.neighbour(box(0, 1)) {
			t.Errorf("zones that lie apart, %v, are neighbours", apart)
		}
	}
}

// The most loaded zone is split: of all (gh), or of the newcomer's and its neighbours (nh). A zone that is too small to be split keeps its owner.
func TestCANSplitsTheMostLoaded(t *testing.T) {
	for policy, want := range map[string]int{CANNH: 1, CANGH: 2} {
		c := &can{cfg: CANConfig{Policy: policy}}
		for i := range 3 { // in a row
			z := &zone{most: spot{0, 1, 1, 1}, servers: make([]spot, i)}
			z.least[0], z.most[0] = float64(i), float64(i+1)
			c.zones = append(c.zones, z)
		}
		c.enter("newcomer", spot{0.5}, false)
		for i, z := range c.zones {
			if (z.splits > 0) != (i == want) {
				t.Errorf("%s: zone %d was split %d times, want zone %d", policy, i, z.splits, want)
			}
		}
	}
	const least = math.SmallestNonzeroFloat64
	tiny := &zone{most: spot{least, least, least, least}}
	if half := (&can{cfg: CANConfig{Policy: CANDL}, zones: []*zone{tiny}}).enter("newcomer", spot{}, false); half.contains(spot{}) || !tiny.contains(spot{}) {
		t.Errorf("the owner has %v, the newcomer %v", tiny, half)
	}
	if _, cut, upper := (&zone{most: spot{4, 4, 4, 4}}).cut(CANMP, spot{least}, "newcomer"); cut != least || !upper {
		t.Errorf("beside its owner a newcomer gets the zone from %v, the upper one: %v", cut, upper)
	}
	low := &zone{most: spot{4, 4, 4, 4}, servers: []spot{{0, 1}, {0, 1}, {1, 1}}}
	for splits, want := range []float64{2, 1} { // in the middle where the median is at the border
		low.splits = splits
		if d, cut, _ := low.cut(CANMPP, spot{}, ""); d != splits || cut != want {
			t.Errorf("dimension %d is split at %v, want %v", d, cut, want)
		}
	}
}

// A zone is split in each dimension that has an extent in turn.
func TestCANDimensionsInTurn(t *testing.T) {
	var turns []int
	z := &zone{most: spot{8, 8, 8}} // the fourth has none
	for z.splits = range 6 {
		d, _, _ := z.cut(CANDL, spot{}, "newcomer")
		turns = append(turns, d)
	}
	if want := []int{0, 1, 2, 0, 1, 2}; !slices.Equal(turns, want) {
		t.Errorf("it is split in the dimensions %v, want %v", turns, want)
	}
}

// canWorld is nodes and servers in clusters of a flat world, where probes are distances.
func canWorld(seed uint64, nodes, servers int) (Batch, View, bench) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	at := func() (c ncoord.Coordinate) {
		c.Error = 0.1
		for i := range 3 {
			c.Vec[i] = float64(rnd.IntN(4))*60 + 10*rnd.NormFloat64()
		}
		return c
	}
	var b Batch
	var v View
	times := bench{}
	for i := range nodes {
		v.Nodes = append(v.Nodes, Node{ID: fmt.Sprintf("n%03d", i), Coord: at()})
	}
	for i := range servers {
		addr, place := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), at()
		b.Servers = append(b.Servers, Server{Addr: addr})
		times[addr.String()] = map[string]float64{}
		for _, n := range v.Nodes {
			times[addr.String()][n.ID] = max(0.1, ncoord.Distance(n.Coord, place))
		}
	}
	return b, v, times
}

// Each node has a zone of its own, and the zones are the whole box. By the policy mp each node is in its own zone, unless several are at one
// place. A server goes to the node of the zone that it is in.
func TestCANZones(t *testing.T) {
	for _, policy := range canPolicies() {
		for _, paired := range []bool{false, true} {
			inZone, nodes := 0, 0
			for seed := range uint64(3) {
				b, v, times := canWorld(seed, 60, map[bool]int{false: 24, true: 2}[paired])
				for i := range v.Nodes {
					if paired {
						v.Nodes[i].Coord = v.Nodes[i/2*2].Coord
					}
				}
				a := newProber(&can{cfg: CANConfig{Policy: policy, Landmarks: 6}}, b, v)
				choices, _ := times.decide(t, a)
				c := a.method.(*can)
				if len(c.zones) != len(v.Nodes) {
					t.Fatalf("%s: %d zones for %d nodes", policy, len(c.zones), len(v.Nodes))
				}
				box := *c.zones[0]
				for _, z := range c.zones {
					for d := range box.least {
						box.least[d], box.most[d] = min(box.least[d], z.least[d]), max(box.most[d], z.most[d])
					}
				}
				volume := 0.0
				for _, z := range c.zones {
					part := 1.0
					for d := range 3 { // the fourth has no extent
						part *= max(0, z.most[d]-z.least[d]) / (box.most[d] - box.least[d])
					}
					volume += part
					if slices.ContainsFunc(z.servers, func(at spot) bool { return !z.contains(at) }) {
						t.Errorf("%s: the zone of %s counts servers of others", policy, z.node)
					}
				}
				if volume < 0.999 || volume > 1.001 {
					t.Errorf("%s: the zones are %v of the box", policy, volume)
				}
				for _, n := range v.Nodes {
					nodes++
					at := box.clamp(spot(n.Coord.Vec))
					holders := slices.DeleteFunc(slices.Clone(c.zones), func(z *zone) bool { return !z.contains(at) })
					if len(holders) != 1 {
						t.Fatalf("%s: %s is in %d zones", policy, n.ID, len(holders))
					}
					if holders[0].node == n.ID {
						inZone++
					}
				}
				for s, at := range c.places {
					if got := zoneAt(c.zones, at).node; got != choices[s.Addr.String()].Node {
						t.Errorf("%s: %s is in the zone of %s and went to %s", policy, s.Addr, got, choices[s.Addr.String()].Node)
					}
				}
			}
			share := float64(inZone) / float64(nodes)
			t.Logf("%s: %.0f %% of the nodes are in their own zones, pairs at one place: %v", policy, 100*share, paired)
			if !paired && policy == CANMP && share != 1 || policy != CANMP && share > 0.9 {
				t.Errorf("%s: too few, or too many, nodes are in their own zones", policy)
			}
		}
	}
}

// One landmark does not tell where a server is, two do. One that has not answered, or has no place, is none.
func TestCANNeedsTwoLandmarks(t *testing.T) {
	for landmarks, want := range map[int]bool{1: false, 2: true} {
		b, v, times := canWorld(3, 30, 1)
		a := newProber(&can{cfg: CANConfig{Policy: CANMP, Landmarks: 4}}, b, v)
		times.decide(t, a)
		c := a.method.(*can)
		c.landmarks = c.landmarks[2-landmarks:]
		a.servers[0].times[c.landmarks[landmarks]] = unanswered
		View{c.nodes}.find(c.landmarks[landmarks+1]).Coord = ncoord.Coordinate{}
		if _, ok := c.locate(a.servers[0]); ok != want {
			t.Errorf("with %d landmarks: placed %v", landmarks, ok)
		}
	}
}

// Zones are made when the landmarks have probed all servers. A dimension counts if any node uses it.
func TestCANWaitsForAllPlaces(t *testing.T) {
	b, v, times := canWorld(3, 10, 5)
	a := newProber(&can{cfg: CANConfig{Policy: CANMP, Landmarks: 3}}, b, v)
	for range 10 {
		for _, ask := range a.Asks(time.Time{}) {
			if ask.Server != b.Servers[4].Addr {
				d := time.Duration(times[ask.Server.String()][ask.Node] * 1e6)
				a.Observe(Result{Ask: ask, OK: true, Timing: Timing{Connect: d, FirstByte: d, Total: 3 * d}}, time.Time{})
			}
		}
	}
	if c := a.method.(*can); c.zones != nil {
		t.Errorf("it has made %d zones without a place of the last server", len(c.zones))
	}
	if n := dims([]Node{{Coord: ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{0, 0, 1}}}, {Coord: ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{1}}}}); n != 3 {
		t.Errorf("%d dimensions, want 3", n)
	}
}

// The box holds all spots but the outliers, one in twenty, which are farthest from the middle.
func TestCANBox(t *testing.T) {
	all := []spot{{0}}
	for i := range 19 {
		all = append(all, spot{100 + float64(i)})
	}
	if box := boxOf(all); box.least[0] != 100 || box.contains(spot{0}) || !box.contains(spot{118}) || box.contains(spot{118.001}) {
		t.Errorf("the box is %v", box)
	}
}
