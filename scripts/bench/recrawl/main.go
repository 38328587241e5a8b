// Command recrawl measures how fresh a crawler keeps its copies of a changing web, without a network. It compares package revisit with
// the best possible schedule, and checks that package text ignores trivial changes.
package main

import (
	"flag"
	"fmt"
	"time"
)

func main() {
	s := defaults()
	flag.IntVar(&s.Pages, "pages", s.Pages, "`number` of pages")
	flag.IntVar(&s.Hosts, "hosts", s.Hosts, "`number` of hosts")
	flag.IntVar(&s.Periods, "periods", s.Periods, "`number` of periods")
	flag.DurationVar(&s.Period, "period", s.Period, "`time` in which the budget is a visit for each page")
	flag.Float64Var(&s.Median, "median", s.Median, "`changes` a period of the median page that changes")
	flag.Float64Var(&s.Decades, "decades", s.Decades, "`decades` over which 95 % of the rates of change spread")
	flag.Float64Var(&s.Never, "never", s.Never, "`share` of pages that never change")
	flag.Float64Var(&s.Trivial, "trivial", s.Trivial, "`share` of pages with something that differs at each look")
	flag.Uint64Var(&s.Seed, "seed", s.Seed, "`seed` of the world")
	flag.Parse()
	w := newWorld(s)
	c := newCrawler(w, newSite(w))
	results := []result{runBest(w), c.run("Proxima"), runUniform(w), runProportional(w)}
	fmt.Printf("%d pages, %d periods of %v, seed %d\n\n", w.Pages, w.Periods, w.Period, w.Seed)
	fmt.Printf("| schedule | mean freshness | of the best | mean age, periods | visits |\n|---|---|---|---|---|\n")
	for _, x := range results {
		fmt.Printf("| %s | %.4f | %.3f | %.3f | %d |\n", x.Name, x.Freshness, x.Freshness/results[0].Freshness, x.Age, x.Visits)
	}
	l := c.looks
	fmt.Printf("\nBest fixed intervals in the long run, rates known: %.4f.\n", optimum(w))
	fmt.Printf("Pages sent: %d of %d visits; %d were answered 304 (%.1f %%).\n", l.Sent, l.Visits, l.NotModified, 100*float64(l.NotModified)/float64(l.Visits))
	fmt.Printf("Sent and the same: %d, of which %d with a trivial change; %d were taken for changes.\n", l.Same, l.Differed, l.Reported)
	fmt.Printf("Really changed: %d; %d were missed (%.3f %%).\n", l.Real, l.Missed, 100*float64(l.Missed)/float64(max(l.Real, 1)))
	fmt.Printf("Reading: %v a page.\n", (l.Reading / time.Duration(max(l.Sent, 1))).Round(time.Microsecond))
}
