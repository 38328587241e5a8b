package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// headline says in one sentence which assigner was better, by how much, and why.
func headline(d Data) string {
	words := clean(strings.TrimSpace(d.Headline))
	if words == "" {
		words = verdict(d)
	}
	if d.Testbed.Known && !d.Testbed.Trusted {
		words = "Not to be trusted: " + words
	}
	return words
}

// measure is the figure that assigners are ranked by.
type measure struct {
	of   func(Assigner) float64
	what string
}

// measureFor takes the ratio to truth where all have it, else means, else medians.
func measureFor(all []Assigner) measure {
	for _, m := range [...]measure{
		{func(a Assigner) float64 { return a.TotalRatio }, "total download time"},
		{func(a Assigner) float64 { return a.MeanMS }, "mean download time"},
		{func(a Assigner) float64 { return a.P50MS }, "median download time"},
	} {
		if !slices.ContainsFunc(all, func(a Assigner) bool { return !known(m.of(a)) }) {
			return m
		}
	}
	return measure{}
}

func verdict(d Data) string {
	var ran []Assigner
	for _, a := range d.Assigners {
		if a.Downloaded > 0 {
			a.Name = clean(a.Name)
			ran = append(ran, a)
		}
	}
	switch len(ran) {
	case 0:
		return "Nothing was downloaded for any assigner, so there is nothing to compare."
	case 1:
		a := ran[0]
		return fmt.Sprintf("Only %s was run, so there is nothing to compare it with: half of its downloads took less than %s, "+
			"nine tenths less than %s.", a.Name, millis(a.P50MS), millis(a.P90MS))
	}
	m := measureFor(ran)
	if m.of == nil {
		return "The logs do not have the times by which the assigners could be ranked."
	}
	slices.SortStableFunc(ran, func(a, b Assigner) int { return cmp.Compare(m.of(a), m.of(b)) })
	best, second := ran[0], ran[1]
	less := func(a Assigner) string {
		return fmt.Sprintf("%.0f"+gap+"%% less than %s’s", 100*(1-m.of(best)/m.of(a)), a.Name)
	}
	if 1-m.of(best)/m.of(second) < 0.02 || overlapping(d, best, second) {
		return fmt.Sprintf("No assigner was clearly better: %s leads %s by %s of %s, which is within the uncertainty.",
			best.Name, second.Name, percent(1-m.of(best)/m.of(second)), m.what)
	}
	var margins []string
	for _, a := range ran[1:] {
		margins = append(margins, less(a))
	}
	return fmt.Sprintf("%s was better: %s was %s%s.", best.Name, "its "+m.what, listed(margins), reason(best, second))
}

// overlapping says whether the intervals of two paired differences leave open which assigner is faster.
func overlapping(d Data, best, second Assigner) bool {
	reference := d.Reference
	if reference == "" {
		reference = "random"
	}
	interval := func(a Assigner) (lo, hi float64, ok bool) {
		if a.Name == reference {
			return 0, 0, true
		}
		return a.DiffLowMS, a.DiffHighMS, finite(a.DiffLowMS) && finite(a.DiffHighMS) && a.DiffLowMS < a.DiffHighMS
	}
	_, bestHigh, ok1 := interval(best)
	secondLow, _, ok2 := interval(second)
	return ok1 && ok2 && bestHigh >= secondLow
}

// reason is what the figures have to say about why one was better than the other.
func reason(best, second Assigner) string {
	switch {
	case finite(best.BestShare) && finite(second.BestShare) && best.BestShare > second.BestShare:
		return fmt.Sprintf(", because it gave %s of the servers to the node that is truly fastest for them (%s: %s)",
			percent(best.BestShare), second.Name, percent(second.BestShare))
	case known(best.ChoiceRatio) && known(second.ChoiceRatio) && best.ChoiceRatio < second.ChoiceRatio:
		return fmt.Sprintf(", because its wrong choices cost less (choice ratio %s, %s: %s)",
			ratio(best.ChoiceRatio), second.Name, ratio(second.ChoiceRatio))
	}
	return ""
}
