package revisit

import (
	"math"
	"sort"
	"time"
)

// The rates of change that a page can have, in changes a second: 0, and a grid from one in 30 years to one in half a minute, each 1.5 times
// the one before. An estimate is a distribution over them.
const (
	rateCount = 44
	rateStep  = 1.5
	slowest   = 1 / (30 * 365 * 86400.0)
)

// The times for which the gain of a visit is tabulated: from a minute to some 40 years, each 1.45 times the one before.
const (
	timeCount = 56
	timeStep  = 1.45
	firstTime = 60.0
)

// bornRate is the rate at which new pages are made in the model, for pages that never change: once in three years.
const bornRate = 1 / (3 * 365 * 86400.0)

// distribution is a probability for each rate of the grid.
type distribution [rateCount]float64

// grid holds the tables that depend on the grids alone.
type grid struct {
	rate, log [rateCount]float64
	times     [timeCount]float64
	gain      [timeCount][rateCount]float64
}

func newGrid() *grid {
	g := &grid{}
	for i := range g.rate {
		if i > 0 {
			g.rate[i] = slowest * math.Pow(rateStep, float64(i-1))
		}
		g.log[i] = math.Log(g.rate[i]) // -Inf for the rate 0
	}
	for j := range g.times {
		g.times[j] = firstTime * math.Pow(timeStep, float64(j))
		for i, rate := range g.rate {
			g.gain[j][i] = gain(rate, g.times[j])
		}
	}
	return g
}

// gain is what one more visit gains for a page that changes at a rate and is visited every t seconds: the derivative of its mean freshness
// by the number of its visits a second. The unit is seconds of a fresh copy.
func gain(rate, t float64) float64 {
	x := rate * t
	if x < 1e-4 {
		return x * t / 2 // the closed form would lose its digits
	}
	return (-math.Expm1(-x) - x*math.Exp(-x)) / rate
}

// general is the prior before any page was visited twice: a third of the pages never change, the others about once in a month, with a
// deviation of a factor of ten (Cho and Garcia-Molina, "The evolution of the web and implications for an incremental crawler", 2000;
// Fetterly and others, "A large-scale study of the evolution of web pages", 2003).
func (g *grid) general() distribution {
	var d distribution
	center, sum := math.Log(1/(30*86400.0)), 0.0
	for i := 1; i < rateCount; i++ {
		z := (g.log[i] - center) / math.Log(10)
		d[i] = math.Exp(-z * z / 2)
		sum += d[i]
	}
	for i := 1; i < rateCount; i++ {
		d[i] *= 2 / (3 * sum)
	}
	d[0] = 1.0 / 3
	return d
}

// likelihood returns how well each rate explains a history. It is 1 for the best.
func (g *grid) likelihood(h History) distribution {
	var l distribution
	dated, same := float64(h.dated), float64(h.same)
	gap, deviation, undated := h.gaps()
	// The model is that half of the gaps are longer than their mean by the deviation, and half are shorter by it.
	long, short := math.Exp(gap+deviation), math.Exp(gap-deviation)
	best := math.Inf(-1)
	for i, rate := range g.rate {
		l[i] = -rate * same
		if h.dated > 0 {
			l[i] += dated * g.log[i]
		}
		if h.undated > 0 {
			l[i] += undated / 2 * (math.Log(-math.Expm1(-rate*long)) + math.Log(-math.Expm1(-rate*short)))
		}
		if h.born {
			l[i] += math.Log(rate + bornRate)
		}
		best = max(best, l[i])
	}
	for i := range l {
		l[i] = math.Exp(l[i] - best)
	}
	return l
}

// posterior combines the likelihood of a page with the prior of all pages.
func (prior *distribution) posterior(likelihood *distribution) distribution {
	var d distribution
	sum := 0.0
	for i, l := range likelihood {
		d[i] = prior[i] * l
		sum += d[i]
	}
	if !(sum > 0) {
		return *prior // no rate explains the history, so the page counts as an average one
	}
	for i := range d {
		d[i] /= sum
	}
	return d
}

// gainAt returns the expected gain of a visit at time j of the grid.
func (g *grid) gainAt(d *distribution, j int) float64 {
	sum := 0.0
	for i, p := range d {
		sum += p * g.gain[j][i]
	}
	return sum
}

// reach returns the time in seconds at which the gain reaches a price, +Inf if it never does. The gain grows with time.
func reach(price float64, times *[timeCount]float64, gainAt func(j int) float64) float64 {
	low := sort.Search(timeCount, func(j int) bool { return gainAt(j) >= price })
	switch low {
	case 0:
		return times[0]
	case timeCount:
		return math.Inf(1)
	}
	// Between two times of the grid the gain is almost a power of time.
	a, b := gainAt(low-1), gainAt(low)
	if !(a > 0) {
		return times[low]
	}
	share := math.Log(price/a) / math.Log(b/a)
	return times[low-1] * math.Pow(timeStep, share)
}

// seconds converts seconds to a duration of at most longest.
func seconds(s float64) time.Duration {
	if !(s < longest.Seconds()) {
		return longest
	}
	return time.Duration(s * float64(time.Second))
}
