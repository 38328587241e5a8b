package revisit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// rate estimates how many changes a day a page with a history has, by the median of its distribution. The mean would depend on a few rates
// that are far too high.
func (p *Plan) rate(h History) float64 {
	sum, d := 0.0, p.belief(h)
	for i, share := range d {
		if sum+share < 0.5 {
			sum += share
			continue
		}
		if i == 0 {
			break
		}
		return p.grid.rate[i] * math.Pow(rateStep, (0.5-sum)/share-0.5) * 86400
	}
	return 0
}

// sampleOf is a sample of pages with rates drawn by rate, each visited n times at an interval.
func sampleOf(rnd *rand.Rand, pages, n int, interval time.Duration, rate func() float64) *Sample {
	s := new(Sample)
	for i := range pages {
		s.Put(uint64(i), observed(rnd, rate(), n, func() time.Duration { return interval }))
	}
	return s
}

// observed is the history of a page with a number of changes a day.
func observed(rnd *rand.Rand, perDay float64, n int, interval func() time.Duration) History {
	h := History{}.With(Visit{})
	for range n {
		gap := interval()
		h = h.With(Visit{Gap: gap, Changed: rnd.ExpFloat64() < perDay*gap.Hours()/24})
	}
	return h
}

func logNormal(rnd *rand.Rand) func() float64 {
	return func() float64 { return math.Exp(rnd.NormFloat64()) }
}

// TestRateBeatsTheKnownEstimator compares the estimate with the bias-corrected one of Cho and Garcia-Molina for visits
// at an interval, -log((n-X+0.5)/(n+0.5))/I, on pages with rates around one a day.
func TestRateBeatsTheKnownEstimator(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	draw := logNormal(rnd)
	for _, n := range []int{3, 10, 40} {
		plan := Default().NewPlan(sampleOf(rnd, 2000, n, day, draw), 2000)
		var ours, known float64
		for range 3000 {
			rate := draw()
			h := observed(rnd, rate, n, func() time.Duration { return day })
			cho := -math.Log((float64(n-int(h.changes)) + 0.5) / (float64(n) + 0.5))
			ours += math.Abs(plan.rate(h) - rate)
			known += math.Abs(cho - rate)
		}
		t.Logf("%d visits: mean error %.3f, of the known estimator %.3f", n, ours/3000, known/3000)
		if ours > known {
			t.Errorf("%d visits: mean error %.3f changes a day, of the known estimator %.3f", n, ours/3000, known/3000)
		}
	}
}

// TestRateOfIrregularVisits: with intervals over a factor of 100 the estimates are about right.
func TestRateOfIrregularVisits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(23, 24))
	irregular := func() time.Duration { return time.Duration(math.Exp(rnd.Float64()*4.6-2.3) * float64(day)) }
	draw := logNormal(rnd)
	s := new(Sample)
	for i := range 3000 {
		s.Put(uint64(i), observed(rnd, draw(), 20, irregular))
	}
	plan := Default().NewPlan(s, 3000)
	var bias, off float64
	const n = 3000
	for range n {
		rate := draw()
		wrong := math.Log(plan.rate(observed(rnd, rate, 20, irregular)) / rate)
		bias, off = bias+wrong, off+math.Abs(wrong)
	}
	t.Logf("off by a factor of %.2f, their mean by %.2f", math.Exp(off/n), math.Exp(bias/n))
	if math.Abs(bias/n) > 0.1 || off/n > 0.4 {
		t.Errorf("off by a factor of %.2f, their mean by %.2f", math.Exp(off/n), math.Exp(bias/n))
	}
}

func TestLastModifiedTellsMore(t *testing.T) {
	h := History{}.With(Visit{})
	dated := h
	for range 20 {
		h = h.With(Visit{Gap: 10 * day, Changed: true})
		dated = dated.With(Visit{Gap: 10 * day, Changed: true, Age: 2 * time.Hour})
	}
	plan := Default().NewPlan(new(Sample), 1000)
	if a, b := plan.rate(h), plan.rate(dated); b < 8 || b > 14 || a > b/2 {
		t.Errorf("a page that changes each two hours: %.2f changes a day, with Last-Modified %.2f", a, b)
	}
	old := History{}.With(Visit{Age: 1000 * day})
	if a, b := plan.rate(History{}.With(Visit{})), plan.rate(old); b > a/3 {
		t.Errorf("a page unchanged for 1000 days: %.4f changes a day, one not known %.4f", b, a)
	}
}

