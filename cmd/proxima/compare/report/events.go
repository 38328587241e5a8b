package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// sortedEvents are the events in the order of their beginnings; their numbers in plots and list are places in it, from 1.
func sortedEvents(events []Event) []Event {
	var out []Event
	for _, e := range events {
		if !finite(e.AtS) {
			continue
		}
		if !finite(e.UntilS) {
			e.UntilS = e.AtS
		}
		e.Label, e.Target = clean(e.Label), clean(e.Target)
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(a.AtS, b.AtS) })
	return out
}

// drawEvents shades the spans of events, marks the moments of the others, and numbers both. Numbers too close to each other
// become one sign: 3–7.
func drawEvents(f *frame, events []Event) {
	left, right, top, bottom := f.x.scale.from, f.x.scale.to, f.y.scale.to, f.y.scale.from
	inside := func(s float64) float64 { return math.Min(math.Max(f.x.scale.at(s), left), right) }
	type cluster struct {
		at          float64
		first, last int
	}
	var clusters []cluster
	room := 34.0 // of a sign with two numbers
	if len(events) > 9 {
		room = 52
	}
	for i, e := range events {
		if e.AtS > f.x.scale.hi || math.Max(e.UntilS, e.AtS) < f.x.scale.lo {
			continue
		}
		x := inside(e.AtS)
		if e.UntilS > e.AtS {
			until := inside(e.UntilS)
			f.shape("rect", "x", x, "y", top-6, "width", math.Max(until-x, 1), "height", bottom-top+6, "class", "span")
			f.line(until, top-6, until, bottom, "moment")
		}
		f.line(x, top-6, x, bottom, "moment")
		if n := len(clusters); n > 0 && x-clusters[n-1].at < room {
			clusters[n-1].last = i
			continue
		}
		clusters = append(clusters, cluster{at: x, first: i, last: i})
	}
	for k, c := range clusters {
		words := strconv.Itoa(c.first + 1)
		if c.last > c.first {
			words = fmt.Sprintf("%d–%d", c.first+1, c.last+1)
		}
		w := math.Max(textWidth(words, 10)+9, 17)
		x := math.Max(math.Min(c.at-w/2, f.width-w-1), 1)
		f.shape("rect", "x", x, "y", top-23, "width", w, "height", 17.0, "rx", 8.5, "class", "badge")
		f.text(x+w/2, top-11, "middle", "badge-n", words)
		if e := events[c.first]; c.last == c.first && !f.narrow {
			end := right
			if k+1 < len(clusters) {
				end = clusters[k+1].at - room/2
			}
			if label := eventWords(e); textWidth(label, 11) <= end-x-w-8 {
				f.text(x+w+5, top-11, "start", "event-name", label)
			}
		}
	}
}

// eventWords says what happened to whom.
func eventWords(e Event) string {
	if e.Target == "" {
		return e.Label
	}
	return e.Target + ": " + e.Label
}

// eventView is a row of the list of events.
type eventView struct {
	Number     int
	When, What string
}

func eventViews(events []Event) []eventView {
	var out []eventView
	for i, e := range events {
		when := clock(e.AtS)
		if e.UntilS > e.AtS {
			when += "–" + clock(e.UntilS)
		}
		out = append(out, eventView{i + 1, when, eventWords(e)})
	}
	return out
}
