package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"

	"proxima/cmd/proxima/compare"
)

// interval is a row's difference to the reference. Left, Mid, Right and Zero are in percent of the drawing's width.
type interval struct {
	Name                   string
	Left, Mid, Right, Zero float64
	Rel, Span, Ms, Of      string
}

// intervals returns the differences, the fastest first.
func intervals(r *compare.Result) (list []interval) {
	low, high := 0.0, 0.0
	for _, a := range r.Assigners {
		if d := a.Difference; d != nil {
			low, high = math.Min(low, d.Low), math.Max(high, d.High)
		}
	}
	at := func(v float64) float64 { return 3 + 94*(v-low)/math.Max(high-low, 1e-9) }
	for _, a := range r.Order() {
		if d := a.Difference; d != nil {
			list = append(list, interval{Name: a.Name, Left: at(d.Low), Mid: at(d.Rel), Right: at(d.High), Zero: at(0),
				Rel: signed(100*d.Rel) + "%", Span: signed(100*d.Low) + "to " + signed(100*d.High) + "%", Ms: signed(d.Ms) + "ms",
				Of: fmt.Sprintf("%s pages of %s servers, against %s", humanize.Comma(d.Pairs), humanize.Comma(int64(d.Servers)), d.To)})
		}
	}
	return list
}

// group is a part of the table of figures, line one figure of all columns.
type group struct {
	Name  string
	Lines []line
}

type line struct {
	Name, Note string
	Cells      []string
}

// groups returns the figures of all columns, without those that none of them has.
func groups(r *compare.Result) []group {
	if len(r.Assigners) == 0 {
		return nil
	}
	var list []group
	begin := func(name string) { list = append(list, group{Name: name}) }
	add := func(name, note string, of func(a compare.Assigner) string) {
		l, any := line{Name: name, Note: note}, false
		for _, a := range r.Assigners {
			l.Cells = append(l.Cells, of(a))
			any = any || of(a) != dash
		}
		if g := &list[len(list)-1]; any {
			g.Lines = append(g.Lines, l)
		}
	}
	begin("Against the truth")
	add("choice ratio", "expected time at the chosen nodes / at the best", func(a compare.Assigner) string { return figure(a.ChoiceRatio) })
	add("… with estimates", "", func(a compare.Assigner) string { return figure(a.ChoiceRatioWithEstimates) })
	add("total ratio", "measured time / expected at the best", func(a compare.Assigner) string { return figure(a.TotalRatio) })
	add("… with estimates", "", func(a compare.Assigner) string { return figure(a.TotalRatioWithEstimates) })
	add("servers at the best node", "", func(a compare.Assigner) string { return percent(a.BestShare) })
	begin("Download time")
	add("median", "", func(a compare.Assigner) string { return millis(a.P50Ms) })
	add("p90", "", func(a compare.Assigner) string { return millis(a.P90Ms) })
	add("p99", "", func(a compare.Assigner) string { return millis(a.P99Ms) })
	add("mean", "", func(a compare.Assigner) string { return millis(a.MeanMs) })
	begin("Deciding")
	asks := func(a compare.Assigner) bool { return a.EstimatesP90 != nil && *a.EstimatesP90 > 0 }
	add("estimates per server", "median, p90", func(a compare.Assigner) string {
		if !asks(a) {
			return dash
		}
		return fmt.Sprintf("%.0f, %.0f", *a.EstimatesP50, *a.EstimatesP90)
	})
	add("time to the decision", "median", func(a compare.Assigner) string {
		if a.SecondsP50 == nil || !asks(a) {
			return dash
		}
		return fmt.Sprintf("%.1f s", *a.SecondsP50)
	})
	add("error when decided", "relative, median", func(a compare.Assigner) string { return figure(a.AccuracyP50) })
	add("truncated", "servers with too few URLs, with too little time", func(a compare.Assigner) string {
		if !a.Truncated {
			return dash
		}
		return fmt.Sprintf("%d, %d of %d", a.Short, a.Forced, a.Decisions)
	})
	begin("Work")
	add("URLs", "", func(a compare.Assigner) string { return humanize.Comma(a.URLs) })
	add("downloaded", "", func(a compare.Assigner) string { return humanize.Comma(a.Downloaded) })
	add("failed", "", func(a compare.Assigner) string { return humanize.Comma(a.Failed) })
	add("bytes", "", func(a compare.Assigner) string { return size(a.Bytes) })
	begin("Alone")
	add("makespan", "first page to last", func(a compare.Assigner) string {
		if a.MakespanS == nil {
			return dash
		}
		return clock(*a.MakespanS)
	})
	add("URLs per node", "least to most", func(a compare.Assigner) string {
		if a.Balance == nil {
			return dash
		}
		return fmt.Sprintf("%d to %d", a.Balance.MinURLs, a.Balance.MaxURLs)
	})
	add("variation of URLs", "standard deviation / mean", func(a compare.Assigner) string { return figure(a.BalanceCV) })
	begin("By seed")
	for _, seed := range seedsOf(r) {
		add("choice, total", fmt.Sprint("seed ", seed), func(a compare.Assigner) string {
			i := slices.IndexFunc(a.Seeds, func(s compare.SeedShare) bool { return s.Seed == seed })
			if i < 0 || a.Seeds[i].Choice == nil {
				return dash
			}
			return figure(a.Seeds[i].Choice) + ", " + figure(a.Seeds[i].Total)
		})
	}
	return slices.DeleteFunc(list, func(g group) bool { return len(g.Lines) == 0 })
}

// seedsOf returns all seeds of which some assigner has figures of its own.
func seedsOf(r *compare.Result) (all []uint64) {
	for _, a := range r.Assigners {
		for _, s := range a.Seeds {
			all = append(all, s.Seed)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// worst returns a row for each server with a known truth, the worst choices first: server, host, city, best node, and each choice.
func worst(r *compare.Result) (rows [][]string, more int64) {
	for _, s := range r.Servers {
		if s.Best == "" {
			continue
		}
		if len(rows) == shown {
			more++
			continue
		}
		cells := []string{s.Addr, s.Host, s.City, s.Best + fmt.Sprintf(", %.0f ms", s.BestMs)}
		for _, a := range r.Assigners {
			text := dash
			for _, k := range s.Choices {
				if k.Row == a.Name && k.LossMs != nil {
					if text = "best"; *k.LossMs >= .05 { // less is a tie
						text = k.Node + " " + signed(*k.LossMs) + "ms"
					}
				}
			}
			cells = append(cells, text)
		}
		rows = append(rows, cells)
	}
	return rows, more
}
