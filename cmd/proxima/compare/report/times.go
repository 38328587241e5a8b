package report

import (
	"math"
	"slices"
)

// timeline is a plot over the time since the start, all with the same axis so that they can be read one below the other.
func (p *pageMaker) timeline(id, title, yName, how, what string, series []Series) figureView {
	height := 260.0
	x := axis{name: "time since the start (min:s)", kind: "clock", scale: scale{hi: p.until}}
	return lineChart{id: id, title: title, how: how, x: x, y: axis{name: yName, kind: "number"}, series: series, events: p.events,
		first: p.hit, height: height, right: p.nameRoom, what: what}.page(p)
}

// lastSecond is where the time axis of all timelines ends.
func lastSecond(d Data, events []Event) float64 {
	last := 1.0
	see := func(groups ...[]Series) {
		for _, g := range groups {
			for _, s := range g {
				for _, q := range s.Points {
					if finite(q.X) && finite(q.Y) {
						last = math.Max(last, q.X)
					}
				}
			}
		}
	}
	if finite(d.LengthS) {
		last = math.Max(last, d.LengthS)
	}
	see(d.Progress, d.Speed, d.Load, d.CoordError)
	for _, a := range d.Affected {
		see(a.Rate, a.URLs, a.Distance, a.Error, a.Spacing)
	}
	if last > 1 {
		return last
	}
	for _, e := range events {
		last = math.Max(last, math.Max(e.AtS, e.UntilS))
	}
	return last
}

// roomForNames is the margin that the names at the ends of timelines need.
func roomForNames(d Data) float64 {
	room := 70.0
	see := func(groups ...[]Series) {
		for _, g := range groups {
			for _, s := range g {
				if len(g) > slots {
					room = math.Max(room, boldWidth("median of 000 nodes", fontSize)+16)
				}
				room = math.Max(room, math.Min(boldWidth(clean(s.Label), fontSize)+16, 150))
			}
		}
	}
	see(d.Progress, d.Speed, d.Load, d.CoordError)
	for _, a := range d.Affected {
		see(a.Rate, a.URLs, a.Distance, a.Error, a.Spacing)
	}
	return room
}

// unitOf is the unit of the first series that has one.
func unitOf(series []Series, otherwise string) string {
	for _, s := range series {
		if s.Unit != "" && s.Unit != "1" {
			return clean(s.Unit)
		}
	}
	return otherwise
}

// affectedView has the plots of one node or server that events hit.
type affectedView struct {
	ID, Name, Kind string // Kind: "node", and whether events hit it
	Figures        []figureView
}

func (p *pageMaker) affected(i int, a Affected) affectedView {
	id := "hit" + whole(int64(i+1)) + "-"
	name := clean(a.Name)
	v := affectedView{ID: id + "plots", Name: name, Kind: clean(a.Kind)}
	if slices.ContainsFunc(p.events, func(e Event) bool { return e.Target == name }) {
		v.Kind += " that the events hit"
	}
	rate, urls := "Assignments to "+name, "URLs downloaded by "+name
	rateHow := "How fast each assigner gives hosts to the node; while an event slows the node it should fall, and rise again after."
	far := "The predicted distance of the node from its servers; it should rise while downloads are slow."
	if a.Kind == "server" {
		rate, urls = "Downloads from "+name, "URLs downloaded from "+name
		rateHow = "How fast the server's pages are downloaded; a polite crawler slows down when the server does, and takes no host away."
		far = "The predicted distance of the server from the nodes; its own thinking time should not keep it there."
	}
	add := func(f figureView, series []Series) {
		if len(series) > 0 {
			v.Figures = append(v.Figures, f)
		}
	}
	add(p.timeline(id+"rate", rate, unitOf(a.Rate, "URLs/min"), rateHow, "nodes", a.Rate), a.Rate)
	add(p.timeline(id+"urls", urls+", cumulative", unitOf(a.URLs, "URLs"),
		"All URLs so far: a flat stretch means that it gets none.", "nodes", a.URLs), a.URLs)
	add(p.timeline(id+"distance", "Proxy-coordinate distance of "+name, unitOf(a.Distance, "ms")+" of round trip", far, "nodes",
		a.Distance), a.Distance)
	add(p.timeline(id+"error", "Error of the proxy coordinates around "+name, "relative error",
		"0 means that predictions were met; a rise shows that something changed, the fall after it how long coordinates took to follow.",
		"nodes", a.Error), a.Error)
	add(p.timeline(id+"spacing", "Time between requests to "+name, unitOf(a.Spacing, "s"),
		"How long the crawl waits between two requests; it should grow when the server is slow and shrink again after.",
		"nodes", a.Spacing), a.Spacing)
	return v
}
