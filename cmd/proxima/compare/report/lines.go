package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// lineChart is a plot of series over time or over another quantity.
type lineChart struct {
	id, title, how string
	x, y           axis
	series         []Series
	events         []Event
	first          []string // names to be drawn by themselves where there are too many for all
	height, right  float64
	yTop           float64 // 0: from the values
	what           string  // whose lines are summed up where they are too many: "nodes"
	// inside draws names and figures within the plot instead of names at the ends of the lines.
	inside func(*frame, []styled)
}

// styled is a line with its looks.
type styled struct {
	label  string
	slot   int
	points []Point
	middle bool // the median of a band
}

// page draws the chart in both forms.
func (c lineChart) page(p *pageMaker) figureView {
	v := figureView{ID: c.id, Title: c.title, How: c.how, Part: p.origin}
	var series []Series
	for _, s := range c.series {
		s.Points = tidy(s.Points)
		if len(drawable(s.Points, c.x.log)) > 0 {
			s.Label = clean(s.Label)
			series = append(series, s)
		}
	}
	if len(series) == 0 {
		v.Missing = "The logs have nothing to draw here."
		return v
	}
	c.series = series
	if c.y.unit == "" {
		c.y.unit = yUnit(series[0].Unit)
	}
	lines, shade := c.lines(p)
	c.domains(lines, shade)
	for _, f := range formsOf(c.height, c.right) {
		v.Pictures = append(v.Pictures, c.draw(f, lines, shade, p.origin))
	}
	for _, l := range lines {
		v.Legend = append(v.Legend, legendView{swatch(l.slot), l.label})
	}
	if shade != nil {
		v.Legend = append(v.Legend, legendView{shadeSwatch(), "from the 10th to the 90th percentile of the " + c.what})
	}
	v.Table = c.table(lines)
	return v
}

// yUnit is how a unit is written after a value.
func yUnit(unit string) string {
	if unit == "1" {
		return ""
	}
	return unit
}

// lines chooses what is drawn by itself, and sums the rest up.
func (c lineChart) lines(p *pageMaker) ([]styled, *band) {
	var chosen []Series
	var shade *band
	if len(c.series) <= slots {
		chosen = c.series
	} else {
		b := bandOf(c.series, 200)
		shade = &b
		chosen = append(chosen, Series{Label: fmt.Sprintf("median of %d %s", len(c.series), c.what), Points: b.middle})
		for _, s := range c.series {
			if slices.Contains(c.first, s.Label) && len(chosen) < slots-1 {
				chosen = append(chosen, s)
			}
		}
	}
	names := make([]string, len(chosen))
	for i, s := range chosen {
		names[i] = s.Label
	}
	out := make([]styled, len(chosen))
	for i, slot := range p.colours.of(names) {
		out[i] = styled{label: names[i], slot: slot, points: chosen[i].Points}
	}
	if shade != nil {
		out[0].middle, out[0].slot = true, slots-1
		for i := range out[1:] {
			if out[i+1].slot == slots-1 {
				out[i+1].slot = i % (slots - 1)
			}
		}
	}
	return out, shade
}

// domains finds what the axes must span.
func (c *lineChart) domains(lines []styled, shade *band) {
	xlo, xhi, ytop, ylow := math.Inf(1), math.Inf(-1), math.Inf(-1), 0.0
	see := func(points []Point) {
		for _, run := range drawable(points, c.x.log) {
			for _, q := range run {
				xlo, xhi = math.Min(xlo, q.X), math.Max(xhi, q.X)
				ytop, ylow = math.Max(ytop, q.Y), math.Min(ylow, q.Y)
			}
		}
	}
	for _, l := range lines {
		see(l.points)
	}
	if shade != nil {
		see(shade.high)
		see(shade.low)
	}
	switch {
	case c.x.log:
		c.x.scale.lo, c.x.scale.hi = logDomain(xlo, xhi)
	case c.x.scale.hi <= c.x.scale.lo:
		c.x.scale.lo, c.x.scale.hi = math.Min(0, xlo), math.Max(xhi, xlo+1)
	}
	if c.yTop > 0 {
		c.y.scale.lo, c.y.scale.hi = 0, c.yTop
		return
	}
	if ytop <= ylow {
		ytop = ylow + 1
	}
	c.y.scale.lo, c.y.scale.hi = niceDomain(ylow, ytop, 4)
}

// draw makes one form of the picture.
func (c lineChart) draw(f size, lines []styled, shade *band, origin string) template.HTML {
	names := make([]string, len(lines))
	for i, l := range lines {
		names[i] = l.label
	}
	desc := fmt.Sprintf("%s over %s, for %s. %s %s.", c.y.name, c.x.name, listed(names), c.how, origin)
	fr := newFrame(c.id, f, c.x, c.y, c.title, desc, origin)
	drawEvents(fr, c.events)
	budget := int(fr.x.scale.to-fr.x.scale.from) / 3
	if shade != nil {
		fr.shade(*shade, budget)
	}
	for i, l := range lines {
		fr.polyline(l, budget, i, len(lines))
	}
	switch {
	case c.inside != nil:
		c.inside(fr, lines)
	case !f.narrow:
		fr.ends(lines)
	}
	return fr.done()
}

