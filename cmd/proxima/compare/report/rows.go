package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// rowGroup is a part of the table of assigners: figures down, assigners across.
type rowGroup struct {
	Name string
	Rows []rowView
}

type rowView struct {
	Name, Hint string
	Cells      []cellView
}

type cellView struct {
	Text, Note string
	Best       bool
}

// figureRow is one figure of all assigners.
type figureRow struct {
	name, hint string
	of         func(Assigner) float64
	write      func(float64) string
	less       bool // the least is the best; otherwise none is marked
	most       bool // the most is the best
}

func (r figureRow) view(all []Assigner) (rowView, bool) {
	v := rowView{Name: r.name, Hint: r.hint}
	best, any, count := Unknown(), false, 0
	for _, a := range all {
		x := r.of(a)
		text := r.write(x)
		any = any || text != dash
		v.Cells = append(v.Cells, cellView{Text: text})
		if text != dash {
			count++
			if !finite(best) || (r.less && x < best) || (r.most && x > best) {
				best = x
			}
		}
	}
	if (r.less || r.most) && count > 1 {
		for i := range v.Cells {
			v.Cells[i].Best = v.Cells[i].Text == r.write(best)
		}
		if !slices.ContainsFunc(v.Cells, func(c cellView) bool { return !c.Best && c.Text != dash }) {
			for i := range v.Cells {
				v.Cells[i].Best = false // all the same: none is the best
			}
		}
	}
	return v, any
}

