package report

import (
	"math"
	"slices"

	"proxima/cmd/proxima/compare"
)

// slots is the number of colours; lines beyond it are dashed.
const slots = 6

// coloursOf gives each row and node a number; the page has a colour for each. The usual assigners have theirs in every report.
func coloursOf(r *compare.Result) map[string]int {
	of := map[string]int{}
	usual := map[string]int{"nearest": 0, "vivaldi": 1, "geographic": 2, "random": 3}
	next := len(usual)
	for _, a := range r.Assigners {
		if slot, ok := usual[a.Name]; ok {
			of[a.Name] = slot
			continue
		}
		if len(r.Assigners) > slots { // of many the order is all
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

// section is a heading with its plots.
type section struct {
	ID, Title string
	Plots     []plot
}

// plot is what page.js draws with uPlot. Kind is "time" (x in s since the start), "times" (x in ms, on a log scale) or "counts" (the same
// with numbers). Plots over time of one Run zoom together.
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
	Points []compare.Point `json:"points"`
}

// sections are the plots of a comparison. What was not measured has no plot, and no heading.
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
		"All pages that a node downloaded, so a node with far servers stands to the right of one with near ones.", byNode)
	for _, a := range r.Affected {
		begin("at-"+a.Name, "What happened to "+a.Name)
		rate := "hosts given to the node a minute"
		if a.Kind == "server" {
			rate = "URLs downloaded from the server a minute"
		}
		add("time", rate, "a minute", "", a.Rate)
		add("time", "URLs downloaded there", "URLs", "", a.URLs)
		add("time", "Distance in the coordinate space", "ms", "Median between it and the other side, by the servers' places that each had.", a.Distance)
		add("time", "Error of the servers' places", "relative error", "", a.Error)
		add("time", "Time between two requests", "s", "", a.Spacing)
	}
	begin("course", "Course of the run")
	if separate(r) {
		add("time", "URLs downloaded", "URLs", "Each in its own run: a steeper line is a faster crawl.", r.Progress)
	}
	add("time", "Download speed, median of the 120 latest pages", "kB/s", "", r.SpeedBy)
	add("time", "Download speed by node, median of the 120 latest pages", "kB/s", "", r.Speed)
	add("time", "Processors that each node uses", "processors", "", r.CPU)
	add("time", "URLs that wait at each node", "URLs", "", r.Queue)
	add("time", "Error of the nodes' coordinates", "relative error",
		"Predicted against measured round trips between nodes.", r.CoordError)
	filled := list[:0]
	for _, s := range list {
		if len(s.Plots) > 0 {
			filled = append(filled, s)
		}
	}
	return filled
}

// appendPlot adds a plot with its lines, unless there is nothing to draw.
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
			p.Lines = append(p.Lines, plotLine{s.Label, slot, points})
		}
	}
	if len(p.Lines) == 0 {
		return list
	}
	return append(list, p)
}

// separate says that each row had a run of its own: in a comparison all download the same URLs at the same time.
func separate(r *compare.Result) bool {
	for _, run := range r.Runs {
		if len(run.Assigners) > 1 {
			return false
		}
	}
	return len(r.Runs) > 1
}

// finite says that a point can be drawn.
func finite(p compare.Point) bool {
	return !math.IsNaN(p[0]+p[1]) && !math.IsInf(p[0]+p[1], 0)
}
