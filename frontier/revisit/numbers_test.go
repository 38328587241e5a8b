package revisit

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// What plans say of some histories, in numbers: their price, and for each history the changes a day and the time between two visits.
func TestPlansInNumbers(t *testing.T) {
	sample := new(Sample)
	for i := range 200 {
		sample.Put(uint64(i), looked(10, i%5, day))
	}
	dated := History{}.With(Visit{Age: 30 * day}).With(Visit{Gap: 10 * day, Changed: true, Age: day}).With(Visit{Gap: 5 * day})
	for _, c := range []struct {
		what   string
		config Config
		sample *Sample
		pages  int
		want   string
	}{
		{"a large budget", Default(), new(Sample), 10,
			"600, 0.007188 8h15m57s, 0.0006883 24h53m26s, 0.2738 5h13m40s, 87.42 1h0m0s, 0.04499 12h23m14s, 0.02214 16h13m34s"},
		{"a small budget", Default(), new(Sample), 10_000_000,
			"9.4608e+08, 0.007188 2160h0m0s, 0.0006883 2160h0m0s, 0.2738 2160h0m0s, 87.42 2160h0m0s, 0.04499 2160h0m0s, 0.02214 2160h0m0s"},
		{"few visits allowed", Config{50_000, 30 * day, 90 * day}, new(Sample), 1_000_000,
			"600, 0.007188 720h0m0s, 0.0006883 720h0m0s, 0.2738 720h0m0s, 87.42 720h0m0s, 0.04499 720h0m0s, 0.02214 720h0m0s"},
		{"what was learnt", Default(), sample, 1_000_000,
			"2.8473e+05, 0.2512 517h19m31s, 0.007624 750h28m2s, 0.2923 391h44m24s, 87.42 2160h0m0s, 0.06835 343h40m33s, 0.03475 432h46m13s"},
	} {
		plan := c.config.NewPlan(c.sample, c.pages)
		got := []string{fmt.Sprintf("%.5g", plan.price)}
		for _, h := range []History{{}, looked(10, 0, day), looked(10, 3, day), looked(80, 79, time.Hour), dated, History{}.With(Visit{Age: 30 * day})} {
			got = append(got, fmt.Sprintf("%.4g %v", plan.rate(h), plan.Interval(h).Round(time.Second)))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.what, got, c.want)
		}
	}
}

// Estimates at the ends of the grids, and from what cannot be.
func TestEndsOfTheGrids(t *testing.T) {
	g := newGrid()
	var none distribution
	general := g.general()
	if d := general.posterior(&none); d != general {
		t.Error("a history that no rate explains changes the prior")
	}
	first, end := g.times[0], g.times[timeCount-1]
	for _, c := range []struct {
		what   string
		price  float64
		gainAt func(j int) float64
		want   float64
	}{
		{"at once", 5, func(int) float64 { return 5 }, first},
		{"never", 5, func(int) float64 { return 4.9 }, math.Inf(1)},
		{"at the end", 5, func(j int) float64 { return float64(5 * j / (timeCount - 1)) }, end},
		{"from nothing", 5, func(j int) float64 { return float64(5 * (j / 10)) }, g.times[10]},
		{"between two times", 2, func(j int) float64 { return math.Pow(4, float64(j)-10) }, g.times[10] * math.Sqrt(timeStep)},
	} {
		if got := reach(c.price, &g.times, c.gainAt); got != c.want && !(math.Abs(got-c.want) <= 1e-9*c.want) {
			t.Errorf("%s: the price is reached after %v s, want %v", c.what, got, c.want)
		}
	}
	for s, want := range map[float64]time.Duration{1.5: 1500 * time.Millisecond, longest.Seconds(): longest, math.Inf(1): longest, math.NaN(): longest} {
		if got := seconds(s); got != want {
			t.Errorf("%v s are %v, want %v", s, got, want)
		}
	}
	for _, c := range []struct {
		config Config
		ok     bool
	}{
		{Config{1, time.Second, time.Second}, true}, {Config{0, time.Second, time.Second}, false}, {Config{1e9, longest, longest}, true},
		{Config{1e9 + 1, time.Second, time.Second}, false}, {Config{1, time.Second - 1, time.Second}, false}, {Config{1, time.Second, longest + 1}, false},
		{Config{1, time.Minute, time.Minute - 1}, false}, {Config{1, longest + 1, longest + 1}, false},
	} {
		if err := c.config.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.config, err)
		}
	}
	b, _ := looked(3, 1, day).AppendBinary(make([]byte, 8))
	b[8+4] = window + 1
	if err := new(Sample).UnmarshalBinary(b); err == nil {
		t.Error("a sample with a history that cannot be was read")
	}
}
