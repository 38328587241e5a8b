package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// Headline says in one sentence who was faster, by how much, and how certain that is.
func (r *Result) Headline() string {
	order := r.Order()
	decided := slices.ContainsFunc(r.Assigners, func(a Assigner) bool { return a.Decisions+a.URLs > 0 })
	switch {
	case len(order) == 0 && decided:
		return "No page was downloaded by the nodes of all assigners, so there is nothing to compare."
	case len(order) == 0:
		return "No assigner decided anything, so there is nothing to compare: a batch takes hosts with batch.urls pending URLs, or that have waited " +
			"for batch.longest_wait."
	}
	first := order[0]
	switch {
	case len(order) < 2 && len(r.Assigners) > 1:
		return fmt.Sprintf("Only %s has downloads to compare%s.", first.Name, ratios(first))
	case len(order) < 2:
		return fmt.Sprintf("Only %s was run%s.", first.Name, ratios(first))
	}
	var level, untold []Assigner // rows that cannot be told apart from the leader; rows with too few pages in common with it
	var names, equal, others []string
	for _, a := range order[1:] {
		switch d := a.Lead; {
		case d == nil:
			untold, others = append(untold, a), append(others, a.Name)
		case d.Clear():
		default:
			level, names = append(level, a), append(names, a.Name)
			if d.Ms == 0 && d.LowMs == 0 && d.HighMs == 0 {
				equal = append(equal, a.Name)
			}
		}
	}
	over := "" // what is certain all the same
	if d := first.Difference; d.Clear() {
		over = fmt.Sprintf("; %s needed %s (95 %% interval %s)", first.Name, versus(d), span95(d))
	}
	switch {
	case len(level) > 0 && len(untold) > 0:
		over = fmt.Sprintf("; %s cannot be compared with %s, with which it shares pages of fewer than %d servers%s", first.Name,
			english.WordSeries(others, "and"), fewestServers, over)
	case len(level) == 0 && len(untold) > 0:
		level = untold
	case len(level) == 0:
		d := order[1].Lead
		if first.Difference.Clear() && first.Difference.To != d.To {
			return fmt.Sprintf("%s was faster than all others: it needed %s (95 %% interval %s) and %s (%s)%s.", first.Name,
				versus(first.Difference), span95(first.Difference), versus(d), span95(d), ratios(first))
		}
		return fmt.Sprintf("%s was faster than all others: it needed %s (95 %% interval %s)%s.", first.Name, versus(d), span95(d), ratios(first))
	}
	next := level[0]
	switch d := next.Lead; {
	case d == nil && (r.paired() || r.Apart || r.unlike()):
		return fmt.Sprintf("%s cannot be compared with %s: chance cannot be judged, since both got the same pages from fewer than %d servers%s.",
			first.Name, next.Name, fewestServers, over)
	case d == nil && *first.MeanMs == *next.MeanMs:
		return fmt.Sprintf("%s and %s are equal, with a mean time per page of %.0f ms; chance cannot be judged, since both got the same pages from "+
			"fewer than %d servers%s.", first.Name, next.Name, *first.MeanMs, fewestServers, over)
	case d == nil:
		return fmt.Sprintf("%s comes before %s, with a mean time per page of %.0f and %.0f ms; chance cannot be judged, since both got the same "+
			"pages from fewer than %d servers%s.", first.Name, next.Name, *first.MeanMs, *next.MeanMs, fewestServers, over)
	case len(equal) == len(level):
		return fmt.Sprintf("%s and %s are equal%s.", first.Name, english.WordSeries(equal, "and"), over)
	case len(equal) > 0:
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(equal, name) })
		return fmt.Sprintf("%s and %s are equal, and cannot be told apart from %s%s.", first.Name, english.WordSeries(equal, "and"), english.WordSeries(names, "and"), over)
	default:
		return fmt.Sprintf("%s cannot be told apart from %s: it needed %s, which may be chance (95 %% interval %s)%s.", first.Name, english.WordSeries(names, "and"),
			versus(d), span95(d), over)
	}
}

