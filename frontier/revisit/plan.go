package revisit

import (
	"fmt"
	"math"
	"time"
)

// Config bounds the visits of the pages that are known.
type Config struct {
	// Budget is how many visits a day all known pages get together. Most go to the pages where a visit gains most.
	Budget int
	// Min is the shortest time between two visits of a page.
	Min time.Duration
	// Max is the longest time between two visits of a page, which never changes or changes too often to be worth a visit. If the budget
	// does not suffice, it takes longer.
	Max time.Duration
}

// Default returns values for a node with some hundred thousand pages.
func Default() Config {
	return Config{Budget: 50_000, Min: time.Hour, Max: 90 * 24 * time.Hour}
}

// Validate returns an error for the first impossible value.
func (c Config) Validate() error {
	switch {
	case c.Budget < 1 || c.Budget > 1e9:
		return fmt.Errorf("budget: %d is not between 1 and 1000000000", c.Budget)
	case c.Min < time.Second || c.Min > longest:
		return fmt.Errorf("min: %v is not between 1s and %v", c.Min, longest)
	case c.Max < c.Min || c.Max > longest:
		return fmt.Errorf("max: %v is not between min, %v, and %v", c.Max, c.Min, longest)
	}
	return nil
}

// Plan says when pages are due. It is made from a sample, and does not change.
type Plan struct {
	config Config
	grid   *grid
	prior  distribution
	price  float64 // the gain, in seconds of a fresh copy, that makes a visit worth its cost
}

// maxFresh is the longest time for which Cache-Control can delay a visit. Servers say "a year" of pages that they change tomorrow.
const maxFresh = 24 * time.Hour

// leastPrice is what a visit must gain, in seconds of a fresh copy, even if the budget is large. At this price a page that changes once a
// day is visited every three hours, and one that changes once a month every 15 hours.
const leastPrice = 600

// overbooked is the number of visits that become due, divided by the budget. When too few pages are due, the visits of that time are lost.
// A tenth too many costs nothing, because all pages wait a little.
const overbooked = 1.1

// The numbers of steps of the iterations below. Both converge well before.
const (
	learnSteps = 20
	priceSteps = 40
)

// generalPages is the weight of the general prior, counted in pages of the sample.
const generalPages = 20

// NewPlan makes a plan from the sample of a node's pages and their number. From an empty sample it makes a plan for pages of which nothing
// is known. It takes some 50 ms. A new plan is worth it when a tenth of the pages have been visited since, or their number has changed by a
// tenth.
func (c Config) NewPlan(s *Sample, pages int) *Plan {
	p := &Plan{config: c, grid: newGrid()}
	general := p.grid.general()
	p.prior = general
	// Expectation maximisation: the posterior of each page follows from the prior and its history, and the new prior is the mean of the
	// posteriors.
	posteriors, likelihoods := make([]distribution, max(len(s.pages), 1)), make([]distribution, len(s.pages))
	posteriors[0] = general
	for k := range s.pages {
		likelihoods[k] = p.grid.likelihood(s.pages[k].history)
	}
	for range learnSteps {
		var sum distribution
		for i := range general {
			sum[i] = generalPages * general[i]
		}
		for k := range s.pages {
			posteriors[k] = p.prior.posterior(&likelihoods[k])
			for i, v := range posteriors[k] {
				sum[i] += v
			}
		}
		for i := range sum {
			p.prior[i] = sum[i] / (generalPages + float64(len(s.pages)))
		}
	}
	p.findPrice(posteriors, float64(max(pages, 1)))
	return p
}

// findPrice finds the price at which pages need as many visits as the budget allows, times overbooked.
func (p *Plan) findPrice(sample []distribution, pages float64) {
	gains := make([][timeCount]float64, len(sample))
	for k := range sample {
		for j := range timeCount {
			gains[k][j] = p.grid.gainAt(&sample[k], j)
		}
	}
	least, most := p.config.Min.Seconds(), p.config.Max.Seconds()
	demand := func(price float64) float64 {
		sum := 0.0
		for k := range gains {
			t := reach(price, &p.grid.times, func(j int) float64 { return gains[k][j] })
			sum += 1 / min(max(t, least), most)
		}
		return sum / float64(len(gains)) * pages
	}
	budget := overbooked * float64(p.config.Budget) / 86400
	if p.price = leastPrice; demand(p.price) <= budget {
		return // the budget suffices for all pages
	}
	low, high := math.Log(leastPrice), math.Log(1/slowest)
	for range priceSteps {
		if mid := (low + high) / 2; demand(math.Exp(mid)) > budget {
			low = mid
		} else {
			high = mid
		}
	}
	p.price = math.Exp(high)
}

// Within returns the plan with other bounds for the time between two visits.
func (p *Plan) Within(least, most time.Duration) *Plan {
	q := *p
	q.config.Min, q.config.Max = least, most
	return &q
}

// belief returns the distribution of the rate of a page with a history.
func (p *Plan) belief(h History) distribution {
	l := p.grid.likelihood(h)
	return p.prior.posterior(&l)
}

// Hints are what a server says about a page besides its content. All of it may be false.
type Hints struct {
	// FreshFor is the max-age of Cache-Control; 0 if there is none. The page is not visited for that time, up to a day
	// and Config.Max.
	FreshFor time.Duration
	// Modified is the page's lastmod in the sitemap; zero if there is none. If it is after the last visit and not in the future, the copy
	// may be old.
	Modified time.Time
	// Trust is the probability that the page has changed when Modified says so. At 0 Modified is ignored.
	Trust float64
}

// Interval returns the time between two visits of a page with a history, between Config.Min and Config.Max.
func (p *Plan) Interval(h History) time.Duration {
	d := p.belief(h)
	t := reach(p.price, &p.grid.times, func(j int) float64 { return p.grid.gainAt(&d, j) })
	return min(max(seconds(t), p.config.Min), p.config.Max)
}

// Next returns when a page is due whose last visit was at the time last. That may be before now.
func (p *Plan) Next(h History, last, now time.Time, hints Hints) time.Time {
	if last.After(now) {
		last = now // the clock was set back
	}
	due := last.Add(min(max(p.Interval(h), min(hints.FreshFor, maxFresh)), p.config.Max))
	if hints.Modified.After(last) && !hints.Modified.After(now) && p.renewed(h, hints.Trust) {
		due = last.Add(p.config.Min)
	}
	return due
}

// renewed says whether a visit is worth its price if the page differs from its copy with the probability trust. The new copy is fresh until
// the page changes again.
func (p *Plan) renewed(h History, trust float64) bool {
	d := p.belief(h)
	fresh := 0.0
	for i, share := range d {
		fresh += share / max(p.grid.rate[i], slowest)
	}
	return trust*fresh >= p.price
}
