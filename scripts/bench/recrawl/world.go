package main

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// world is a web that changes. Times are seconds since all of it was downloaded for the first time.
type world struct {
	settings
	pages   []page
	horizon float64
}

type page struct {
	rate    float64   // changes per second
	changes []float64 // the times of its changes until the horizon
}

type settings struct {
	Pages, Hosts int
	Period       time.Duration // in which the budget allows one visit per page
	Periods      int
	Median       float64 // changes per period of the median page among those that change
	Decades      float64 // over which 95 % of the rates spread
	Never        float64 // share of pages that never change
	Trivial      float64 // share of pages with trivial parts that differ at each download
	Seed         uint64
}

func defaults() settings {
	return settings{Pages: 20_000, Hosts: 200, Period: 7 * 24 * time.Hour, Periods: 20, Median: 1, Decades: 2, Never: 1.0 / 3, Trivial: 0.5, Seed: 1}
}

func newWorld(s settings) *world {
	w := &world{settings: s, pages: make([]page, s.Pages), horizon: s.Period.Seconds() * float64(s.Periods)}
	rnd := rand.New(rand.NewPCG(s.Seed, 1))
	sigma := math.Ln10 * s.Decades / 4
	for i := range w.pages {
		if rnd.Float64() < s.Never {
			continue
		}
		p := &w.pages[i]
		p.rate = s.Median / s.Period.Seconds() * math.Exp(sigma*rnd.NormFloat64())
		for t := rnd.ExpFloat64() / p.rate; t < w.horizon; t += rnd.ExpFloat64() / p.rate {
			p.changes = append(p.changes, t)
		}
	}
	return w
}

// budget returns the number of visits per second.
func (w *world) budget() float64 { return float64(w.Pages) / w.Period.Seconds() }

// version returns how often a page has changed until a time.
func (p *page) version(at float64) int { return sort.SearchFloat64s(p.changes, at) }

// copies has a crawler's copies and their freshness so far.
type copies struct {
	w     *world
	last  []float64 // when each page was visited last
	fresh float64   // seconds of fresh copies
	age   float64   // integral of how long old copies were old
}

func newCopies(w *world) *copies { return &copies{w: w, last: make([]float64, len(w.pages))} }

// visit updates the statistics of a copy and makes it fresh. It returns how often the page has changed.
func (c *copies) visit(i int, now float64) (changed int) {
	p := &c.w.pages[i]
	before, after := p.version(c.last[i]), p.version(now)
	old := now
	if after > before {
		old = p.changes[before]
	}
	c.fresh += old - c.last[i]
	c.age += (now - old) * (now - old) / 2
	c.last[i] = now
	return after - before
}

// end updates the statistics of all copies at the horizon. It returns the means over pages and time of the freshness and of the age in
// periods.
func (c *copies) end() (freshness, age float64) {
	for i := range c.last {
		c.visit(i, c.w.horizon)
	}
	all := c.w.horizon * float64(len(c.w.pages))
	return c.fresh / all, c.age / all / c.w.Period.Seconds()
}
