package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
)

// ratiosView draws how far each assigner is from the best possible choices.
func ratiosView(p *pageMaker, assigners []Assigner) figureView {
	v := figureView{ID: "ratios", Title: "Distance from the best possible choices", Part: p.origin,
		How: "1 means that every server went to the node that is truly fastest for it; the further to the right, the worse. " +
			"Measured times may be below 1, where kept connections save the round trip that expected times have. Thin strokes are single seeds."}
	var rows []Assigner
	low, top := 1.0, 1.0
	see := func(values ...float64) bool {
		any := false
		for _, x := range values {
			if known(x) {
				low, top, any = math.Min(low, x), math.Max(top, x), true
			}
		}
		return any
	}
	for _, a := range assigners {
		shown := see(a.ChoiceRatio, a.TotalRatio, a.TotalRatioWithEstimates)
		for _, r := range a.Repeats {
			shown = see(r.ChoiceRatio, r.TotalRatio) || shown
		}
		if shown {
			rows = append(rows, a)
		}
	}
	if len(rows) == 0 {
		v.Missing = "There is no truth to compare with: the run was not emulated, or its truth was not kept."
		return v
	}
	for _, f := range formsOf(70+52*float64(len(rows)), 24) {
		v.Pictures = append(v.Pictures, drawRatios(p, f, rows, low, top))
	}
	for i, words := range [...]string{"choice ratio: expected times", "total ratio: measured times",
		"total ratio with the cost of estimates"} {
		v.Legend = append(v.Legend, legendView{ratioSwatch(i), words})
	}
	t := &tableView{Caption: v.Title, Head: []string{"assigner", "seed", "choice ratio", "total ratio", "with estimates"}, Left: 2}
	for _, a := range rows {
		t.Rows = append(t.Rows, []string{a.Name, "all", ratio(a.ChoiceRatio), ratio(a.TotalRatio), ratio(a.TotalRatioWithEstimates)})
		for _, r := range a.Repeats {
			t.Rows = append(t.Rows, []string{a.Name, r.Seed, ratio(r.ChoiceRatio), ratio(r.TotalRatio), dash})
		}
	}
	v.Table = t
	return v
}

func drawRatios(p *pageMaker, f size, rows []Assigner, low, top float64) template.HTML {
	id, class := "ratios", "plot wide"
	if f.narrow {
		id, class, f.height = "ratios-n", "plot narrow", 70+52*float64(len(rows))
	}
	left := 4.0
	if !f.narrow {
		left = 124
	}
	x := axis{kind: "number", scale: scale{from: left, to: f.width - f.right - 22}}
	x.scale.lo, x.scale.hi = niceDomain(low, math.Max(top, 1.2), 5)
	var said []string
	for _, a := range rows {
		said = append(said, fmt.Sprintf("%s: choice %s, total %s", clean(a.Name), ratio(a.ChoiceRatio), ratio(a.TotalRatio)))
	}
	c := newCanvas(id, class, "Ratios to the best possible choices", listed(said)+". "+p.origin+".", f.width, f.height)
	c.text(f.width-4, 14, "end", "origin", fit(p.origin, 11, f.width-8))
	bottom := f.height - footMargin
	for _, v := range x.ticks() {
		class := "grid"
		if math.Abs(v-1) < 1e-9 {
			class = "rule"
		}
		at := x.scale.at(v)
		c.line(at, 24, at, bottom, class)
		anchor := "middle"
		if at < 12 {
			anchor = "start"
		}
		c.text(at, bottom+18, anchor, "tick", short(v)+gap+"×")
	}
	c.text((left+f.width-f.right)/2, f.height-6, "middle", "axis", "time, as a multiple of the best possible")
	names := make([]string, len(rows))
	for i, a := range rows {
		names[i] = a.Name
	}
	slot := p.colours.of(names)
	for i, a := range rows {
		y := 24 + 52*(float64(i)+0.5)
		if f.narrow {
			c.text(left+4, y-14, "start", "name t"+strconv.Itoa(slot[i]), fit(clean(a.Name), fontSize*1.16, 300))
			y += 8
		} else {
			c.text(left-14, y+4, "end", "name t"+strconv.Itoa(slot[i]), fit(clean(a.Name), fontSize*1.16, left-18))
		}
		drawRatio(c, x.scale, a, y, slot[i])
	}
	return c.done()
}

// drawRatio draws one assigner: choice above, total below, the cost of estimates as an open sign joined to it.
func drawRatio(c *canvas, x scale, a Assigner, y float64, slot int) {
	c.line(x.from, y-9, x.to, y-9, "grid")
	c.line(x.from, y+8, x.to, y+8, "grid")
	c.open("g", "class", "c"+strconv.Itoa(slot))
	tip := func(what string, v float64) string { return clean(a.Name) + ": " + what + " " + ratio(v) }
	var ends [2]float64 // of what is drawn on each line: the figure stands behind it
	see := func(k int, v float64) { ends[k] = math.Max(ends[k], x.at(v)) }
	for _, r := range a.Repeats {
		for k, v := range [...]float64{r.ChoiceRatio, r.TotalRatio} {
			if at := x.at(v); known(v) {
				see(k, v)
				c.shape("line", "x1", at, "x2", at, "y1", y-15+17*float64(k), "y2", y-3+17*float64(k), "class", "seed",
					"data-t", tip("seed "+clean(r.Seed), v))
			}
		}
	}
	if known(a.ChoiceRatio) {
		see(0, a.ChoiceRatio)
		c.marker(3, x.at(a.ChoiceRatio), y-9, 4.6, "class", "open", "data-t", tip("choice ratio", a.ChoiceRatio))
		c.text(ends[0]+9, y-5, "start", "value halo", fmt.Sprintf("%.2f", a.ChoiceRatio))
	}
	if known(a.TotalRatio) {
		c.marker(0, x.at(a.TotalRatio), y+8, 4.8, "class", "mark", "data-t", tip("total ratio", a.TotalRatio))
		see(1, a.TotalRatio)
	}
	if e := a.TotalRatioWithEstimates; known(e) {
		if known(a.TotalRatio) {
			c.line(x.at(a.TotalRatio), y+8, x.at(e), y+8, "tie2")
		}
		c.marker(0, x.at(e), y+8, 4.8, "class", "open", "data-t", tip("total ratio with estimates", e))
		see(1, e)
	}
	if known(a.TotalRatio) {
		c.text(ends[1]+9, y+12, "start", "value halo", fmt.Sprintf("%.2f", a.TotalRatio))
	}
	c.close("g")
}

// ratioSwatch is the sign of one of the three ratios in the legend.
func ratioSwatch(kind int) template.HTML {
	c := &canvas{}
	c.open("svg", "xmlns", "http://www.w3.org/2000/svg", "viewBox", "0 0 30 12", "width", 30, "height", 12, "class", "swatch plain",
		"aria-hidden", "true")
	switch kind {
	case 0:
		c.marker(3, 15, 6, 4.2, "class", "open")
	case 1:
		c.marker(0, 15, 6, 4.6, "class", "mark")
	default:
		c.marker(0, 15, 6, 4.6, "class", "open")
	}
	return c.done()
}
