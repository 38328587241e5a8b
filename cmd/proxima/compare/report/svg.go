package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// canvas collects the elements of one SVG. Every attribute is quoted and escaped here and nowhere else.
type canvas struct {
	b    strings.Builder
	w, h float64
}

// newCanvas opens a picture that says what it shows to those who do not see it.
func newCanvas(id, class, title, desc string, w, h float64, attrs ...any) *canvas {
	c := &canvas{w: w, h: h}
	c.open("svg", append([]any{"xmlns", "http://www.w3.org/2000/svg", "viewBox", fmt.Sprintf("0 0 %s %s", px(w), px(h)), "class", class,
		"role", "img", "aria-labelledby", id + "-t " + id + "-d"}, attrs...)...)
	c.element("title", title, "id", id+"-t")
	c.element("desc", desc, "id", id+"-d")
	return c
}

// px writes a length with a tenth of a pixel.
func px(v float64) string {
	if !finite(v) {
		v = 0
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// open begins an element; attrs are names and values in turn.
func (c *canvas) open(name string, attrs ...any) {
	c.start(name, attrs)
	c.b.WriteByte('>')
}

func (c *canvas) start(name string, attrs []any) {
	c.b.WriteByte('<')
	c.b.WriteString(name)
	for i := 0; i+1 < len(attrs); i += 2 {
		v := ""
		switch x := attrs[i+1].(type) {
		case float64:
			v = px(x)
		case int:
			v = strconv.Itoa(x)
		case string:
			v = escape(x)
		}
		if v == "" {
			continue
		}
		fmt.Fprintf(&c.b, ` %s="%s"`, attrs[i], v)
	}
}

// shape is an element without content.
func (c *canvas) shape(name string, attrs ...any) {
	c.start(name, attrs)
	c.b.WriteString("/>")
}

// element is an element with text.
func (c *canvas) element(name, text string, attrs ...any) {
	c.open(name, attrs...)
	c.b.WriteString(escape(text))
	c.close(name)
}

func (c *canvas) close(name string) {
	c.b.WriteString("</")
	c.b.WriteString(name)
	c.b.WriteByte('>')
}

// text writes words; anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, class, text string) {
	if anchor == "start" {
		anchor = ""
	}
	c.element("text", text, "x", x, "y", y, "text-anchor", anchor, "class", class)
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.shape("line", "x1", x1, "y1", y1, "x2", x2, "y2", y2, "class", class)
}

// marker draws the sign of a colour around a point, so that lines can be told apart without colour.
func (c *canvas) marker(slot int, x, y, r float64, attrs ...any) {
	var d string
	switch slot % slots {
	case 0:
		c.shape("circle", append([]any{"cx", x, "cy", y, "r", r}, attrs...)...)
		return
	case 1:
		d = fmt.Sprintf("M%s %sh%sv%sh%sz", px(x-r), px(y-r), px(2*r), px(2*r), px(-2*r))
	case 2:
		d = fmt.Sprintf("M%s %sL%s %sL%s %sz", px(x), px(y-1.2*r), px(x+1.15*r), px(y+0.9*r), px(x-1.15*r), px(y+0.9*r))
	case 3:
		d = fmt.Sprintf("M%s %sL%s %sL%s %sL%s %sz", px(x), px(y-1.3*r), px(x+1.3*r), px(y), px(x), px(y+1.3*r), px(x-1.3*r), px(y))
	case 4:
		d = fmt.Sprintf("M%s %sL%s %sL%s %sz", px(x), px(y+1.2*r), px(x+1.15*r), px(y-0.9*r), px(x-1.15*r), px(y-0.9*r))
	default:
		d = fmt.Sprintf("M%s %sh%sv%sh%sz", px(x-1.4*r), px(y-0.6*r), px(2.8*r), px(1.2*r), px(-2.8*r))
	}
	c.shape("path", append([]any{"d", d}, attrs...)...)
}

// done closes the picture.
func (c *canvas) done() template.HTML {
	c.close("svg")
	return template.HTML(c.b.String())
}

// swatch is the sample of a line in a legend: its colour, its dashes, its sign.
func swatch(slot int) template.HTML {
	c := &canvas{}
	c.open("svg", "xmlns", "http://www.w3.org/2000/svg", "viewBox", "0 0 30 12", "width", 30, "height", 12, "class",
		"swatch c"+strconv.Itoa(slot), "aria-hidden", "true")
	c.shape("line", "x1", 1.0, "y1", 6.0, "x2", 29.0, "y2", 6.0, "class", "line", "stroke-dasharray", dashes(slot))
	c.marker(slot, 15, 6, 3.6, "class", "mark")
	return c.done()
}
