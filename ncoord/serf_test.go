package ncoord_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// figures are what a space is judged by: relative errors of pairs never measured at three percentiles, and the choice
// of the nearest of 14 and of 32.
type figures struct{ p50, p90, p95, right14, loss14, right32, loss32 float64 }

func (f figures) String() string {
	return fmt.Sprintf("%.3f %.3f %.3f | %4.1f%% %5.2f ms | %4.1f%% %5.2f ms",
		f.p50, f.p90, f.p95, 100*f.right14, f.loss14, 100*f.right32, f.loss32)
}

// judge runs the experiment once: 32 random neighbours, 1,000 rounds.
func judge(m matrix, s space, seed uint64) (f figures) {
	rnd := rand.New(rand.NewPCG(seed, 32))
	peers := neighbours(m, 32, rnd)
	run(m, s, peers, 1000, rnd)
	errs := unmeasured(m, s, peers)
	f.p50, f.p90, f.p95 = percentile(errs, 0.5), percentile(errs, 0.9), percentile(errs, 0.95)
	f.right14, f.loss14 = nearest(m, s, 14, rnd)
	f.right32, f.loss32 = nearest(m, s, 32, rnd)
	return f
}

// mean judges with several seeds at once.
func mean(m matrix, seeds int, make func(seed uint64) space) (sum figures) {
	each := slices.Repeat([]figures{{}}, seeds)
	var all sync.WaitGroup
	for i := range each {
		s := make(uint64(i) + 1)
		all.Go(func() { each[i] = judge(m, s, uint64(i)+1) })
	}
	all.Wait()
	n := float64(seeds)
	for _, f := range each {
		sum.p50, sum.p90, sum.p95 = sum.p50+f.p50/n, sum.p90+f.p90/n, sum.p95+f.p95/n
		sum.right14, sum.loss14 = sum.right14+f.right14/n, sum.loss14+f.loss14/n
		sum.right32, sum.loss32 = sum.right32+f.right32/n, sum.loss32+f.loss32/n
	}
	return sum
}

// TestAgainstSerf compares with serf's package over measured networks. serf draws from a source of its own, so that its
// figures differ a little from run to run.
func TestAgainstSerf(t *testing.T) {
	for _, net := range []struct {
		name  string
		load  func(testing.TB) matrix
		seeds int // small networks leave more to chance
	}{{"PlanetLab", planetlab, 3}, {"cities", cities, 9}, {"clouds", clouds, 24}} {
		t.Run(net.name, func(t *testing.T) {
			m, seeds := net.load(t), net.seeds
			serf := mean(m, seeds, func(uint64) space { return newSerfs(t, len(m)) })
			ours := mean(m, seeds, func(seed uint64) space { return newOurs(len(m), seed) })
			t.Logf("%s, %d nodes, %d seeds\n     %s\nserf %s\nours %s", net.name, len(m), seeds,
				" p50   p90   p95  | nearest of 14    | nearest of 32", serf, ours)
			for _, cell := range []struct {
				name       string
				ours, serf float64
				allowed    float64
			}{
				{"median error", ours.p50, serf.p50, 1.03},
				{"90th percentile error", ours.p90, serf.p90, 1},
				{"95th percentile error", ours.p95, serf.p95, 1.03},
				{"wrong choices of 14", 1 - ours.right14, 1 - serf.right14, 1},
				{"loss of 14", ours.loss14, serf.loss14, 1},
				{"wrong choices of 32", 1 - ours.right32, 1 - serf.right32, 1},
				{"loss of 32", ours.loss32, serf.loss32, 1},
			} {
				if cell.ours > cell.serf*cell.allowed {
					t.Errorf("%s: %.3f, serf %.3f", cell.name, cell.ours, cell.serf)
				}
			}
		})
	}
}

// stream lets every node measure 16 others, drawn, in each of the snapshots of a noisy network (one a second), and gives the median
// relative error of predicting those samples before they are taken, over the second half.
func stream(snapshots []matrix, s space, seed uint64) float64 {
	rnd := rand.New(rand.NewPCG(seed, 5))
	var errs []float64
	for r, m := range snapshots {
		now := start.Add(time.Duration(r) * 16 * time.Second)
		for i := range m {
			for _, k := range rnd.Perm(len(m))[:16] {
				if k == i || m[i][k] <= 0 {
					continue
				}
				if r >= len(snapshots)/2 {
					errs = append(errs, math.Abs(s.distance(i, k)-m[i][k])/m[i][k])
				}
				s.observe(i, k, m[i][k], now)
			}
		}
	}
	slices.Sort(errs)
	return percentile(errs, 0.5)
}

func TestNoisyStream(t *testing.T) {
	snapshots := seattle(t)
	n := len(snapshots[0])
	var serf, ours []string
	for seed := range uint64(3) {
		if seed > 0 && testing.Short() {
			break
		}
		a, b := stream(snapshots, newSerfs(t, n), seed), stream(snapshots, newOurs(n, seed), seed)
		serf, ours = append(serf, fmt.Sprintf("%.3f", a)), append(ours, fmt.Sprintf("%.3f", b))
		if b >= 0.40 || b >= 0.8*a {
			t.Errorf("seed %d: median error %.3f, serf %.3f; want below 0.40", seed, b, a)
		}
	}
	t.Logf("median error of the next sample: serf %s, ours %s", strings.Join(serf, " "), strings.Join(ours, " "))
}
