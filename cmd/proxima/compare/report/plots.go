package report

import (
	"math"
	"slices"

	"proxima/cmd/proxima/compare"
)

// slots is the number of colours. Further lines are dashed.
const slots = 6

// coloursOf numbers rows and nodes, and so gives them colours. The usual assigners have the same ones in every report.
func coloursOf(r *compare.Result) map[string]int {
	of := map[string]int{}
	usual := map[string]int{"nearest": 0, "vivaldi": 1, "geographic": 2, "random": 3}
	next := len(usual)
	for _, a := range r.Assigners {
		if slot, ok := usual[a.Name]; ok {
			of[a.Name] = slot
			continue
		}
		if len(r.Assigners) > slots { // too many for reserved colours
			next = len(of)
		}
		of[a.Name] = next
		next++
	}
	for i, n := range r.Nodes {
		if _, taken := of[n.Name]; !taken {
			of[n.Name] = i
		}
	}
	return of
}

type section struct {
	ID, Title string
	Plots     []plot
}

// plot is drawn by page.js. Kind is "time" (x in s since the start), "times" (x in ms, logarithmic) or "counts" (x is a number,
// logarithmic). Plots over time of one Run zoom together.
type plot struct {
	Title, How string
	Kind       string `json:"kind"`
	Unit       string `json:"unit"`
	Run        string `json:"run"`
	Lines      []plotLine
	Events     []compare.Event `json:"events"`
}

type plotLine struct {
	Label  string          `json:"label"`
	Slot   int             `json:"slot"`
	Over   int             `json:"over"` // lines before it with the same points, which it would hide
	Points []compare.Point `json:"points"`
}

// sections returns the plots of a comparison. What was not measured has no plot and no heading.
func sections(r *compare.Result, colours map[string]int) []section {
	var list []section
	begin := func(id, title string) { list = append(list, section{ID: id, Title: title}) }
	add := func(kind, title, unit, how string, series []compare.Series) {
		s := &list[len(list)-1]
		s.Plots = appendPlot(s.Plots, r, colours, plot{Title: title, How: how, Kind: kind, Unit: unit}, series)
	}
	var times []compare.Series
	for _, a := range r.Assigners {
		if n := len(a.Times); n > 0 && a.Times[n-1][0] > 0 {
			times = append(times, compare.Series{Label: a.Name, Points: a.Times})
		}
	}
	begin("times", "Download time")
	add("times", "Distribution of download times", "share of downloads", "A curve further to the left is faster.", times)
	var byNode []compare.Series
	for _, n := range r.Nodes {
		byNode = append(byNode, compare.Series{Label: n.Name, Points: n.Times})
	}
	add("times", "Distribution of download times by node", "share of downloads",
		"Of all pages that a node downloaded: a node with distant servers is to the right of one with near ones.", byNode)
	for _, a := range r.Affected {
		begin("at-"+a.Name, "What happened to "+a.Name)
		rate := "hosts given to the node per minute"
		if a.Kind == "server" {
			rate = "URLs downloaded from the server per minute"
		}
		add("time", rate, "per minute", "", a.Rate)
		add("time", "URLs downloaded there", "URLs", "", a.URLs)
		add("time", "Distance in the coordinate space", "ms", "Median between it and the other side, by the servers' places that each assigner had.", a.Distance)
		add("time", "Error of the servers' places", "relative error", "", a.Error)
		add("time", "Time between two requests", "s", "", a.Spacing)
	}
	begin("course", "Course of the run")
	if separate(r) {
		add("time", "URLs downloaded", "URLs", "Each in its own run: a steeper line is a faster crawl.", r.Progress)
	}
	add("time", "Download speed, median of the 120 latest pages", "kB/s", "", r.SpeedBy)
	add("time", "Download speed by node, median of the 120 latest pages", "kB/s", "", r.Speed)
	add("time", "Processors used by each node", "processors", "", r.CPU)
	add("time", "URLs waiting at each node", "URLs", "", r.Queue)
	add("time", "Error of the nodes' coordinates", "relative error",
		"Predicted against measured round trips between nodes.", r.CoordError)
	return slices.DeleteFunc(list, func(s section) bool { return len(s.Plots) == 0 })
}

// appendPlot appends a plot with its lines, unless there is nothing to draw.
func appendPlot(list []plot, r *compare.Result, colours map[string]int, p plot, series []compare.Series) []plot {
	if p.Kind == "time" {
		p.Events = r.Events
	}
	for i, s := range series {
		slot, ok := colours[s.Label]
		if !ok {
			slot = i
		}
		points := slices.DeleteFunc(slices.Clone(s.Points), func(p compare.Point) bool { return !finite(p) })
		if len(points) > 1 {
			over := 0
			for _, l := range p.Lines {
				if slices.Equal(l.Points, points) {
					over++
				}
			}
			p.Lines = append(p.Lines, plotLine{s.Label, slot, over, points})
		}
	}
	if len(p.Lines) == 0 {
		return list
	}
	return append(list, p)
}

// separate reports whether each row had a run of its own. In a comparison all download the same URLs at the same time.
func separate(r *compare.Result) bool {
	return len(r.Runs) > 1 && !slices.ContainsFunc(r.Runs, func(run compare.RunInfo) bool { return len(run.Assigners) > 1 })
}

func finite(p compare.Point) bool {
	return !math.IsNaN(p[0]+p[1]) && !math.IsInf(p[0]+p[1], 0)
}