// TestIntervalsAreTheOptimum: pages with much history get the intervals that one price for all gives (Cho and
// Garcia-Molina 2003), and those intervals use the budget.
func TestIntervalsAreTheOptimum(t *testing.T) {
	rates := []float64{1.0 / 60, 1.0 / 14, 1.0 / 3, 1, 2}
	s := new(Sample)
	histories := make([]History, len(rates))
	for i, rate := range rates {
		for range 60 {
			age := time.Duration(float64(day) / rate)
			histories[i] = histories[i].With(Visit{Gap: age * 2, Changed: true, Age: age})
		}
	}
	for k := range 1000 {
		s.Put(uint64(k), histories[k%len(rates)])
	}
	c := Default()
	c.Budget, c.Max = 400, 2000*day
	plan := c.NewPlan(s, 1000)
	demand := 0.0
	for i, rate := range rates {
		interval := plan.Interval(histories[i])
		demand += 200 / interval.Hours() * 24
		if interval == c.Max {
			continue
		}
		perSecond := rate / 86400
		if got := gain(perSecond, interval.Seconds()); got < plan.price*0.8 || got > plan.price*1.2 {
			t.Errorf("rate %.3f: interval %v, gain %.0f; the price is %.0f", rate, interval, got, plan.price)
		}
	}
	if demand < 400 || demand > 450 {
		t.Errorf("the intervals take %.0f visits a day of 400", demand)
	}
}

func TestPagesThatAlwaysChangeGetLittle(t *testing.T) {
	rnd := rand.New(rand.NewPCG(25, 26))
	s := sampleOf(rnd, 2000, 20, day, func() float64 { return 0.1 * math.Exp(rnd.NormFloat64()) })
	restless := looked(50, 50, time.Hour)
	for i := range uint64(100) {
		s.Put(1e6+i, restless)
	}
	c := Default()
	c.Budget = 200
	plan := c.NewPlan(s, 2100)
	if got, usual := plan.Interval(restless), plan.Interval(looked(20, 2, day)); got < 2*usual {
		t.Errorf("a page that changes at each look is due after %v, a usual one after %v", got, usual)
	}
}

func TestEnoughForAll(t *testing.T) {
	c := Default()
	plan := c.NewPlan(sampleOf(rand.New(rand.NewPCG(1, 1)), 100, 10, day, func() float64 { return 1 }), 100)
	if plan.price != leastPrice {
		t.Errorf("50,000 visits a day are not enough for 100 pages: the price is %v", plan.price)
	}
	if got := plan.Interval(looked(30, 17, day)); got < time.Hour || got > 12*time.Hour {
		t.Errorf("a page that changes once a day is due after %v", got)
	}
	if got := plan.Interval(looked(60, 0, 30*day)); got < 10*day {
		t.Errorf("a page that did not change in five years is due after %v", got)
	}
}

func TestNext(t *testing.T) {
	c := Default()
	plan := c.NewPlan(new(Sample), 1_000_000)
	h := looked(10, 5, 10*day)
	last := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	now := last.Add(2 * time.Hour)
	usual := plan.Next(h, last, now, Hints{})
	if got := usual.Sub(last); got != plan.Interval(h) || got < 2*day {
		t.Fatalf("due after %v, the interval is %v", got, plan.Interval(h))
	}
	for _, x := range []struct {
		name  string
		last  time.Time
		hints Hints
		want  time.Time
	}{
		{"last visit in the future", now.Add(1000 * day), Hints{}, now.Add(plan.Interval(h))},
		{"lastmod after the visit", last, Hints{Modified: last.Add(time.Minute), Trust: 1}, last.Add(c.Min)},
		{"lastmod that nobody trusts", last, Hints{Modified: last.Add(time.Minute)}, usual},
		{"lastmod before the visit", last, Hints{Modified: last.Add(-time.Minute), Trust: 1}, usual},
		{"lastmod at the visit", last, Hints{Modified: last, Trust: 1}, usual},
		{"lastmod in the future", last, Hints{Modified: now.Add(day), Trust: 1}, usual},
		{"max-age of a year", last, Hints{FreshFor: 365 * day}, usual},
	} {
		if got := plan.Next(h, x.last, now, x.hints); !got.Equal(x.want) {
			t.Errorf("%s: due %v, want %v", x.name, got, x.want)
		}
	}
	still := looked(60, 0, 10*day) // a new copy would stay fresh for long
	if got := plan.Next(still, last, now, Hints{Modified: last.Add(time.Minute), Trust: 0.001}); !got.Equal(last.Add(c.Min)) {
		t.Errorf("lastmod of a page that hardly ever changes: due %v", got)
	}
	rich := c.NewPlan(new(Sample), 10)
	if got := rich.Next(looked(50, 25, time.Hour), last, now, Hints{FreshFor: 5 * time.Hour}); !got.Equal(last.Add(5 * time.Hour)) {
		t.Errorf("max-age of five hours: due %v", got)
	}
}

