package revisit

import (
	"math"
	"time"
)

// A Plan says when pages are due. It is made of a sample, holds until the next one, and does not change.
type Plan struct {
	config Config
	grid   *grid
	prior  distribution
	price  float64 // the gain, in seconds of a fresh copy, that makes a visit worth its cost
}

// maxFresh is the longest that Cache-Control keeps a page from being visited: servers say "a year" of pages that they
// change tomorrow.
const maxFresh = 24 * time.Hour

// leastPrice is what a visit must gain, in seconds of a fresh copy, however large the budget: a page that changes once
// a day is then looked at each three hours, and one that changes once a month once in 15 hours.
const leastPrice = 600

// overbooked is how many times the budget pages are made due for. Visits that come due in a lull cannot be made up for
// later, and a tenth too many costs nothing: all wait a little.
const overbooked = 1.1

// Steps of the iterations below; both have come close to their end well before.
const (
	learnSteps = 20
	priceSteps = 40
)

// generalPages is how many pages what is believed of pages in general counts for, beside those of the sample.
const generalPages = 20

// NewPlan makes a plan from the sample of a node's pages and their number. Of an empty sample it is a plan for pages of
// which nothing is known. It takes some 50 ms, and is worth making anew when a tenth of the pages were visited since,
// or their number has changed by a tenth.
func (c Config) NewPlan(s *Sample, pages int) *Plan {
	p := &Plan{config: c, grid: newGrid()}
	general := p.grid.general()
	p.prior = general
	// Expectation and maximisation: each page is what its history says where pages are as the prior says, and the prior
	// is the mean of the pages.
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

// findPrice finds the price at which the pages ask for as many visits as the budget has, and some more.
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
		return // there is enough for all
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

// belief is the distribution of the rate of a page with a history.
func (p *Plan) belief(h History) distribution {
	l := p.grid.likelihood(h)
	return p.prior.posterior(&l)
}

// Rate is an estimate of the changes a day of a page with a history: the median of what is believed of it.
func (p *Plan) Rate(h History) float64 {
	d := p.belief(h)
	return p.grid.median(&d) * 86400
}

// Hints is what a server says about its page without being asked for it. All of them may be false.
type Hints struct {
	// FreshFor is the max-age of Cache-Control, 0 where there is none: so long, up to a day, the page is left alone.
	FreshFor time.Duration
	// Modified is the page's lastmod in the sitemap, zero where there is none. After the last visit, and not in the
	// future, it says that the copy is old.
	Modified time.Time
	// Trust is how likely it is that the page has changed when Modified says so, from 0, where it is ignored, to 1.
	Trust float64
}

// Interval is the time between a visit and the next of a page with a history, between Config.Min and Config.Max.
func (p *Plan) Interval(h History) time.Duration {
	d := p.belief(h)
	t := reach(p.price, &p.grid.times, func(j int) float64 { return p.grid.gainAt(&d, j) })
	return min(max(seconds(t), p.config.Min), p.config.Max)
}

// Next is when a page that was visited last is due, which may lie before now.
func (p *Plan) Next(h History, last, now time.Time, hints Hints) time.Time {
	if last.After(now) {
		last = now // the clock was set back
	}
	due := last.Add(max(p.Interval(h), min(hints.FreshFor, maxFresh)))
	if hints.Modified.After(last) && !hints.Modified.After(now) && p.renewed(h, hints.Trust) {
		if soon := last.Add(p.config.Min); soon.Before(due) {
			due = soon
		}
	}
	return due
}

// renewed says whether a page is worth a visit that is, as likely as trust says, no longer as its copy. The new copy is
// fresh until the page changes again.
func (p *Plan) renewed(h History, trust float64) bool {
	d := p.belief(h)
	fresh := 0.0
	for i, share := range d {
		if i == 0 {
			fresh += share / slowest
		} else {
			fresh += share / p.grid.rate[i]
		}
	}
	return trust > 0 && min(trust, 1)*fresh >= p.price
}
