package main

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
)

type result struct {
	Name      string
	Freshness float64 // mean share of fresh copies
	Age       float64 // mean age of copies since their page changed, in periods; 0 for fresh copies
	Visits    int
}

// bestSteps is the number of steps per period of the best schedule. It visits the best pages of a step together.
const bestSteps = 100

// gain returns the gain of a visit to a page with a known rate of change that was visited t seconds ago. Package revisit has its own
// implementation.
func gain(rate, t float64) float64 {
	x := rate * t
	if x == 0 {
		return 0
	}
	return (-math.Expm1(-x) - x*math.Exp(-x)) / rate
}

// runBest knows the rates of change and visits the pages with the largest gains in each step. For many pages no schedule is better, since
// the gain is the Whittle index of a page.
func runBest(w *world) result {
	c := newCopies(w)
	step := w.Period.Seconds() / bestSteps
	type ranked struct {
		gain float64
		page int
	}
	order := make([]ranked, len(w.pages))
	visits, owed := 0, 0.0
	for k := 1; k <= bestSteps*w.Periods; k++ {
		now := float64(k) * step
		owed += w.budget() * step
		for i := range w.pages {
			order[i] = ranked{gain(w.pages[i].rate, now-c.last[i]), i}
		}
		n := int(owed)
		owed -= float64(n)
		slices.SortFunc(order, func(a, b ranked) int { return cmp.Or(cmp.Compare(b.gain, a.gain), a.page-b.page) })
		for _, r := range order[:n] {
			c.visit(r.page, now)
		}
		visits += n
	}
	fresh, age := c.end()
	return result{"best, rates known", fresh, age, visits}
}

// optimum returns the mean freshness of the best fixed intervals in the long run, with known rates. All pages have the same price.
func optimum(w *world) float64 {
	solve := func(price float64) (demand, fresh float64) {
		for i := range w.pages {
			rate := w.pages[i].rate
			switch {
			case rate == 0:
				fresh++
			case rate*price < 1: // otherwise no visit is worth it
				x := bisect(0, 700, func(x float64) bool { return gain(1, x) < rate*price })
				demand += rate / x
				fresh += -math.Expm1(-x) / x
			}
		}
		return demand, fresh / float64(len(w.pages))
	}
	price := bisect(-30, 40, func(log float64) bool {
		demand, _ := solve(math.Exp(log))
		return demand > w.budget()
	})
	_, fresh := solve(math.Exp(price))
	return fresh
}

// bisect returns the number between low and high up to which below is true.
func bisect(low, high float64, below func(x float64) bool) float64 {
	for range 60 {
		if mid := (low + high) / 2; below(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// queue orders pages by the time when they are due.
type queue []entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].due < q[j].due }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(entry)) }

func (q *queue) Pop() any {
	n := len(*q) - 1
	p := (*q)[n]
	*q = (*q)[:n]
	return p
}

type entry struct {
	due  float64
	page int
}

// runFixed visits each page at a fixed interval, in the order in which pages are due.
func runFixed(name string, w *world, interval func(p *page) float64) result {
	c := newCopies(w)
	q := &queue{}
	for i := range w.pages {
		if t := interval(&w.pages[i]); t < math.Inf(1) {
			// Spread the first visits over the interval, as in the long run.
			heap.Push(q, entry{t * float64(i%997+1) / 997, i})
		}
	}
	visits := 0
	for k := 1; k <= w.Pages*w.Periods; k++ {
		now := float64(k) / w.budget()
		if q.Len() == 0 {
			break
		}
		e := heap.Pop(q).(entry)
		c.visit(e.page, now)
		visits++
		heap.Push(q, entry{max(e.due, now-w.Period.Seconds()) + interval(&w.pages[e.page]), e.page})
	}
	fresh, age := c.end()
	return result{name, fresh, age, visits}
}

func runUniform(w *world) result {
	return runFixed("uniform", w, func(*page) float64 { return w.Period.Seconds() })
}

func runProportional(w *world) result {
	sum := 0.0
	for i := range w.pages {
		sum += w.pages[i].rate
	}
	return runFixed("proportional, rates known", w, func(p *page) float64 { return sum / (p.rate * w.budget()) })
}