// Order lists the rows with figures, the fastest first: by the paired difference to the reference or, without any, by the mean. A row that
// has no page in common with the reference comes last.
func (r *Result) Order() []Assigner {
	list := slices.DeleteFunc(slices.Clone(r.Assigners), func(a Assigner) bool { return a.MeanMs == nil })
	by := func(a Assigner) float64 { return *a.MeanMs }
	if r.paired() {
		by = func(a Assigner) float64 {
			switch {
			case a.Difference != nil:
				return a.Difference.Rel
			case slices.ContainsFunc(list, func(o Assigner) bool { return o.Difference != nil && o.Difference.To == a.Name }):
				return 0
			}
			return math.Inf(1)
		}
	}
	slices.SortStableFunc(list, func(a, b Assigner) int { return cmp.Compare(by(a), by(b)) })
	return list
}

// unlike reports whether separate runs are of so many other pages that their means say nothing.
func (r *Result) unlike() bool { return r.Unshared*10 > r.Pages }

// faster reports whether pages of separate runs took less time than truth, which is that of fresh connections.
func (r *Result) faster() bool {
	return !slices.ContainsFunc(r.Runs, func(i RunInfo) bool { return len(i.Assigners) > 1 }) &&
		slices.ContainsFunc(r.Assigners, func(a Assigner) bool { return a.TotalRatio != nil && *a.TotalRatio < 1 })
}

// paired reports whether rows have differences to the reference.
func (r *Result) paired() bool {
	return slices.ContainsFunc(r.Assigners, func(a Assigner) bool { return a.Difference != nil })
}

func versus(d *Difference) string {
	switch {
	case math.Abs(d.Rel) < .0005 || math.Abs(d.Rel) < .005 && !d.Clear():
		return "the same time per page as " + d.To
	case d.Rel < 0:
		return percents("%.*f", -d.Rel) + " less time per page than " + d.To
	}
	return percents("%.*f", d.Rel) + " more time per page than " + d.To
}

// percents writes shares. One below 1 % that is not 0 gets one more digit, so that it does not look like 0.
func percents(format string, shares ...float64) string {
	var args []any
	for _, v := range shares {
		digits := 0
		if a := math.Abs(v); a >= .0005 && a < .0095 {
			digits = 1
		}
		args = append(args, digits, 100*v)
	}
	return fmt.Sprintf(format+" %%", args...)
}

func span95(d *Difference) string {
	return percents("%+.*f to %+.*f", d.Low, d.High)
}

// ratios says how far an assigner was from the best.
func ratios(a Assigner) string {
	if a.ChoiceRatio == nil || a.TotalRatio == nil {
		return ""
	}
	s := fmt.Sprintf(", choosing nodes at %.2f × and taking %.2f × the time of the best possible choices", *a.ChoiceRatio, *a.TotalRatio)
	if e := a.TotalRatioWithEstimates; e != nil && *e-*a.TotalRatio >= 0.005 {
		s += fmt.Sprintf(" (%.2f × with its estimates)", *e)
	}
	return s
}

// Explain has a sentence about each row, the fastest first. Rows without times come last.
func (r *Result) Explain() []string {
	var list []string
	untimed := slices.DeleteFunc(slices.Clone(r.Assigners), func(a Assigner) bool { return a.MeanMs != nil })
	for _, a := range append(r.Order(), untimed...) {
		var parts []string
		if d := a.Difference; d != nil {
			s := fmt.Sprintf("%s (%s; %d pages, %d servers)", versus(d), span95(d), d.Pairs, d.Servers)
			if !d.Clear() && math.Abs(d.Rel) >= .005 {
				s += ", not certain"
			}
			parts = append(parts, s)
		}
		if a.EstimatesP50 != nil && *a.EstimatesP90 > 0 {
			s := fmt.Sprintf("decided with %.0f estimates per server", *a.EstimatesP50)
			if a.SecondsP50 != nil {
				s += fmt.Sprintf(" after %.0f s", *a.SecondsP50)
			}
			if a.TotalRatioWithEstimates != nil {
				if by := *a.TotalRatioWithEstimates - *a.TotalRatio; by > -.005 {
					s += fmt.Sprintf(", which added %.2f to its total ratio", math.Abs(by))
				} else {
					s += fmt.Sprintf(", which took %.2f from its total ratio", -by)
				}
			}
			parts = append(parts, s)
		}
		if a.BestShare != nil {
			parts = append(parts, fmt.Sprintf("%.0f %% of its servers went to the best node", 100**a.BestShare))
		}
		if a.Truncated {
			parts = append(parts, a.truncation())
		}
		if len(parts) > 0 {
			list = append(list, a.Name+": "+strings.Join(parts, "; ")+".")
		}
	}
	return list
}