// plain writes a figure that may be zero, as short as it can.
func plain(v float64) string {
	s := number(v)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func countOf(of func(Assigner) int64) func(Assigner) float64 {
	return func(a Assigner) float64 {
		if n := of(a); n >= 0 {
			return float64(n)
		}
		return Unknown()
	}
}

func wholeFigure(v float64) string {
	if !finite(v) {
		return dash
	}
	return whole(int64(math.Round(v)))
}

func millisFigure(v float64) string {
	if !known(v) {
		return dash
	}
	return wholeMillis(v)
}

// wholeMillis writes all times of a row in the same unit, so that they can be compared by eye.
func wholeMillis(v float64) string {
	if math.Abs(v) < 10 {
		return number(v)
	}
	s := whole(int64(math.Round(math.Abs(v))))
	if v < 0 {
		s = "−" + s
	}
	return s
}

func clockFigure(v float64) string {
	if !known(v) {
		return dash
	}
	return clock(v)
}

// assignerRows is the table of assigners, without the figures that none has.
func assignerRows(all []Assigner, reference string) []rowGroup {
	groups := []struct {
		name string
		rows []figureRow
	}{
		{"Work", []figureRow{
			{name: "URLs assigned", of: countOf(func(a Assigner) int64 { return a.URLs }), write: wholeFigure},
			{name: "downloaded", of: countOf(func(a Assigner) int64 { return a.Downloaded }), write: wholeFigure},
			{name: "failed", of: countOf(func(a Assigner) int64 { return a.Failed }), write: wholeFigure},
			{name: "bytes", of: countOf(func(a Assigner) int64 { return a.Bytes }), write: bytesOf},
		}},
		{"Download time, ms", []figureRow{
			{name: "p50", of: func(a Assigner) float64 { return a.P50MS }, write: millisFigure, less: true},
			{name: "p90", of: func(a Assigner) float64 { return a.P90MS }, write: millisFigure, less: true},
			{name: "p99", of: func(a Assigner) float64 { return a.P99MS }, write: millisFigure, less: true},
			{name: "mean", of: func(a Assigner) float64 { return a.MeanMS }, write: millisFigure, less: true},
		}},
		{"Against the truth", []figureRow{
			{name: "choice ratio", hint: "expected time / best possible",
				of: func(a Assigner) float64 { return a.ChoiceRatio }, write: ratio, less: true},
			{name: "… with estimates", of: func(a Assigner) float64 { return a.ChoiceRatioWithEstimates }, write: ratio, less: true},
			{name: "total ratio", hint: "measured time / best possible",
				of: func(a Assigner) float64 { return a.TotalRatio }, write: ratio, less: true},
			{name: "… with estimates", of: func(a Assigner) float64 { return a.TotalRatioWithEstimates }, write: ratio, less: true},
			{name: "servers at the truly best node", of: func(a Assigner) float64 { return a.BestShare }, write: percent, most: true},
		}},
		{"Deciding", []figureRow{
			{name: "estimates per server, p50", of: func(a Assigner) float64 { return a.EstimatesP50 }, write: plain},
			{name: "estimates per server, p90", of: func(a Assigner) float64 { return a.EstimatesP90 }, write: plain},
			{name: "time to the decision, p50", hint: "min:s", of: func(a Assigner) float64 { return a.DecideP50S }, write: clockFigure},
			{name: "error at the decision, p50", hint: "relative", of: func(a Assigner) float64 { return a.DecideError }, write: figure},
		}},
		{"Whole runs, one assigner each", []figureRow{
			{name: "makespan", hint: "min:s", of: func(a Assigner) float64 { return a.MakespanS }, write: clockFigure, less: true},
			{name: "URLs per node, least", of: func(a Assigner) float64 { return a.BalanceMin }, write: plain},
			{name: "URLs per node, most", of: func(a Assigner) float64 { return a.BalanceMax }, write: figure},
			{name: "URLs per node, CV", of: func(a Assigner) float64 { return a.BalanceCV }, write: figure, less: true},
			{name: "busy time per node, least", hint: "s", of: func(a Assigner) float64 { return a.BusyMinS }, write: plain},
			{name: "busy time per node, most", hint: "s", of: func(a Assigner) float64 { return a.BusyMaxS }, write: figure},
			{name: "busy time per node, CV", of: func(a Assigner) float64 { return a.BusyCV }, write: figure, less: true},
		}},
	}
	var out []rowGroup
	for _, g := range groups {
		group := rowGroup{Name: g.name}
		for _, r := range g.rows {
			if v, any := r.view(all); any {
				group.Rows = append(group.Rows, v)
			}
		}
		if g.name == "Download time, ms" {
			if v, any := differences(all, reference); any {
				group.Rows = append(group.Rows, v)
			}
		}
		if g.name == "Deciding" {
			if v, any := truncations(all); any {
				group.Rows = append(group.Rows, v)
			}
		}
		if len(group.Rows) > 0 {
			out = append(out, group)
		}
	}
	return out
}

// differences is the row of paired differences with their intervals.
func differences(all []Assigner, reference string) (rowView, bool) {
	v, any := rowView{Name: "difference to " + clean(reference), Hint: "mean of pairs, 95 % interval"}, false
	for _, a := range all {
		text, note := dash, ""
		if a.Name == reference {
			text = "reference"
		} else if finite(a.DiffMS) && (a.DiffMS != 0 || a.DiffLowMS != 0 || a.DiffHighMS != 0) {
			text = wholeMillis(a.DiffMS)
			if finite(a.DiffLowMS) && finite(a.DiffHighMS) {
				note = fmt.Sprintf("%s to %s", wholeMillis(a.DiffLowMS), wholeMillis(a.DiffHighMS))
			}
			any = true
		}
		v.Cells = append(v.Cells, cellView{Text: text, Note: note})
	}
	return v, any
}

// truncations is the row of servers for which an assigner had too few URLs or too little time.
func truncations(all []Assigner) (rowView, bool) {
	v, any := rowView{Name: "truncated", Hint: "servers with too few URLs or too little time"}, false
	for _, a := range all {
		text := "no"
		if a.Truncated > 0 {
			text, any = whole(a.Truncated), true
		}
		v.Cells = append(v.Cells, cellView{Text: text})
	}
	return v, any
}

// statusView is a row of the table of outcomes.
type statusView struct {
	Label, Count, Share string
	Width               string // of its bar, percent
}

func statusRows(all []Status) []statusView {
	var total, most int64
	for _, s := range all {
		total += max(s.Count, 0)
		most = max(most, s.Count)
	}
	var out []statusView
	for _, s := range all {
		v := statusView{Label: clean(s.Label), Count: whole(s.Count), Share: dash, Width: "0"}
		if total > 0 && s.Count >= 0 {
			v.Share = percent(float64(s.Count) / float64(total))
			v.Width = fmt.Sprintf("%.1f", 100*float64(s.Count)/float64(most))
		}
		out = append(out, v)
	}
	return out
}

// pairView is a figure with its name.
type pairView struct {
	Name, Value, Note string
	Bad               bool
}

func crawlPairs(c Crawl) []pairView {
	lost := pairView{Name: "URLs lost", Value: whole(c.Lost), Bad: c.Lost > 0}
	if c.Withheld != "" {
		lost.Value = "withheld"
	}
	pairs := []pairView{
		{Name: "coverage", Value: percent(c.Coverage), Note: "attempted / assigned"},
		{Name: "coverage of the sites", Value: percent(c.CoverageGenerated), Note: "found / all pages there are"},
		{Name: "overlap", Value: percent(c.Overlap), Note: "downloads that were repeats"},
		lost,
		{Name: "hosts re-assigned", Value: whole(c.Reassigned)},
		{Name: "URLs exchanged", Value: plain(c.URLsPerPage), Note: "between nodes, a page"},
		{Name: "messages", Value: plain(c.MessagesPerPage), Note: "between nodes, a page"},
		{Name: "traffic", Value: bytesOf(c.BytesPerPage), Note: "between nodes, a page"},
	}
	if c.Withheld != "" {
		pairs[0].Value = "withheld"
	}
	return pairs
}

func nodeTable(nodes []Node, origin string) *tableView {
	if len(nodes) == 0 {
		return nil
	}
	t := &tableView{Caption: "Nodes", Note: origin, Left: 2,
		Head: []string{"node", "city", "URLs", "bytes", "busy, min:s", "CPU, s", "CPU, ms a page", "peak memory", "coordinate error"}}
	for _, n := range nodes {
		memory := dash
		if n.PeakBytes > 0 {
			memory = bytesOf(float64(n.PeakBytes))
		}
		t.Rows = append(t.Rows, []string{n.Name, n.City, whole(n.URLs), bytesOf(float64(n.Bytes)), clockFigure(n.BusyS), figure(n.CPUS),
			figure(n.CPUMSPage), memory, figure(n.CoordError)})
	}
	return t
}
