package assign_test

import (
	"math"
	"testing"
	"time"

	"proxima/assign"
)

// off checks that a logarithm is 0 at the median, within some bound.
func off(t *testing.T, what string, logs []float64, most float64) {
	t.Helper()
	m := median(logs)
	t.Logf("%s is off by e^%.2f at the median", what, m)
	if math.Abs(m) > most {
		t.Errorf("%s is off by e^%.2f at the median, want at most %v", what, m, most)
	}
}

// ownWorld is a world whose first node has this load and bandwidth.
func ownWorld(seed uint64, loadMs, bytesPerMs float64) *world {
	w := newWorld(madeUp(60, seed), worldConfig{Nodes: 6, Servers: 40, Seed: seed})
	w.Nodes[0].LoadMs, w.Nodes[0].BytesPerMs = loadMs, bytesPerMs
	return w
}

// ownLearn lets node 0 learn from downloads of servers that other nodes have downloaded from before.
func ownLearn(w *world, o *assign.Own, ms []assign.Memory, downloads, from int) {
	for i := range downloads {
		s := (from + i) % len(w.Servers)
		o.Observe(w.Nodes[0].ID, w.Servers[s].Addr, w.Download(0, s), &ms[s], w.View(), time.Unix(0, 0))
	}
}

func TestOwnLearnsLoadAndBandwidth(t *testing.T) {
	var before, after, slow []float64
	for seed := range uint64(20) {
		w := ownWorld(seed, 30, 1000)
		ms := make([]assign.Memory, len(w.Servers))
		for s := range ms {
			for n := 1; n < 5; n++ {
				ms[s].Observe(w.Nodes[n].ID, w.Nodes[n].Coord, w.Download(n, s), time.Unix(0, 0))
			}
		}
		o := assign.NewOwn(assign.Factors{})
		ownLearn(w, o, ms, 40, 0)
		before = append(before, math.Log(o.Factors().LoadMs/30))
		if e := math.Abs(math.Log(o.Factors().BytesPerMs / 1000)); e > 0.9 {
			t.Errorf("seed %d: %v bytes a ms, want about 1000", seed, o.Factors().BytesPerMs)
		}
		w.Nodes[0].LoadMs *= 5
		w.Nodes[0].BytesPerMs /= 5
		ownLearn(w, o, ms, 30, 7)
		after = append(after, math.Log(o.Factors().LoadMs/150))
		slow = append(slow, math.Log(o.Factors().BytesPerMs/200))
	}
	// Think times are known poorly, and load is what remains after them: the bound is wide at first.
	off(t, "load", before, 0.8)
	off(t, "load, 30 downloads after it grew by 5,", after, 0.7)
	off(t, "bandwidth, 30 downloads after it fell by 5,", slow, 0.8)
}

// After a restart a node goes on with the factors that it published. In place of what it did not know it takes what is usual.
func TestOwnGoesOnWithWhatItPublished(t *testing.T) {
	for _, c := range []struct {
		before             assign.Factors
		loadMs, bytesPerMs float64
	}{
		{assign.Factors{LoadMs: 70, LoadError: 0.1, BytesPerMs: 300, BytesError: 0.1, Samples: 9}, 70, 300},
		{assign.Factors{LoadMs: 70, LoadError: 0.1, Samples: 9}, 70, 1250},
		{assign.Factors{BytesPerMs: 300, BytesError: 0.1, Samples: 9}, 15, 300},
	} {
		got := assign.NewOwn(c.before).Factors()
		if !(math.Abs(got.LoadMs-c.loadMs) < 1e-6 && math.Abs(got.BytesPerMs-c.bytesPerMs) < 1e-6) || got.Samples != 9 {
			t.Errorf("after %+v it goes on with %+v", c.before, got)
		}
	}
	if f := assign.NewOwn(assign.Factors{LoadMs: math.Inf(1), Samples: 9}).Factors(); f != (assign.Factors{}) {
		t.Errorf("after an impossible load it goes on with %+v", f)
	}
}

// A node that has downloaded nothing for an hour knows as little of itself as a new one, and no less: its servers must not all go to busy
// nodes that are farther away. If it was slow before the hour, that is forgotten.
func TestIdleNodesBecomeLikeNewOnes(t *testing.T) {
	for _, loadMs := range []float64{5, 15, 2000} {
		f := assign.Factors{LoadMs: loadMs, LoadError: 0.2, BytesPerMs: 1250, BytesError: 0.2, Samples: 500}
		for range 120 { // every 30 s
			f = assign.NewOwn(f).Factors()
		}
		if f.LoadMs < 10 || f.LoadMs > 20 || f.LoadError > 1.2 || f.BytesError > 1 {
			t.Errorf("after an hour a load of %v ms is %.1f ms ±%.1f, and the bandwidth is ±%.1f", loadMs, f.LoadMs, f.LoadError, f.BytesError)
		}
		w := equals(2, 1)
		w.Nodes[0].Factors = f
		w.Nodes[1].Factors = assign.Factors{LoadMs: 20, LoadError: 0.2, BytesPerMs: 1000, BytesError: 0.2, Samples: 500}
		for s := range w.Servers {
			w.RTT[0][s] = 10
		}
		if by := shares(t, w, 0); by["node0000"] != 40 {
			t.Errorf("after an hour, with a load of %v ms before, a node 40 ms nearer than another one gets %d of 40 servers", loadMs, by["node0000"])
		}
	}
}

// A node that downloads a thousand pages a second learns from a sample: of each of its servers, and what changed as soon as
// from all.
func TestOwnLearnsFromSample(t *testing.T) {
	var after []float64
	for seed := range uint64(10) {
		w := ownWorld(seed, 30, 1000)
		o, now := assign.NewOwn(assign.Factors{}), time.Unix(0, 0)
		due := make(map[int]int)
		for i := range 20_000 {
			s := i % len(w.Servers)
			if i == 10_000 {
				w.Nodes[0].LoadMs *= 5
			}
			now = now.Add(time.Millisecond)
			if o.Due(now) {
				due[s]++
			}
			o.Observe(w.Nodes[0].ID, w.Servers[s].Addr, w.Download(0, s), nil, w.View(), now)
		}
		if n := o.Factors().Samples; n < 150 || n > 280 {
			t.Errorf("seed %d: learnt from %d downloads of 20 s, want about 64 + 20 × 8", seed, n)
		}
		if len(due) < 30 {
			t.Errorf("seed %d: learnt from downloads of %d servers of 40", seed, len(due))
		}
		after = append(after, math.Log(o.Factors().LoadMs/150))
		rested := o.Factors().Samples // what was not learnt from in a quiet hour is not made up for
		for range 1000 {
			o.Observe(w.Nodes[0].ID, w.Servers[0].Addr, w.Download(0, 0), nil, w.View(), now.Add(time.Hour))
		}
		if n := o.Factors().Samples - rested; n > 100 {
			t.Errorf("seed %d: learnt from %d of 1000 downloads after an hour, want about 64", seed, n)
		}
	}
	off(t, "load, 10 s after it grew by 5,", after, 0.7)
}
