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

// criteria are what a space is judged by: relative errors of pairs never measured at three percentiles, and the choice of the nearest of 14
// and of 32. Ours may be so many times those of serf.
var criteria = []struct {
	name    string
	allowed float64
}{
	{"median error", 1.03}, {"90th percentile error", 1}, {"95th percentile error", 1.03},
	{"wrong choices of 14", 1}, {"loss of 14 in ms", 1}, {"wrong choices of 32", 1}, {"loss of 32 in ms", 1},
}

// judge runs the experiment once: 32 random neighbours, 1,000 rounds.
func judge(m matrix, s space, seed uint64) []float64 {
	rnd := rand.New(rand.NewPCG(seed, 32))
	peers := neighbours(m, 32, rnd)
	run(m, s, peers, 1000, rnd)
	errs := unmeasured(m, s, peers)
	right14, loss14 := nearest(m, s, 14, rnd)
	right32, loss32 := nearest(m, s, 32, rnd)
	return []float64{percentile(errs, 0.5), percentile(errs, 0.9), percentile(errs, 0.95), 1 - right14, loss14, 1 - right32, loss32}
}

// mean judges with several seeds at once.
func mean(m matrix, seeds int, make func(seed uint64) space) []float64 {
	each := slices.Repeat([][]float64{nil}, seeds)
	var all sync.WaitGroup
	for i := range each {
		s := make(uint64(i) + 1)
		all.Go(func() { each[i] = judge(m, s, uint64(i)+1) })
	}
	all.Wait()
	sum := slices.Repeat([]float64{0}, len(criteria))
	for _, figures := range each {
		for k, f := range figures {
			sum[k] += f / float64(seeds)
		}
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
			t.Logf("%s, %d nodes, %d seeds", net.name, len(m), seeds)
			for k, c := range criteria {
				t.Logf("%-21s serf %.3f, ours %.3f", c.name, serf[k], ours[k])
				if ours[k] > serf[k]*c.allowed {
					t.Errorf("%s: %.3f, serf %.3f", c.name, ours[k], serf[k])
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