func TestSampleIsEven(t *testing.T) {
	s := new(Sample)
	for round := range 3 {
		for i := range uint64(40_000) {
			if round == 0 || i%10 == 0 { // some are visited more often
				s.Put(i, looked(round, 0, day))
			}
		}
	}
	if len(s.pages) != sampleSize {
		t.Fatalf("%d pages", len(s.pages))
	}
	often, late := 0, 0
	for i := range uint64(40_000) {
		at, ok := s.find(mix(i))
		if ok && i%10 == 0 && s.pages[at].history.Visits() == 3 {
			often++
		}
		if ok && i >= 20_000 {
			late++
		}
	}
	if often < 330 || often > 490 || late < 1900 || late > 2200 {
		t.Errorf("%d of those visited more often, want 410 or so; %d of the second half, want 2048 or so", often, late)
	}
	b, _ := s.AppendBinary(nil)
	got := new(Sample)
	if err := got.UnmarshalBinary(b); err != nil || len(got.pages) != len(s.pages) {
		t.Fatalf("%d pages were read: %v", len(got.pages), err)
	}
	for i := range uint64(40_000) {
		s.Drop(i)
		got.Drop(i)
	}
	if len(s.pages) != 0 || len(got.pages) != 0 {
		t.Errorf("%d and %d pages after all were dropped", len(s.pages), len(got.pages))
	}
	for _, bad := range [][]byte{b[:len(b)-1], append(b[:sampledSize:sampledSize], b[:sampledSize]...), append(b[sampledSize:2*sampledSize:2*sampledSize], b[:sampledSize]...), make([]byte, sampledSize*(sampleSize+1))} {
		if err := got.UnmarshalBinary(bad); err == nil {
			t.Errorf("%d bytes that are no sample were read", len(bad))
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(uint64(1), 1000, 50_000)
	f.Add(uint64(2), 0, 1)
	f.Add(uint64(3), math.MaxInt, 1_000_000_000)
	f.Fuzz(func(t *testing.T, seed uint64, pages, budget int) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		c := Config{Budget: budget, Min: time.Duration(rnd.Int64()), Max: time.Duration(rnd.Int64())}
		if c.Validate() != nil {
			c.Min, c.Max = time.Hour, 90*day
		}
		if c.Validate() != nil {
			c.Budget = 1
		}
		s := new(Sample)
		var h History
		for i := range rnd.IntN(50) {
			h = h.With(randomVisit(rnd))
			if rnd.IntN(20) == 0 {
				h = History{}
			}
			s.Put(uint64(i), h)
		}
		plan := c.NewPlan(s, pages)
		if p := plan.price; !(p >= leastPrice) || math.IsInf(p, 0) {
			t.Fatalf("price %v", p)
		}
		for range 10 {
			h = h.With(randomVisit(rnd))
			if r := plan.rate(h); !(r >= 0) || math.IsInf(r, 0) {
				t.Fatalf("%+v: rate %v", h, r)
			}
			if i := plan.Interval(h); i < c.Min || i > c.Max {
				t.Fatalf("%+v: interval %v", h, i)
			}
			now := time.Unix(rnd.Int64N(1<<33), 0)
			last := now.Add(time.Duration(rnd.Int64() - rnd.Int64()))
			hints := Hints{FreshFor: time.Duration(rnd.Int64() - rnd.Int64()), Modified: time.Unix(rnd.Int64N(1<<33), 0), Trust: rnd.Float64()*4 - 2}
			if next := plan.Next(h, last, now, hints); next.After(now.Add(c.Max)) {
				t.Fatalf("%+v: next %v, now %v, last %v, %+v", h, next, now, last, hints)
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	plan := Default().NewPlan(new(Sample), 1_000_000)
	h, now := looked(10, 3, day), time.Unix(1e9, 0)
	for b.Loop() {
		plan.Next(h, now, now, Hints{})
	}
}
