package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
)

const (
	facetWidth = 420.0
	namedBars  = 24 // more nodes than that are drawn as a row of bars by size, without names
)

// bar is one value with its name.
type bar struct {
	name  string
	value float64
}

// balanceView draws the work of each node, per assigner.
func balanceView(p *pageMaker, id, title, unit string, of func(Share) float64, all []Balance) figureView {
	v := figureView{ID: id, Title: title, Part: p.origin, Grid: true}
	t := &tableView{Caption: title, Head: []string{"node"}, Left: 1, Note: unit}
	var facets [][]bar
	var names []string
	top := 0.0
	for _, b := range all {
		var bars []bar
		for _, s := range b.Shares {
			if x := of(s); finite(x) && x >= 0 {
				bars = append(bars, bar{s.Node, x})
				top = math.Max(top, x)
			}
		}
		if len(bars) > 0 {
			facets, names = append(facets, bars), append(names, b.Assigner)
		}
	}
	if len(facets) == 0 {
		v.Missing = "The logs have no runs of one assigner alone, from which the work of each node could be told."
		return v
	}
	slotsOf := p.colours.of(names)
	for i, bars := range facets {
		v.Pictures = append(v.Pictures, drawBars(p, fmt.Sprintf("%s-%d", id, i), names[i], unit, bars, top, slotsOf[i]))
		t.Head = append(t.Head, names[i])
	}
	t.Rows = barRows(facets)
	v.Table = t
	v.How = "Bars of equal length mean that all nodes did the same amount; CV is the standard deviation over the mean: 0 is even. " +
		"All panels have the same scale."
	return v
}

// barRows joins the bars of all assigners by node.
func barRows(facets [][]bar) [][]string {
	var order []string
	row := map[string][]string{}
	for i, bars := range facets {
		for _, b := range bars {
			if row[b.name] == nil {
				order = append(order, b.name)
				row[b.name] = append(make([]string, 0, len(facets)+1), b.name)
				for range facets {
					row[b.name] = append(row[b.name], dash)
				}
			}
			row[b.name][i+1] = number(b.value)
		}
	}
	var out [][]string
	for _, name := range order {
		out = append(out, row[name])
	}
	return out
}

// evenness is the standard deviation over the mean.
func evenness(bars []bar) float64 {
	mean, sq := 0.0, 0.0
	for _, b := range bars {
		mean += b.value / float64(len(bars))
	}
	for _, b := range bars {
		sq += (b.value - mean) * (b.value - mean) / float64(len(bars))
	}
	return math.Sqrt(sq) / mean
}

func drawBars(p *pageMaker, id, name, unit string, bars []bar, top float64, slot int) template.HTML {
	if top <= 0 {
		top = 1
	}
	note := "CV " + dash
	if cv := evenness(bars); finite(cv) {
		note = fmt.Sprintf("CV %.2f", cv)
	}
	title := fmt.Sprintf("%s: %s per node", clean(name), unit)
	desc := fmt.Sprintf("%s of %d nodes; %s. %s.", unit, len(bars), note, p.origin)
	if len(bars) > namedBars {
		return drawRanks(id, name, unit, title, desc, note, bars, top, slot)
	}
	const step, first = 22.0, 34.0
	h := first + step*float64(len(bars)) + 26
	c := newCanvas(id, "plot facet", title, desc, facetWidth, h)
	facetHead(c, name, note, slot)
	left := 0.0
	for _, b := range bars {
		left = math.Max(left, textWidth(fit(clean(b.name), fontSize, 130), fontSize))
	}
	left += 12
	s := scale{hi: top, from: left, to: facetWidth - 54}
	c.open("g", "class", "c"+strconv.Itoa(slot))
	for i, b := range bars {
		y := first + step*float64(i)
		c.text(left-8, y+14, "end", "tick", fit(clean(b.name), fontSize, 130))
		c.shape("rect", "x", left, "y", y+3, "width", math.Max(s.at(b.value)-left, 1), "height", step-7, "class", "bar",
			"data-t", clean(b.name)+": "+number(b.value)+" "+unit)
		c.text(s.at(b.value)+5, y+14, "start", "value", short3(b.value))
	}
	c.close("g")
	c.line(left, first, left, h-24, "rule")
	c.text((left+facetWidth-54)/2, h-6, "middle", "axis", unit)
	return c.done()
}

// short3 writes a value beside a bar: three digits, thousands as k.
func short3(v float64) string {
	switch {
	case v >= 999_500:
		return number(v/1e6) + gap + "M"
	case v >= 9_995:
		return number(v/1e3) + gap + "k"
	}
	return number(v)
}

func facetHead(c *canvas, name, note string, slot int) {
	c.text(4, 16, "start", "facet-name t"+strconv.Itoa(slot), fit(clean(name), 13*1.16, c.w-150))
	c.text(c.w-4, 16, "end", "origin", note)
}

// drawRanks draws many nodes as a row of bars, the one with most first.
func drawRanks(id, name, unit, title, desc, note string, bars []bar, top float64, slot int) template.HTML {
	const h = 220.0
	c := newCanvas(id, "plot facet", title, desc, facetWidth, h)
	facetHead(c, name, note, slot)
	sorted := slices.Clone(bars)
	slices.SortStableFunc(sorted, func(a, b bar) int { return int(math.Copysign(1, b.value-a.value)) })
	_, hi := niceDomain(0, top, 4)
	y := scale{hi: hi, from: h - 30, to: 34}
	for _, v := range niceTicks(0, hi, 4) {
		c.line(54, y.at(v), facetWidth-6, y.at(v), "grid")
		c.text(48, y.at(v)+4, "end", "tick", short(v))
	}
	width := (facetWidth - 60) / float64(len(sorted))
	c.open("g", "class", "c"+strconv.Itoa(slot))
	for i, b := range sorted {
		c.shape("rect", "x", 54+width*float64(i), "y", y.at(b.value), "width", math.Max(width*0.8, 0.6), "height", y.from-y.at(b.value),
			"class", "bar", "data-t", clean(b.name)+": "+number(b.value)+" "+unit)
	}
	c.close("g")
	c.line(54, y.from, facetWidth-6, y.from, "rule")
	c.text((48+facetWidth)/2, h-8, "middle", "axis", fmt.Sprintf("%d nodes by %s", len(bars), unit))
	return c.done()
}
