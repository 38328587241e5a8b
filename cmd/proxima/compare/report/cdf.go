package report

import (
	"fmt"
	"strconv"
)

// cdfView draws how the download times of each assigner are distributed.
func cdfView(p *pageMaker, series []Series) figureView {
	c := lineChart{
		id: "cdf", title: "Distribution of download times", height: 420, right: 20, yTop: 1, series: series, what: "assigners",
		how: "The share of downloads that took at most so long; a curve further to the left is faster. The time axis is logarithmic.",
		x:   axis{name: "download time (log scale)", kind: "ms", log: true, unit: ""},
		y:   axis{name: "share of downloads", kind: "share", unit: " "},
	}
	c.inside = func(f *frame, lines []styled) { quantileLegend(f, lines) }
	v := c.page(p)
	if v.Table == nil {
		return v
	}
	t := &tableView{Caption: "Download time by share of downloads", Head: []string{"share of downloads"}}
	shares := [...]float64{0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99}
	for _, q := range shares {
		t.Rows = append(t.Rows, []string{percent(q)})
	}
	for _, s := range series {
		t.Head = append(t.Head, s.Label)
		points := tidy(s.Points)
		for i, q := range shares {
			t.Rows[i] = append(t.Rows[i], millis(timeOf(points, q)))
		}
	}
	v.Table = t
	return v
}

// timeOf reads a distribution backwards: the time within which a share of the downloads ended.
func timeOf(points []Point, share float64) float64 {
	for i, p := range points {
		if !finite(p.Y) || p.Y < share {
			continue
		}
		if i == 0 || !finite(points[i-1].Y) || p.Y == points[i-1].Y {
			return p.X
		}
		a := points[i-1]
		return a.X + (p.X-a.X)*(share-a.Y)/(p.Y-a.Y)
	}
	return Unknown()
}

// quantileLegend marks half and nine tenths, and names the lines with their times at both in the corner that a distribution
// leaves free.
func quantileLegend(f *frame, lines []styled) {
	left, right := f.x.scale.from, f.x.scale.to
	for _, q := range [...]float64{0.5, 0.9} {
		y := f.y.scale.at(q)
		f.line(left, y, right, y, "guide")
		f.text(left+5, y-4, "start", "guide-n", fmt.Sprintf("p%.0f", q*100))
	}
	if f.narrow {
		return
	}
	const step, w = 18.0, 262.0
	x, y := right-w, f.y.scale.from-14-step*float64(len(lines))
	f.shape("rect", "x", x, "y", y-17, "width", w-6, "height", step*float64(len(lines)+1)+4, "rx", 4.0, "class", "box")
	f.text(right-84, y-2, "end", "tick", "p50")
	f.text(right-14, y-2, "end", "tick", "p90")
	for i, l := range lines {
		at := y + step*float64(i+1)
		f.text(x+10, at-3, "start", "name t"+strconv.Itoa(l.slot), fit(l.label, fontSize*1.16, 110))
		f.text(right-84, at-3, "end", "value", millis(timeOf(l.points, 0.5)))
		f.text(right-14, at-3, "end", "value", millis(timeOf(l.points, 0.9)))
	}
}
