package report

import (
	"math"
	"slices"
	"testing"
)

func near(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*math.Max(1, math.Max(math.Abs(a), math.Abs(b)))
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []float64
		want []float64
	}{
		{"unit", niceTicks(0, 1, 5), []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		{"odd", niceTicks(0, 37, 4), []float64{0, 10, 20, 30}},
		{"across zero", niceTicks(-30, 30, 6), []float64{-30, -20, -10, 0, 10, 20, 30}},
		{"nothing", niceTicks(3, 3, 4), []float64{3}},
		{"large", niceTicks(0, 2.4e9, 3), []float64{0, 1e9, 2e9}},
		{"minutes", timeTicks(0, 600, 10), []float64{0, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600}},
		{"two minutes", timeTicks(0, 125, 5), []float64{0, 30, 60, 90, 120}},
		{"weeks", timeTicks(0, 8*86400, 4), []float64{0, 2 * 86400, 4 * 86400, 6 * 86400, 8 * 86400}},
		{"log, all", logTicks(10, 1000, 9), []float64{10, 20, 50, 100, 200, 500, 1000}},
		{"log, tens", logTicks(10, 1000, 5), []float64{10, 100, 1000}},
		{"log, sparse", logTicks(1e-6, 1e6, 5), []float64{1e-6, 1e-3, 1, 1e3, 1e6}},
	} {
		if !slices.EqualFunc(c.got, c.want, near) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	for _, v := range append(niceTicks(-1, 1, 4), niceTicks(0, 0.3, 3)...) {
		if v == 0 && math.Signbit(v) {
			t.Error("a tick is −0")
		}
	}
}

func TestDomains(t *testing.T) {
	for _, c := range []struct{ lo, hi, wantLo, wantHi float64 }{
		{0, 37, 0, 40}, {0, 1, 0, 1}, {-7, 12, -10, 15}, {0, 0, 0, 1}, {5, 5, 4, 10}, {0, 0.083, 0, 0.1},
	} {
		if lo, hi := niceDomain(c.lo, c.hi, 4); !near(lo, c.wantLo) || !near(hi, c.wantHi) {
			t.Errorf("niceDomain(%v, %v) = %v, %v, want %v, %v", c.lo, c.hi, lo, hi, c.wantLo, c.wantHi)
		}
	}
	for _, c := range []struct{ lo, hi, wantLo, wantHi float64 }{{12, 980, 10, 1000}, {3, 3, 2, 5}, {10, 10, 10, 20}, {0.07, 21, 0.05, 50}} {
		if lo, hi := logDomain(c.lo, c.hi); !near(lo, c.wantLo) || !near(hi, c.wantHi) {
			t.Errorf("logDomain(%v, %v) = %v, %v, want %v, %v", c.lo, c.hi, lo, hi, c.wantLo, c.wantHi)
		}
	}
}

func TestScaleMapsEndsAndMiddle(t *testing.T) {
	straight := scale{lo: 0, hi: 10, from: 100, to: 0}
	logarithmic := scale{lo: 10, hi: 1000, from: 0, to: 200, log: true}
	for _, c := range []struct{ got, want float64 }{
		{straight.at(0), 100}, {straight.at(10), 0}, {straight.at(2.5), 75},
		{logarithmic.at(10), 0}, {logarithmic.at(100), 100}, {logarithmic.at(1000), 200},
		{scale{lo: 3, hi: 3, from: 0, to: 10}.at(3), 5},
	} {
		if !near(c.got, c.want) {
			t.Errorf("%v, want %v", c.got, c.want)
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{number(0), "0"}, {number(3.14159), "3.14"}, {number(31.4159), "31.4"}, {number(314.159), "314"}, {number(12345.6), "12,346"},
		{number(0.25), "0.25"}, {number(0.01234), "0.0123"}, {number(-4.2), "−4.20"}, {number(-1234), "−1,234"}, {number(math.NaN()), dash},
		{number(math.Inf(1)), dash}, {whole(1234567), "1,234,567"}, {whole(-1), dash}, {whole(999), "999"},
		{millis(445), "445" + gap + "ms"}, {millis(3825), "3.83" + gap + "s"}, {millis(Unknown()), dash},
		{percent(1), "100" + gap + "%"}, {percent(0.99999), ">" + gap + "99.99" + gap + "%"}, {percent(0.9995), "99.95" + gap + "%"},
		{percent(0.00001), "<" + gap + "0.01" + gap + "%"}, {percent(0), "0" + gap + "%"}, {percent(0.815), "81.5" + gap + "%"},
		{percent(0.0004), "0.04" + gap + "%"}, {clock(0), "0:00"}, {clock(125), "2:05"}, {clock(3725), "1:02:05"},
		{bytesOf(0), "0" + gap + "B"}, {bytesOf(13.5e9), "13.5" + gap + "GB"}, {bytesOf(-1), dash}, {ratio(0), dash},
		{ratio(1.163), "1.16" + gap + "×"},
		{short(25000), "25" + gap + "k"}, {short(0.5), "0.5"}, {short(math.Copysign(0, -1)), "0"}, {plain(9), "9"}, {plain(Unknown()), dash},
		{listed([]string{"a", "b", "c"}), "a, b and c"}, {listed(nil), ""}, {fit("a long name of a host", 12, 60), "a long…"},
		{clean("a\x00b\xffc\u202ed\ne"), "a\uFFFDb\uFFFDc\uFFFDd e"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
