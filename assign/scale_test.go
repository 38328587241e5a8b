package assign_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

// large is a view of very many nodes and a batch of very many servers, spread over the globe: some nodes have only been heard of
// and have neither coordinate nor factors, some servers no location.
func large(nodes, servers int) (assign.View, assign.Batch) {
	rnd := rand.New(rand.NewPCG(1, 9))
	anywhere := func() *ncoord.Location {
		return &ncoord.Location{Lat: -40 + 100*rnd.Float64(), Lon: -180 + 360*rnd.Float64()}
	}
	var v assign.View
	for i := range nodes {
		n := assign.Node{ID: fmt.Sprintf("node%06d", i), Location: anywhere()}
		if i%10 > 0 {
			// As if the globe were the space: 0.017 ms a kilometre.
			const rad, ms = math.Pi / 180, 6371 * 0.017
			lat, lon := n.Location.Lat*rad, n.Location.Lon*rad
			n.Coord = ncoord.Coordinate{Vec: [4]float64{ms * math.Cos(lat) * math.Cos(lon), ms * math.Cos(lat) * math.Sin(lon), ms * math.Sin(lat)},
				Height: 5, Error: 0.1}
			n.Factors = assign.Factors{LoadMs: 15 * math.Exp(1.2*rnd.NormFloat64()), LoadError: 0.3,
				BytesPerMs: 1250 * math.Exp(rnd.NormFloat64()), BytesError: 0.3, Samples: 100}
		}
		v.Nodes = append(v.Nodes, n)
	}
	b := assign.Batch{ID: "large"}
	for i := range servers {
		s := assign.Server{Addr: netip.AddrFrom4([4]byte{100, byte(i >> 16), byte(i >> 8), byte(i)})}
		if i%5 > 0 {
			s.Location = anywhere()
		}
		b.Servers = append(b.Servers, s)
	}
	return v, b
}

func decideLarge(t testing.TB, v assign.View, b assign.Batch) []assign.Choice {
	t.Helper()
	now := time.Unix(0, 0)
	a, err := assign.New(assign.Nearest, budget(0), b, v, now)
	if err != nil {
		t.Fatal(err)
	}
	a.Asks(now)
	choices, done := a.Decide(now)
	if !done || len(choices) != len(b.Servers) {
		t.Fatalf("%d choices for %d servers, done %v", len(choices), len(b.Servers), done)
	}
	return choices
}

// Memory for a server does not grow with the nodes. All that is allocated is counted: what is in use at a time is less.
func TestLargeBatchInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 servers among 2,000 nodes are left out with -short")
	}
	v, b := large(2000, 10_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	choices := decideLarge(t, v, b)
	runtime.ReadMemStats(&after)
	kib := float64(after.TotalAlloc-before.TotalAlloc) / 1024 / float64(len(choices))
	t.Logf("%d servers among %d nodes: %.1f KiB a server allocated in all", len(choices), len(v.Nodes), kib)
	// A prediction of each node for each server would be 80 KiB a server alone.
	if kib > 40 {
		t.Errorf("%.1f KiB a server allocated, want at most 40", kib)
	}
}

// 100,000 servers among 10,000 nodes, nothing known of the servers but most locations: what a home would do that has to place
// them all at once.
func BenchmarkDecideLarge(b *testing.B) {
	v, batch := large(10_000, 100_000)
	var m runtime.MemStats
	for b.Loop() {
		decideLarge(b, v, batch)
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapSys)/(1<<20), "MiB-heap")
	}
}
