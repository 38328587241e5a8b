package ncoord_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/serf/coordinate"

	"proxima/ncoord"
)

// traffic is what both packages are measured with: samples of 32 peers spread over 200 ms, with jitter.
type traffic struct {
	names [32]string
	at    [32]ncoord.Coordinate
	serf  [32]*coordinate.Coordinate
	rtts  [1024]time.Duration
}

func newTraffic() *traffic {
	rnd := rand.New(rand.NewPCG(1, 2))
	x := &traffic{}
	for i := range x.names {
		x.names[i] = "node-" + strconv.Itoa(i)
		c := ncoord.Coordinate{Height: 2, Error: 0.2}
		x.serf[i] = coordinate.NewCoordinate(coordinate.DefaultConfig())
		x.serf[i].Error, x.serf[i].Height = 0.2, 0.002
		for k := range 4 {
			c.Vec[k] = rnd.Float64()*200 - 100
			x.serf[i].Vec[k] = c.Vec[k] / 1000
		}
		x.at[i] = c
	}
	for i := range x.rtts {
		x.rtts[i] = duration(ncoord.Distance(x.at[i%32], ncoord.Coordinate{Height: 3}) * (1 + 0.2*rnd.ExpFloat64()))
	}
	return x
}

func (x *traffic) ours(n *ncoord.Node, times int) {
	now := start
	for i := range times {
		now = now.Add(time.Second)
		_ = n.Observe(x.names[i%32], x.at[i%32], nil, x.rtts[i%1024], now)
	}
}

func (x *traffic) serfs(c *coordinate.Client, times int) {
	for i := range times {
		_, _ = c.Update(x.names[i%32], x.serf[i%32], x.rtts[i%1024])
	}
}

func BenchmarkUpdate(b *testing.B) {
	x := newTraffic()
	b.Run("ncoord", func(b *testing.B) {
		b.ReportAllocs()
		x.ours(newOurs(1, 1).nodes[0], b.N)
	})
	b.Run("serf", func(b *testing.B) {
		b.ReportAllocs()
		x.serfs(newSerfs(b, 1).clients[0], b.N)
	})
}

func TestUpdateDoesNotAllocate(t *testing.T) {
	x := newTraffic()
	n := ncoord.NewNode(rand.New(rand.NewPCG(1, 1)))
	n.SetLocation(&ncoord.Location{Lat: 51.5})
	x.ours(n, 64)
	there := &ncoord.Location{Lat: 52}
	i, now := 0, start
	if got := testing.AllocsPerRun(1000, func() {
		i++
		now = now.Add(time.Second)
		_ = n.Observe(x.names[i%32], x.at[i%32], there, x.rtts[i%1024], now)
		n.SetLoad(float64(i%50), now)
		n.Publish(now)
	}); got != 0 {
		t.Errorf("an update and its publication allocate %v times", got)
	}
	_ = n.Observe("liar", ncoord.Coordinate{}, nil, time.Second, now)
	if got := testing.AllocsPerRun(100, func() { _ = n.Observe("liar", ncoord.Coordinate{}, nil, time.Second, now) }); got != 0 {
		t.Errorf("a refusal allocates %v times", got)
	}
}

// BenchmarkBesideSerf measures both packages in turns, so that a busy machine slows both alike: the median of the ratios
// is how many times faster an update is here. What serf's garbage costs is in it.
func BenchmarkBesideSerf(b *testing.B) {
	x := newTraffic()
	n, c := newOurs(1, 1).nodes[0], newSerfs(b, 1).clients[0]
	x.ours(n, 1000) // no longer new
	const times = 20_000
	var ratios []float64
	for b.Loop() {
		at := time.Now()
		x.ours(n, times)
		ours := time.Since(at)
		at = time.Now()
		x.serfs(c, times)
		ratios = append(ratios, float64(time.Since(at))/float64(ours))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "×serf")
	b.ReportMetric(ratios[0], "×serf-least")
}
