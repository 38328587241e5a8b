package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Headline says in one sentence who won, by how much, and why.
func (r *Result) Headline() string {
	order := r.order()
	if len(order) == 0 {
		return "No assigner has decided anything: there is nothing to compare."
	}
	first := order[0]
	if len(order) == 1 {
		return fmt.Sprintf("%s alone was run%s.", first.Name, r.ratios(first))
	}
	if r.Reference == "" || first.Difference == nil && first.Name != r.Reference {
		return fmt.Sprintf("%s needed least time per page%s; without paired downloads by random nothing is said about chance.", first.Name,
			r.ratios(first))
	}
	if first.Name == r.Reference {
		return fmt.Sprintf("No assigner beat %s%s.", r.Reference, r.ratios(first))
	}
	d := first.Difference
	if d.High >= 0 {
		return fmt.Sprintf("%s needed %s, which may be chance: the 95 %% interval is %s.", first.Name, r.versus(d.Rel), span95(d))
	}
	return fmt.Sprintf("%s won: it needed %s (95 %% interval %s)%s.", first.Name, r.versus(d.Rel), span95(d), r.ratios(first))
}

// order lists the assigners with figures, the best first: by the paired difference to the reference, else by the mean.
func (r *Result) order() []Assigner {
	var list []Assigner
	for _, a := range r.Assigners {
		if a.MeanMs != nil {
			list = append(list, a)
		}
	}
	better := func(a Assigner) float64 {
		switch {
		case a.Name == r.Reference:
			return 0
		case a.Difference != nil:
			return a.Difference.Rel
		}
		return 1
	}
	paired := slices.ContainsFunc(list, func(a Assigner) bool { return a.Difference != nil })
	slices.SortStableFunc(list, func(a, b Assigner) int {
		x, y := *a.MeanMs, *b.MeanMs
		if paired {
			x, y = better(a), better(b)
		}
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return list
}

// versus puts a relative difference to the reference into words.
func (r *Result) versus(rel float64) string {
	switch {
	case math.Abs(rel) < .005:
		return "the same time per page as " + r.Reference
	case rel < 0:
		return fmt.Sprintf("%.0f %% less time per page than %s", -100*rel, r.Reference)
	}
	return fmt.Sprintf("%.0f %% more time per page than %s", 100*rel, r.Reference)
}

func span95(d *Difference) string {
	return fmt.Sprintf("%+.0f to %+.0f %%", 100*d.Low, 100*d.High)
}

// ratios says how far an assigner was from the best.
func (r *Result) ratios(a Assigner) string {
	if a.ChoiceRatio == nil || a.TotalRatio == nil {
		return ""
	}
	s := fmt.Sprintf(", choosing nodes at %.2f × and taking %.2f × the time of the best possible choices", *a.ChoiceRatio, *a.TotalRatio)
	if e := a.TotalRatioWithEstimates; e != nil && *e-*a.TotalRatio >= 0.005 {
		s += fmt.Sprintf(" (%.2f × with its estimates)", *e)
	}
	return s
}

// explain has a sentence on each assigner but the reference, the best first.
func (r *Result) explain() []string {
	var list []string
	for _, a := range r.order() {
		var parts []string
		if d := a.Difference; d != nil {
			s := fmt.Sprintf("%s (%s; %d pages, %d servers)", r.versus(d.Rel), span95(d), d.Pairs, d.Servers)
			if d.Low < 0 && d.High > 0 && math.Abs(d.Rel) >= .005 {
				s += ", not certain"
			}
			parts = append(parts, s)
		}
		if a.EstimatesP50 != nil && *a.EstimatesP90 > 0 {
			s := fmt.Sprintf("decided with %.0f estimates a server", *a.EstimatesP50)
			if a.SecondsP50 != nil {
				s += fmt.Sprintf(" after %.0f s", *a.SecondsP50)
			}
			if a.TotalRatioWithEstimates != nil {
				s += fmt.Sprintf(", which cost %+.2f of total ratio", *a.TotalRatioWithEstimates-*a.TotalRatio)
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

// truncation says what kept an assigner from deciding as it would have.
func (a Assigner) truncation() string {
	var parts []string
	if a.Short > 0 {
		parts = append(parts, fmt.Sprintf("at %d of %d servers fewer pages could be asked for than it wanted", a.Short, a.Decisions))
	}
	if a.Forced > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d servers were decided at the last tick or the deadline", a.Forced, a.Decisions))
	}
	return "truncated: " + strings.Join(parts, ", ")
}

// notes are what a reader must know before the figures.
func (r *Result) notes() []string {
	var list []string
	t := r.Testbed
	if t.Trusted != nil && !*t.Trusted {
		list = append(list, "NOT TO BE TRUSTED: "+orElse(strings.Join(t.Why, "; "), "the testbed says so")+".")
	}
	if t.Emulation == portable {
		list = append(list, "The network was the portable emulation in one process: it has no loss, and nodes share processors and memory.")
	}
	if r.nodesOf != "" {
		list = append(list, "Nodes and coordinates, their plots and the map are of one run alone: "+r.nodesOf+".")
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
		list = append(list, fmt.Sprintf("%d lines are missing, as their numbers show: %s.", g.Missing, strings.Join(where, ", ")))
	}
	if g.Damaged+g.Cut > 0 {
		list = append(list, fmt.Sprintf("%d damaged lines were passed over; %d packed files break off.", g.Damaged, g.Cut))
	}
	if g.Repeated > 0 {
		list = append(list, fmt.Sprintf("%d lines were there twice and counted once.", g.Repeated))
	}
	if g.Newer != "" {
		list = append(list, g.Newer+" is in a newer version of the logs and was not read.")
	}
	if why := r.Crawl.Withheld; why != "" {
		list = append(list, "Coverage and losses are withheld: "+why+".")
	} else if r.Crawl.Lost == nil {
		list = append(list, "Losses are withheld: "+r.Crawl.LostWhy+".")
	} else if *r.Crawl.Lost > 0 {
		list = append(list, fmt.Sprintf("%d URLs WERE LOST.", *r.Crawl.Lost))
	}
	return list
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