// place is a point of the plot in pixels.
func (f *frame) place(p Point) (float64, float64) { return f.x.scale.at(p.X), f.y.scale.at(p.Y) }

func (f *frame) path(points []Point) string {
	var b strings.Builder
	for i, p := range points {
		if i > 0 {
			b.WriteByte(' ')
		}
		x, y := f.place(p)
		b.WriteString(px(x) + "," + px(y))
	}
	return b.String()
}

// polyline draws one series, with some of its signs on the way.
func (f *frame) polyline(l styled, budget, turn, turns int) {
	runs := drawable(l.points, f.x.log)
	total := 0
	for _, r := range runs {
		total += len(r)
	}
	f.open("g", "class", "c"+strconv.Itoa(l.slot))
	for _, r := range runs {
		r = thin(r, max(budget*len(r)/total, 3))
		class := "line"
		if l.middle {
			class = "line middle"
		}
		if len(r) == 1 {
			x, y := f.place(r[0])
			f.marker(l.slot, x, y, 3.6, "class", "mark")
			continue
		}
		f.shape("polyline", "points", f.path(r), "class", class, "stroke-dasharray", dashes(l.slot), "data-n", l.label)
	}
	const signs = 4
	from, to := f.x.scale.from, f.x.scale.to
	for k := range signs {
		at := from + (to-from)*(float64(k)+(float64(turn)+0.5)/float64(turns))/signs
		if x, y, ok := f.crossing(runs, at); ok {
			f.marker(l.slot, x, y, 3.6, "class", "mark")
		}
	}
	f.close("g")
}

// crossing is where a line passes a pixel from left to right.
func (f *frame) crossing(runs [][]Point, at float64) (float64, float64, bool) {
	for _, r := range runs {
		for i := 1; i < len(r); i++ {
			x0, y0 := f.place(r[i-1])
			x1, y1 := f.place(r[i])
			if x0 <= at && at <= x1 && x1 > x0 {
				return at, y0 + (y1-y0)*(at-x0)/(x1-x0), true
			}
		}
	}
	return 0, 0, false
}

// shade fills a band.
func (f *frame) shade(b band, budget int) {
	high, low := thin(b.high, budget), slices.Clone(thin(b.low, budget))
	slices.Reverse(low)
	f.shape("polygon", "points", f.path(high)+" "+f.path(low), "class", "shade c"+strconv.Itoa(slots-1))
}

// ends writes the names of the lines at their ends, moved apart where they would touch.
func (f *frame) ends(lines []styled) {
	type end struct {
		x, y, at float64
		styled
	}
	var ends []end
	for _, l := range lines {
		runs := drawable(l.points, f.x.log)
		last := runs[len(runs)-1]
		x, y := f.place(last[len(last)-1])
		ends = append(ends, end{x, y, y, l})
	}
	slices.SortStableFunc(ends, func(a, b end) int { return int(math.Copysign(1, a.y-b.y)) })
	const apart = 15.0
	ys := make([]float64, len(ends))
	for i := range ends {
		ys[i] = ends[i].y
	}
	spread(ys, apart, topMargin, f.y.scale.from)
	right := f.width - f.right
	for i, e := range ends {
		if math.Abs(ys[i]-e.y) > 2 || right-e.x > 2 {
			way := px(e.x+1) + "," + px(e.y) + " " + px(right+3) + "," + px(e.y) + " " + px(right+9) + "," + px(ys[i])
			f.shape("polyline", "points", way, "class", "leader")
		}
		f.text(right+12, ys[i]+4, "start", "name t"+strconv.Itoa(e.slot), fit(e.label, fontSize*1.16, f.right-14))
	}
}

// spread moves sorted positions apart until each has its gap, within low and high as far as they fit.
func spread(at []float64, gap, low, high float64) {
	for i := range at {
		at[i] = math.Max(at[i], low)
		if i > 0 {
			at[i] = math.Max(at[i], at[i-1]+gap)
		}
	}
	for i := len(at) - 1; i >= 0; i-- {
		at[i] = math.Min(at[i], high)
		if i < len(at)-1 {
			at[i] = math.Min(at[i], at[i+1]-gap)
		}
	}
}

// table reads the lines at a dozen places.
func (c lineChart) table(lines []styled) *tableView {
	t := &tableView{Caption: c.title, Head: []string{c.x.name}}
	at := make([]float64, 13)
	for i := range at {
		at[i] = c.x.scale.lo + (c.x.scale.hi-c.x.scale.lo)*float64(i)/float64(len(at)-1)
	}
	for _, l := range lines {
		t.Head = append(t.Head, l.label)
	}
	for _, x := range at {
		row := []string{c.x.write(x)}
		for _, l := range lines {
			words := dash
			if y, ok := valueAt(l.points, x); ok {
				words = number(y)
			}
			row = append(row, words)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Note = c.y.name
	return t
}

// shadeSwatch is the sample of a band in a legend.
func shadeSwatch() template.HTML {
	c := &canvas{}
	c.open("svg", "xmlns", "http://www.w3.org/2000/svg", "viewBox", "0 0 30 12", "width", 30, "height", 12, "class", "swatch",
		"aria-hidden", "true")
	c.shape("rect", "x", 1.0, "y", 1.0, "width", 28.0, "height", 10.0, "class", "shade c"+strconv.Itoa(slots-1))
	return c.done()
}
