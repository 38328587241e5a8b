package revisit

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const day = 24 * time.Hour

// looked is the history of a page that was visited once and then n times at an interval, of which it had changed at the
// first few.
func looked(n, changed int, interval time.Duration) History {
	h := History{}.With(Visit{})
	for i := range n {
		h = h.With(Visit{Gap: interval, Changed: i < changed})
	}
	return h
}

func TestHistoryCounts(t *testing.T) {
	h := looked(10, 3, day)
	if h.Visits() != 11 || int(h.changes) != 3 {
		t.Errorf("%d visits, %d changes; want 11, 3", h.Visits(), int(h.changes))
	}
	if got, want := float64(h.same), (7 * day).Seconds(); math.Abs(got-want) > 1 {
		t.Errorf("unchanged for %v s, want %v", got, want)
	}
	h = looked(1, 1, day).With(Visit{Gap: 4 * day, Changed: true}).With(Visit{Gap: 16 * day, Changed: true})
	if mean, deviation, n := h.gaps(); math.Abs(math.Exp(mean)/(4*day).Seconds()-1) > 0.01 || math.Abs(deviation-1.132) > 0.03 || n != 3 {
		t.Errorf("%v gaps with a change: mean %v s, deviation %v; want 4 days, 1.132", n, math.Exp(mean), deviation)
	}
	for range math.MaxUint16 + 10 {
		h = h.With(Visit{Gap: day, Changed: true})
	}
	if h.Visits() != math.MaxUint16 || int(h.changes) != math.MaxUint16 || h.weight > window || h.undated > window {
		t.Errorf("after 65,545 visits: %+v", h)
	}
}

func TestHistoryBelievesLastModified(t *testing.T) {
	seen := History{}.With(Visit{Age: 40 * day})
	for _, c := range []struct {
		name           string
		visit          Visit
		dated, undated uint8
	}{
		{"between the visits", Visit{Gap: 10 * day, Changed: true, Age: 2 * day}, 1, 0},
		{"made for the request", Visit{Gap: 10 * day, Changed: true, Age: time.Second}, 0, 1},
		{"in the future", Visit{Gap: 10 * day, Changed: true, Age: -2 * day}, 0, 1},
		{"before the visit that saw another page", Visit{Gap: 10 * day, Changed: true, Age: 11 * day}, 0, 1},
		{"no change", Visit{Gap: 10 * day, Age: day}, 0, 0},
		{"none", Visit{Gap: 10 * day, Changed: true}, 0, 1},
	} {
		if h := seen.With(c.visit); h.dated != c.dated || h.undated != c.undated {
			t.Errorf("%s: dated %d, undated %d; want %d, %d", c.name, h.dated, h.undated, c.dated, c.undated)
		}
	}
}

// What is kept of some visits, at the bounds of their times and where the sums are halved. It is read from disk as it was.
func TestHistoriesInNumbers(t *testing.T) {
	full := []Visit{{Age: 30 * day}}
	for i := range 64 {
		v := Visit{Gap: day, Changed: true}
		if i >= 33 {
			v.Age = time.Hour
		}
		full = append(full, v)
	}
	for want, visits := range map[string][]Visit{
		"{1 0 0 0 0 true 60 0 0}": {{Age: shortest, Changed: true}}, "{1 0 0 0 0 true 6.3072e+08 0 0}": {{Age: math.MaxInt64}}, "{2 0 1 0 0 false 60 0 0}": {{}, {Gap: shortest}},
		"{2 0 0 0 0 false 0 0 0}": {{}, {Gap: shortest - 1}}, "{2 1 1 1 0 false 0 8385 0}": {{}, {Gap: -1, Changed: true}},
		"{2 1 1 1 0 false 0 16770 0}": {{}, {Gap: time.Hour, Age: time.Hour, Changed: true}}, "{66 65 33 18 16 false 1.3518e+06 23279 0}": append(full, Visit{Gap: day, Changed: true}),
		"{3 2 2 2 0 false 0 24941 255}": {{}, {Gap: shortest, Changed: true}, {Gap: math.MaxInt64, Changed: true}},
		"{3 2 2 2 0 false 0 24404 18}":  {{}, {Gap: day, Changed: true}, {Gap: 3 * day, Changed: true}},
	} {
		var h, back History
		for _, v := range visits {
			h = h.With(v)
		}
		b, _ := h.AppendBinary(nil)
		if got := fmt.Sprint(h); back.UnmarshalBinary(b) != nil || back != h || got != want {
			t.Errorf("after %v: %s, read as %v, want %s", visits, got, back, want)
		}
	}
}

func TestHistoryOnDisk(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		var h History
		for range rnd.IntN(300) {
			h = h.With(randomVisit(rnd))
		}
		b, _ := h.AppendBinary(nil)
		var got History
		if err := got.UnmarshalBinary(b); err != nil || len(b) != HistorySize || got != h {
			t.Fatalf("%+v was written and read as %+v: %v", h, got, err)
		}
	}
	for _, bad := range []string{"", "00", "0000010000000000000000000000", "000000000000000000000000000000",
		"ffff0000ff000000000000000000", "ffff00004000000000c07f000000", "ffff000040410000000000000000", "ffff00004000000000c0ff000000"} {
		b, _ := hex.DecodeString(bad)
		var h History
		if err := h.UnmarshalBinary(b); err == nil {
			t.Errorf("%s was read as %+v", bad, h)
		}
	}
}

// randomVisit is one as no server and no clock should make it.
func randomVisit(rnd *rand.Rand) Visit {
	odd := func() time.Duration {
		switch rnd.IntN(6) {
		case 0:
			return 0
		case 1:
			return time.Duration(rnd.Int64())
		case 2:
			return -time.Duration(rnd.Int64())
		default:
			return time.Duration(math.Exp(rnd.Float64() * 40))
		}
	}
	return Visit{Gap: odd(), Changed: rnd.IntN(2) == 0, Age: odd()}
}
