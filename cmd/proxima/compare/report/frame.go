package report

import (
	"fmt"
	"html/template"
	"math"
)

// size is one of the two forms in which a plot is drawn; style sheets show the one that fits the window.
type size struct {
	narrow        bool
	width, height float64
	left, right   float64 // margins
}

const (
	fontSize   = 12.0
	topMargin  = 46.0 // unit of the axis, then the numbers of the events
	footMargin = 44.0 // values of the axis, then its name
)

// formsOf are the sizes of a plot: wide with names at the lines, narrow without.
func formsOf(height, right float64) [2]size {
	return [2]size{
		{width: 900, height: height, left: 62, right: right},
		{narrow: true, width: 360, height: math.Min(height, 300), left: 50, right: 14},
	}
}

// axis says what one direction of a plot measures.
type axis struct {
	name  string
	kind  string // "number", "clock", "ms", "share": how values are written, here and in tooltips
	log   bool
	unit  string // in tooltips
	scale scale
}

// write writes a value of the axis beside a tick.
func (a axis) write(v float64) string {
	switch a.kind {
	case "clock":
		return clock(v)
	case "ms":
		if v >= 1000 {
			return short(v/1000) + gap + "s"
		}
		return short(v) + gap + "ms"
	case "share":
		return short(math.Round(v*1e6)/1e4) + gap + "%"
	}
	return short(v)
}

// ticks are round values for the length of the axis.
func (a axis) ticks() []float64 {
	length, s := math.Abs(a.scale.to-a.scale.from), a.scale
	switch {
	case a.log:
		return logTicks(s.lo, s.hi, int(length/60))
	case a.kind == "clock":
		return timeTicks(s.lo, s.hi, int(length/56))
	case s.from > s.to: // upright
		return niceTicks(s.lo, s.hi, max(int(length/42), 2))
	}
	return niceTicks(s.lo, s.hi, max(int(length/64), 2))
}

// describe hands an axis to the script that shows values under the pointer.
func (a axis) describe() string {
	form := "lin"
	if a.log {
		form = "log"
	}
	return fmt.Sprintf("%s|%g|%g|%s|%s|%s|%s", form, a.scale.lo, a.scale.hi, px(a.scale.from), px(a.scale.to), a.kind, a.unit)
}

// frame is the inside of a plot with its axes.
type frame struct {
	*canvas
	size
	x, y axis
}

// newFrame draws grid, values and names of both axes. The scales of x and y come with their values and get their pixels here.
func newFrame(id string, f size, x, y axis, title, desc, origin string) *frame {
	class := "plot wide"
	if f.narrow {
		id, class = id+"-n", "plot narrow"
	}
	x.scale.from, x.scale.to, x.scale.log = f.left, f.width-f.right, x.log
	y.scale.from, y.scale.to, y.scale.log = f.height-footMargin, topMargin, y.log
	c := newCanvas(id, class, title, desc, f.width, f.height, "data-x", x.describe(), "data-y", y.describe())
	fr := &frame{canvas: c, size: f, x: x, y: y}
	bottom := fr.y.scale.from
	for _, v := range y.ticks() {
		at := y.scale.at(v)
		class := "grid"
		if v == y.scale.lo {
			class = "rule"
		}
		c.line(f.left, at, f.width-f.right, at, class)
		c.text(f.left-8, at+4, "end", "tick", y.write(v))
	}
	fr.ticksBelow(bottom)
	y.name = fit(y.name, fontSize, f.width*0.5)
	c.text(4, 14, "start", "axis", y.name)
	c.text((f.left+f.width-f.right)/2, f.height-6, "middle", "axis", x.name)
	room := f.width - 16 - textWidth(y.name, fontSize) - 24
	if origin = fit(origin, 11, room); textWidth(origin, 11) <= room {
		c.text(f.width-4, 14, "end", "origin", origin)
	}
	return fr
}

// ticksBelow writes the values of the axis from left to right, leaving out what would touch its neighbour.
func (f *frame) ticksBelow(bottom float64) {
	end := math.Inf(-1)
	for _, v := range f.x.ticks() {
		at, words := f.x.scale.at(v), f.x.write(v)
		if f.x.log {
			f.line(at, topMargin, at, bottom, "grid")
		} else {
			f.line(at, bottom, at, bottom+4, "rule")
		}
		half := textWidth(words, fontSize) / 2
		left := math.Min(at-half, f.width-2*half-1)
		if left < end+6 {
			continue
		}
		f.text(left+half, bottom+18, "middle", "tick", words)
		end = left + 2*half
	}
}

// figureView is a plot as the page shows it.
type figureView struct {
	ID, Title, Part string // Part: of which scenario and seed
	How             string // how to read it, one sentence
	Pictures        []template.HTML
	Grid            bool // pictures stand beside each other instead of being forms of one
	Legend          []legendView
	Table           *tableView
	Missing         string // said where there is nothing to draw
}

type legendView struct {
	Swatch template.HTML
	Label  string
}

// tableView is what a plot shows, in figures.
type tableView struct {
	Caption string
	Head    []string
	Rows    [][]string
	Left    int // columns of words at the beginning
	Note    string
}
