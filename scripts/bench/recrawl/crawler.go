package main

import (
	"container/heap"
	"time"

	"proxima/fetch/text"
	"proxima/frontier/revisit"
)

// looks is what a crawler saw that finds out by itself when to look, and what has changed.
type looks struct {
	Visits      int
	NotModified int // answered 304: no page was sent
	Sent        int // pages sent and read
	Real        int // visits at which the page said something else
	Missed      int // of those, not noticed
	Same        int // pages sent that said the same
	Differed    int // of those, with another counter, date, advertisement
	Reported    int // of those, taken for a change
	Reading     time.Duration
}

// crawler visits a world as a node does, with package revisit to say when and package text to say what has changed.
type crawler struct {
	w         *world
	copies    *copies
	queue     queue
	config    revisit.Config
	plan      *revisit.Plan
	sample    *revisit.Sample
	histories []revisit.History
	prints    []text.Fingerprint
	seen      []int // the version of each copy
	site      *site // nil where pages are not made, and changes are known
	looks     looks
}

func (w *world) time(t float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(t * float64(time.Second)))
}

func newCrawler(w *world, s *site) *crawler {
	c := &crawler{w: w, copies: newCopies(w), config: revisit.Default(), sample: revisit.NewSample(), site: s,
		histories: make([]revisit.History, w.Pages), prints: make([]text.Fingerprint, w.Pages), seen: make([]int, w.Pages)}
	c.config.Budget = int(w.budget() * 86400)
	c.plan = c.config.NewPlan(c.sample, 0) // as a crawl begins
	for i := range w.pages {
		if s != nil {
			c.prints[i] = text.Extract(s.page(i, 0, 0), "utf-8").Fingerprint
		}
		c.histories[i] = c.histories[i].With(revisit.Visit{})
		c.sample.Put(uint64(i), c.histories[i])
		heap.Push(&c.queue, entry{c.next(i, 0), i})
	}
	return c
}

// next is when a page is due, by the newest plan.
func (c *crawler) next(i int, now float64) float64 {
	return c.plan.Next(c.histories[i], c.w.time(c.copies.last[i]), c.w.time(now), revisit.Hints{}).Sub(c.w.time(0)).Seconds()
}

// run spends the budget until the horizon. What cannot be spent at once is kept for an hour, as the frontier does.
func (c *crawler) run(name string) result {
	planned, owed := 0, 0.0
	for k := 1; k <= c.w.Pages*c.w.Periods; k++ {
		now := float64(k) / c.w.budget()
		for owed = min(owed+1, max(1, c.w.budget()*3600)); owed >= 1 && c.visitOne(now); owed-- {
		}
		if c.looks.Visits-planned >= c.w.Pages/10 {
			c.plan, planned = c.config.NewPlan(c.sample, c.w.Pages), c.looks.Visits
		}
	}
	fresh, age := c.copies.end()
	return result{name, fresh, age, c.looks.Visits}
}

// visitOne visits the page that is due next, if one is due.
func (c *crawler) visitOne(now float64) bool {
	due, i := c.queue.due[0], c.queue.page[0]
	if due > now {
		return false
	}
	last := c.copies.last[i]
	changed := c.look(i, c.copies.visit(i, now), now)
	c.histories[i] = c.histories[i].With(revisit.Visit{Gap: c.w.time(now).Sub(c.w.time(last)), Changed: changed})
	c.sample.Put(uint64(i), c.histories[i])
	c.queue.due[0] = c.next(i, now)
	heap.Fix(&c.queue, 0)
	return true
}

// look downloads a page that has changed so often since the last look, and says whether that was noticed.
func (c *crawler) look(i, changes int, now float64) (noticed bool) {
	c.looks.Visits++
	c.seen[i] += changes
	if changes > 0 {
		c.looks.Real++
	}
	if c.site == nil {
		return changes > 0
	}
	if changes == 0 && c.site.validates(i) {
		c.looks.NotModified++
		return false
	}
	body := c.site.page(i, c.seen[i], now)
	start := time.Now()
	print := text.Extract(body, "utf-8").Fingerprint
	c.looks.Reading += time.Since(start)
	c.looks.Sent++
	noticed = print.Changed(c.prints[i])
	c.prints[i] = print
	switch {
	case changes > 0 && !noticed:
		c.looks.Missed++
	case changes == 0:
		c.looks.Same++
		if c.site.trivial(i) {
			c.looks.Differed++
		}
		if noticed {
			c.looks.Reported++
		}
	}
	return noticed
}
