// Package curves draws how figures depend on a parameter: a line for each thing that is compared, a band for how far its runs differ.
package curves

import (
	"cmp"
	"fmt"
	"image/color"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Plot is a drawing. X names the parameter, whose Values are in the order of the points of each curve.
type Plot struct {
	Title, X, Y string
	Values      []string
	Curves      []Curve
}

// Curve is the line and the band of one thing.
type Curve struct {
	Name   string
	Points []Span
}

// Span is a figure with the bounds of its band.
type Span struct{ Low, Mid, High float64 }

// ascending is the plot with its values in the order of their numbers, in which lines join them. Where one is none, all count as their
// place in the list.
func (d Plot) ascending() (sorted Plot, x []float64, named bool) {
	var order []int
	for i, v := range d.Values {
		n, err := strconv.ParseFloat(v, 64)
		named = named || err != nil
		x, order = append(x, n), append(order, i)
	}
	if named {
		for i := range x {
			x[i] = float64(i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	sorted = d
	sorted.Values, sorted.Curves = in(order, d.Values), nil
	for _, c := range d.Curves {
		sorted.Curves = append(sorted.Curves, Curve{c.Name, in(order, c.Points)})
	}
	return sorted, in(order, x), named
}

// in returns a list in another order.
func in[E any](order []int, list []E) (out []E) {
	for _, i := range order {
		out = append(out, list[i])
	}
	return out
}

// colours tell lines apart, also for the colour-blind (M. Okabe, K. Ito, 2008).
var colours = [...]color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {90, 90, 90, 255}, {140, 110, 20, 255}}

// Check says what is wrong with the name of a drawing, before hours are spent on what it shows. "" is none.
func Check(file string) error {
	if file == "" || slices.Contains([]string{".svg", ".png", ".pdf"}, strings.ToLower(filepath.Ext(file))) {
		return nil
	}
	return fmt.Errorf("plot to %q: the name ends with none of .svg, .png and .pdf", file)
}

// Write draws. The name of the file says the format; Check says whether there is one.
func (d Plot) Write(w io.Writer, file string) error {
	d, x, named := d.ascending()
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = d.Title, d.X, d.Y
	if least, most := slices.Min(x), slices.Max(x); !named && least > 0 && most >= 8*least {
		p.X.Scale = plot.LogScale{}
	}
	ticks := make(plot.ConstantTicks, len(x))
	for i := range x {
		ticks[i] = plot.Tick{Value: x[i], Label: d.Values[i]}
	}
	p.X.Tick.Marker = ticks
	p.Y.Tick.Marker = plot.TickerFunc(func(least, most float64) []plot.Tick {
		all := plot.DefaultTicks{}.Ticks(least, most)
		for i, t := range all {
			if t.Label != "" { // the default rounds neighbours to the same
				all[i].Label = strconv.FormatFloat(math.Round(t.Value*1e4)/1e4, 'f', -1, 64)
			}
		}
		return all
	})
	p.Add(plotter.NewGrid())
	p.Legend.Top, p.Legend.XOffs = true, -vg.Points(12)
	for k, c := range d.Curves {
		if err := add(p, k, c, x); err != nil {
			return fmt.Errorf("plot %s: %w", c.Name, err)
		}
	}
	drawing, err := p.WriterTo(9*vg.Inch, 6*vg.Inch, strings.TrimPrefix(strings.ToLower(filepath.Ext(file)), "."))
	if err == nil {
		_, err = drawing.WriteTo(w)
	}
	if err != nil {
		return fmt.Errorf("plot to %s: %w", file, err)
	}
	return nil
}

func add(p *plot.Plot, k int, c Curve, x []float64) error {
	line, lower, upper := make(plotter.XYs, len(x)), make(plotter.XYs, len(x)), make(plotter.XYs, len(x))
	for i, s := range c.Points {
		line[i], upper[i] = plotter.XY{X: x[i], Y: s.Mid}, plotter.XY{X: x[i], Y: s.High}
		lower[len(x)-1-i] = plotter.XY{X: x[i], Y: s.Low}
	}
	colour := colours[k%len(colours)]
	band, err := plotter.NewPolygon(append(upper, lower...))
	if err != nil {
		return err
	}
	band.Color, band.LineStyle.Width = color.NRGBA{colour.R, colour.G, colour.B, 40}, 0
	l, points, err := plotter.NewLinePoints(line)
	if err != nil {
		return err
	}
	l.Color, points.Color, l.Width = colour, colour, vg.Points(1.5)
	points.Shape = draw.CircleGlyph{}
	if k >= len(colours) {
		l.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	p.Add(band, l, points)
	p.Legend.Add(c.Name, l, points)
	return nil
}
