package ncoord_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/serf/coordinate"

	"proxima/ncoord"
)

// space is a system of coordinates as an experiment sees it.
type space interface {
	observe(node, peer int, ms float64, now time.Time)
	distance(a, b int) float64
}

// ours is a space of this package.
type ours struct {
	nodes     []*ncoord.Node
	names     []string
	published bool // distances by what is published, as choices are made
}

func newOurs(n int, seed uint64) *ours {
	s := &ours{}
	for i := range n {
		s.nodes = append(s.nodes, ncoord.NewNode(rand.New(rand.NewPCG(seed, uint64(i)))))
		s.names = append(s.names, strconv.Itoa(i))
	}
	return s
}

func (s *ours) observe(node, peer int, ms float64, now time.Time) {
	// A refused sample moves nothing: what the test then sees.
	_ = s.nodes[node].Observe(s.names[peer], s.nodes[peer].Coordinate(), nil, duration(ms), now)
	if s.published {
		s.nodes[node].Publish(now)
	}
}

func (s *ours) distance(a, b int) float64 {
	if s.published {
		return ncoord.Distance(s.nodes[a].Published(), s.nodes[b].Published())
	}
	return ncoord.Distance(s.nodes[a].Coordinate(), s.nodes[b].Coordinate())
}

// serfs is a space of serf's package with its defaults.
type serfs struct {
	clients []*coordinate.Client
	names   []string
}

func newSerfs(t testing.TB, n int) *serfs {
	s := &serfs{}
	for i := range n {
		c, err := coordinate.NewClient(coordinate.DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		s.clients = append(s.clients, c)
		s.names = append(s.names, strconv.Itoa(i))
	}
	return s
}

func (s *serfs) observe(node, peer int, ms float64, _ time.Time) {
	_, _ = s.clients[node].Update(s.names[peer], s.clients[peer].GetCoordinate(), duration(ms))
}

func (s *serfs) distance(a, b int) float64 {
	return float64(s.clients[a].DistanceTo(s.clients[b].GetCoordinate())) / float64(time.Millisecond)
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// neighbours draws up to most measurable peers for each node.
func neighbours(m matrix, most int, rnd *rand.Rand) [][]int {
	all := make([][]int, len(m))
	for i := range m {
		for _, k := range rnd.Perm(len(m)) {
			if k != i && m[i][k] > 0 && len(all[i]) < most {
				all[i] = append(all[i], k)
			}
		}
	}
	return all
}

// run lets every node measure one of its neighbours, drawn, in each round; a round is a second.
func run(m matrix, s space, peers [][]int, rounds int, rnd *rand.Rand) {
	for r := range rounds {
		now := start.Add(time.Duration(r) * time.Second)
		for i := range m {
			k := peers[i][rnd.IntN(len(peers[i]))]
			s.observe(i, k, m[i][k], now)
		}
	}
}

// unmeasured gives the relative errors of all pairs that none of the two has measured, sorted.
func unmeasured(m matrix, s space, peers [][]int) []float64 {
	var errs []float64
	for i := range m {
		for k := range i {
			if m[i][k] > 0 && !slices.Contains(peers[i], k) && !slices.Contains(peers[k], i) {
				errs = append(errs, math.Abs(s.distance(i, k)-m[i][k])/m[i][k])
			}
		}
	}
	slices.Sort(errs)
	return errs
}

func percentile(sorted []float64, p float64) float64 {
	return sorted[int(p*float64(len(sorted)-1))]
}

// nearest lets every node choose the nearest of so many others, drawn, some times over: the share chosen right and
// the mean loss in ms.
func nearest(m matrix, s space, of int, rnd *rand.Rand) (right, loss float64) {
	const times = 20
	total := 0
	for range times {
		for i, near := range neighbours(m, of, rnd) {
			best := slices.MinFunc(near, func(a, b int) int { return cmp.Compare(m[i][a], m[i][b]) })
			chosen := slices.MinFunc(near, func(a, b int) int { return cmp.Compare(s.distance(i, a), s.distance(i, b)) })
			if m[i][chosen] <= m[i][best] {
				right++
			}
			loss += m[i][chosen] - m[i][best]
			total++
		}
	}
	return right / float64(total), loss / float64(total)
}