// truncation says what kept an assigner from deciding as it wanted to.
func (a Assigner) truncation() string {
	var parts []string
	if a.Short > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d servers had fewer pages than it wanted to ask for", a.Short, a.Decisions))
	}
	if a.Forced > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d servers were decided at the last tick or the deadline", a.Forced, a.Decisions))
	}
	return "truncated: " + strings.Join(parts, ", ")
}

// some names the first four.
func some(names []string) string {
	if len(names) > 4 {
		names = append(slices.Clone(names[:4]), "…")
	}
	return strings.Join(names, ", ")
}

// Notes say what a reader must know before the figures.
func (r *Result) Notes() []string {
	var list []string
	t := r.Testbed
	note := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if t.Trusted != nil && !*t.Trusted {
		note("NOT TO BE TRUSTED: %s.", cmp.Or(strings.Join(t.Why, "; "), "the testbed says so"))
	}
	if t.Emulation == portable {
		note("The network was the portable emulation in one process: it has no loss, and nodes share processors and memory.")
	}
	if r.NodesOf != "" {
		note("Nodes and coordinates, their plots and the map are from one run only: %s.", r.NodesOf)
	}
	if r.Uneven*100 > r.Pages {
		note("%d of %d pages have no times, since the nodes of some assigners got them and those of others did not, or their logs are not here: "+
			"what is left may favour one.", r.Uneven, r.Pages)
	}
	if len(r.Mixed) > 0 {
		note("Runs in one row differ in %s: -by config has a row for each setting.", some(r.Mixed))
	}
	if r.Apart {
		note("Rows were in different worlds (scenarios or seeds): do not compare their times and ratios, only the differences, which are of the same pages.")
	}
	if r.unlike() && !r.Apart {
		note("%d of %d pages count for some assigners only, since a run ended early, or they were downloaded before the decision, for an estimate "+
			"or in vain: do not compare times and ratios, only the differences, which are of the same pages.", r.Unshared, r.Pages)
	}
	if r.faster() {
		note("The nodes of separate runs keep connections open, and truth is of fresh ones: a total ratio can be below 1.")
	}
	if r.Makespans {
		note("Rows were alone in different worlds: do not compare their makespans and balances.")
	}
	if n := len(r.LeftOut); n > 0 {
		note("%d rows are left out, since there is room for %d: %s. Compare fewer runs at once.", n, maxRows, some(r.LeftOut))
	}
	if len(r.Killed) > 0 {
		note("Unfinished runs are left out: %s.", some(r.Killed))
	}
	g := r.Reading
	if g.Missing > 0 {
		var where []string
		for i, gap := range g.Gaps {
			if i == 4 {
				where = append(where, "…")
				break
			}
			where = append(where, fmt.Sprintf("%d in the %s log of %s", gap.Lines, gap.Log, gap.Node))
		}
		note("%d lines are missing, as their numbers show: %s.", g.Missing, strings.Join(where, ", "))
	}
	if g.Damaged > 0 {
		note("%d damaged lines were skipped.", g.Damaged)
	}
	if g.Cut > 0 {
		note("%d packed files are cut off.", g.Cut)
	}
	if g.Repeated > 0 {
		note("%d lines were there twice and counted once.", g.Repeated)
	}
	if n := len(g.Unread); n > 0 {
		note("%d files were not read: %s.", n, some(g.Unread))
	}
	switch k := r.Crawl; {
	case k.Withheld != "":
		note("Coverage and losses are withheld: %s.", k.Withheld)
	case k.Lost == nil:
		note("Losses are withheld: %s.", k.LostWhy)
	case *k.Lost > 0:
		note("%d URLs WERE LOST.", *k.Lost)
	}
	return list
}
