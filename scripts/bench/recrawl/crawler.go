package main

import (
	"container/heap"
	"time"

	"proxima/fetch/text"
	"proxima/frontier/revisit"
)

// looks counts the visits of a crawler that estimates the rates of change itself.
type looks struct {
	Visits      int
	NotModified int // answered 304: no page was sent
	Sent        int // pages sent and read
	Real        int // visits at which the text had changed
	Missed      int // of those, changes that were not noticed
	Same        int // pages sent with the same text
	Differed    int // of those, with another counter, date, advertisement
	Reported    int // of those, taken for a change
	Reading     time.Duration
}

// crawler visits a world like a node: package revisit plans the visits, and package text detects changes.
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
	site      *site // nil if pages are not generated and changes are known
	looks     looks
}

func (w *world) time(t float64) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(t * float64(time.Second)))
}

func newCrawler(w *world, s *site) *crawler {
	c := &crawler{w: w, copies: newCopies(w), config: revisit.Default(), sample: new(revisit.Sample), site: s,
		histories: make([]revisit.History, w.Pages), prints: make([]text.Fingerprint, w.Pages), seen: make([]int, w.Pages)}
	c.config.Budget = int(w.budget() * 86400)
	c.plan = c.config.NewPlan(c.sample, 0) // like a crawl at its beginning
	for i := range w.pages {
		if s != nil {
			c.prints[i] = text.Extract(s.page(i, 0, 0), "utf-8", false).Fingerprint
		}
		c.histories[i] = c.histories[i].With(revisit.Visit{})
		c.sample.Put(uint64(i), c.histories[i])
		heap.Push(&c.queue, entry{c.next(i, 0), i})
	}
	return c
}

// next returns when a page is due according to the newest plan.
func (c *crawler) next(i int, now float64) float64 {
	return c.plan.Next(c.histories[i], c.w.time(c.copies.last[i]), c.w.time(now), revisit.Hints{}).Sub(c.w.time(0)).Seconds()
}

// run spends the budget until the horizon. It keeps what it cannot spend immediately for an hour, like the frontier.
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
	i := c.queue[0].page
	if c.queue[0].due > now {
		return false
	}
	last := c.copies.last[i]
	changed := c.look(i, c.copies.visit(i, now), now)
	c.histories[i] = c.histories[i].With(revisit.Visit{Gap: c.w.time(now).Sub(c.w.time(last)), Changed: changed})
	c.sample.Put(uint64(i), c.histories[i])
	c.queue[0].due = c.next(i, now)
	heap.Fix(&c.queue, 0)
	return true
}

// look downloads a page that has changed some times since the last visit. It returns whether the crawler noticed a change.
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
	print := text.Extract(body, "utf-8", false).Fingerprint
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
