package ncoord

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLinksThatMakeRoom: where there are too many peers, one of those longest unheard of goes. One that is forgotten takes no
// other with it, nor does one that is not known.
func TestLinksThatMakeRoom(t *testing.T) {
	const most = 512
	rnd := rand.New(rand.NewPCG(1, 2))
	s := links{index: map[string]int{}}
	for i := range most {
		s.add(strconv.Itoa(i), rnd).used = int64(i)
	}
	sum := func() (used int64) {
		for _, l := range s.all {
			used += l.used
		}
		return used
	}
	const times = 100
	ranks := int64(0) // of those that went, by when they were heard of
	for i := range times {
		before := sum()
		s.add("new"+strconv.Itoa(i), rnd).used = most
		if ranks += before + most - sum(); len(s.all) != most {
			t.Fatalf("%d links", len(s.all))
		}
	}
	if mean := ranks / times; mean > most/evictionDraw*2 {
		t.Errorf("of %d links the one heard of %d before all others goes on average", most, mean)
	}
	for _, peer := range []string{"nobody", s.all[len(s.all)-2].peer, s.all[0].peer, s.all[len(s.all)-1].peer, s.all[7].peer} {
		_, known := s.index[peer]
		before := len(s.all)
		s.remove(peer)
		if gone := before - len(s.all); gone != map[bool]int{true: 1}[known] || s.find(peer) != nil {
			t.Errorf("%d links are gone with %s", gone, peer)
		}
		for i, l := range s.all {
			if s.find(l.peer) != &s.all[i] {
				t.Errorf("without %s, %s is not found", peer, l.peer)
			}
		}
	}
}

// TestDelayIsTheMiddleOfTheLast: a few slow round trips say nothing, what most of the last took longer does, and one that was
// faster than usual counts as usual.
func TestDelayIsTheMiddleOfTheLast(t *testing.T) {
	var d delays
	for i, c := range []struct{ add, want float64 }{{4, 4}, {-10, 0}, {6, 4}, {900, 4}, {8, 6}} {
		if d.add(c.add); d.median() != c.want {
			t.Errorf("sample %d: %v, want %v", i, d.median(), c.want)
		}
	}
	for range len(d.ring) - 1 {
		d.add(3)
	}
	if d.add(7); d.median() != 3 {
		t.Errorf("of the last %d the middle is %v", len(d.ring), d.median())
	}
}

// TestFilter compares the filter with the plain way to do the same.
func TestFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Float64Range(0, 1).Draw(t, "percentile")
		type sample struct {
			ms float32
			at int64
		}
		var f filter
		var kept []sample
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			now += int64(rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Minute, time.Hour}).Draw(t, "pause"))
			ms := float32(rapid.IntRange(1, 9).Draw(t, "ms"))
			f.add(float64(ms), now)
			kept = append(kept, sample{ms, now})
			kept = kept[max(0, len(kept)-window):]
			kept = slices.DeleteFunc(kept, func(s sample) bool { return now-s.at > int64(sampleTTL) })
			var values []float32
			for _, s := range kept {
				values = append(values, s.ms)
			}
			slices.Sort(values)
			want := float64(values[int(p*float64(len(values)-1)+0.5)])
			if got := f.percentile(p); got != want || int(f.n) != len(kept) {
				t.Fatalf("%v of %d samples, want %v of %v", got, f.n, want, values)
			}
		}
	})
}
