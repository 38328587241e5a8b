package report

import (
	"math"
	"slices"
	"testing"
)

func TestThinKeepsEndsOrderAndSpikes(t *testing.T) {
	var points []Point
	for i := range 10_000 {
		points = append(points, Point{float64(i), math.Sin(float64(i) / 500)})
	}
	points[6543].Y = 50
	got := thin(points, 200)
	if len(got) != 200 || got[0] != points[0] || got[199] != points[9999] {
		t.Fatalf("%d points from %v to %v", len(got), got[0], got[len(got)-1])
	}
	if !slices.Contains(got, points[6543]) {
		t.Error("the spike is gone")
	}
	if !slices.IsSortedFunc(got, func(a, b Point) int { return int(math.Copysign(1, a.X-b.X)) }) {
		t.Error("the points are not in order")
	}
	if few := points[:100]; len(thin(few, 200)) != 100 {
		t.Error("few points were thinned")
	}
}

func TestDrawableCutsAtGaps(t *testing.T) {
	points := []Point{{0, 1}, {1, 2}, {2, math.NaN()}, {3, 4}, {4, math.Inf(1)}, {5, 6}}
	runs := drawable(points, true)
	if len(runs) != 3 || len(runs[0]) != 1 || runs[0][0].X != 1 || runs[2][0].X != 5 {
		t.Errorf("runs %v", runs)
	}
	if got := tidy([]Point{{3, 1}, {math.NaN(), 1}, {1, 2}}); len(got) != 2 || got[0].X != 1 {
		t.Errorf("tidy %v", got)
	}
}

func TestValueAt(t *testing.T) {
	points := []Point{{0, 0}, {10, 100}, {20, math.NaN()}, {30, 5}}
	for _, c := range []struct {
		x, want float64
		ok      bool
	}{{0, 0, true}, {5, 50, true}, {10, 100, true}, {15, 0, false}, {30, 5, true}, {31, 0, false}, {-1, 0, false}} {
		if got, ok := valueAt(points, c.x); ok != c.ok || (ok && got != c.want) {
			t.Errorf("at %v: %v, %v", c.x, got, ok)
		}
	}
}

func TestBandHoldsTheMiddle(t *testing.T) {
	var series []Series
	for i := range 101 {
		series = append(series, Series{Points: []Point{{0, float64(i)}, {10, float64(2 * i)}}})
	}
	b := bandOf(series, 11)
	if len(b.middle) != 11 || b.low[0].Y != 10 || b.middle[0].Y != 50 || b.high[0].Y != 90 || b.middle[10].Y != 100 {
		t.Errorf("band %v %v %v", b.low[0], b.middle[0], b.high[0])
	}
}

func TestPlaneKeepsAFlatFigure(t *testing.T) {
	// A rectangle of 6 × 2, turned into four dimensions: the plane must give it back, whatever its direction.
	u, v := []float64{0.5, 0.5, 0.5, 0.5}, []float64{0.5, -0.5, 0.5, -0.5}
	var vectors [][]float64
	for _, c := range [][2]float64{{-3, -1}, {3, -1}, {3, 1}, {-3, 1}} {
		w := make([]float64, 4)
		for i := range w {
			w[i] = 7 + c[0]*u[i] + c[1]*v[i]
		}
		vectors = append(vectors, w)
	}
	p := planeOf(vectors)
	if !near(p.kept, 1) {
		t.Errorf("kept %v of a flat figure", p.kept)
	}
	for i, w := range vectors {
		at := p.at(w)
		if !near(math.Abs(at.X), 3) || !near(math.Abs(at.Y), 1) {
			t.Errorf("corner %d at %v", i, at)
		}
	}
	for _, one := range [][][]float64{{{5}}, {{1, 2, 3}}, {{1, 1}, {1, 1}}} {
		if at := planeOf(one).at(one[0]); at != (Point{}) {
			t.Errorf("%v lies at %v", one, at)
		}
	}
	if d := distance(Place{Vector: []float64{0, 3}, HeightMS: 2}, Place{Vector: []float64{4, 0}, HeightMS: Unknown()}); d != 7 {
		t.Errorf("distance %v, want 7", d)
	}
}

func TestSpreadKeepsApart(t *testing.T) {
	at := []float64{95, 96, 97, 98}
	spread(at, 10, 0, 100)
	for i := 1; i < len(at); i++ {
		if at[i]-at[i-1] < 10 {
			t.Errorf("too close: %v", at)
		}
	}
	if at[3] > 100 || at[0] < 0 {
		t.Errorf("outside: %v", at)
	}
}

func TestTimeOfReadsBackwards(t *testing.T) {
	points := []Point{{100, 0.25}, {200, 0.5}, {400, 1}}
	for share, want := range map[float64]float64{0.1: 100, 0.5: 200, 0.75: 300, 1: 400} {
		if got := timeOf(points, share); got != want {
			t.Errorf("share %v: %v, want %v", share, got, want)
		}
	}
	if finite(timeOf(points[:2], 0.9)) {
		t.Error("a time was made up beyond the end")
	}
}

func TestEventsAreSortedAndMendable(t *testing.T) {
	got := sortedEvents([]Event{{9, 0, "late", ""}, {1, math.Inf(1), "early", "n1"}, {math.NaN(), 2, "never", ""}})
	if len(got) != 2 || got[0].Label != "early" || got[0].UntilS != 1 {
		t.Fatalf("events %v", got)
	}
	if v := eventViews(got); v[0].What != "n1: early" || v[0].When != "0:01" || v[1].Number != 2 {
		t.Errorf("list %v", v)
	}
}
