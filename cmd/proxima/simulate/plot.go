package simulate

import (
	"errors"
	"fmt"
	"image/color"
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

// numbers are the values of a sweep; those that are none count as their place in the list.
func (s *Sweep) numbers() (x []float64, named bool) {
	for _, v := range s.Values {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			named = true
		}
		x = append(x, n)
	}
	if named {
		for i := range x {
			x[i] = float64(i)
		}
	}
	return x, named
}

// colours tell lines apart, also for the colour-blind (M. Okabe, K. Ito, 2008).
var colours = [...]color.RGBA{{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {90, 90, 90, 255}, {140, 110, 20, 255}}

// CheckPlot says what is wrong with the name of a drawing, before hours are spent on what it shows.
func CheckPlot(file string) error {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".svg", ".png", ".pdf":
		return nil
	}
	return fmt.Errorf("plot to %q: the name ends with none of .svg, .png and .pdf", file)
}

// Plot draws the choice ratios of a sweep: medians as lines, p10 to p90 as bands. The name of the file says the format.
func (s *Sweep) Plot(file string) error {
	if err := CheckPlot(file); err != nil {
		return err
	}
	if len(s.Reports) == 0 {
		return errors.New("plot: nothing has been simulated")
	}
	p := plot.New()
	w := s.Reports[0].World
	p.Title.Text = fmt.Sprintf("Choices by %s: %d seeds from %d, %d cities (%s)", s.Parameter, w.Seeds, w.First, w.Cities, w.Matrices)
	p.X.Label.Text, p.Y.Label.Text = s.Parameter, "choice ratio (1 is perfect); median, p10–p90"
	x, named := s.numbers()
	if least, most := slices.Min(x), slices.Max(x); !named && least > 0 && most >= 8*least {
		p.X.Scale = plot.LogScale{}
	}
	ticks := make(plot.ConstantTicks, len(x))
	for i := range x {
		ticks[i] = plot.Tick{Value: x[i], Label: s.Values[i]}
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
	for k, a := range s.Reports[0].Assigners {
		line, lower, upper := make(plotter.XYs, len(x)), make(plotter.XYs, len(x)), make(plotter.XYs, len(x))
		for i, r := range s.Reports {
			c := r.Assigners[k].ChoiceRatio
			line[i], upper[i] = plotter.XY{X: x[i], Y: c.Median}, plotter.XY{X: x[i], Y: c.P90}
			lower[len(x)-1-i] = plotter.XY{X: x[i], Y: c.P10}
		}
		colour := colours[k%len(colours)]
		band, err := plotter.NewPolygon(append(upper, lower...))
		if err != nil {
			return fmt.Errorf("plot %s: %w", a.Name, err)
		}
		band.Color, band.LineStyle.Width = color.NRGBA{colour.R, colour.G, colour.B, 40}, 0
		l, points, err := plotter.NewLinePoints(line)
		if err != nil {
			return fmt.Errorf("plot %s: %w", a.Name, err)
		}
		l.Color, points.Color, l.Width = colour, colour, vg.Points(1.5)
		points.Shape = draw.CircleGlyph{}
		if k >= len(colours) {
			l.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(band, l, points)
		p.Legend.Add(a.Name, l, points)
	}
	if err := p.Save(9*vg.Inch, 6*vg.Inch, file); err != nil {
		return fmt.Errorf("plot to %s: %w", file, err)
	}
	return nil
}

const textRows, textColumns = 16, 64

// text draws the medians for a terminal: a letter an assigner, the values of the parameter at equal distances.
func (s *Sweep) text() string {
	least, most := math.Inf(1), math.Inf(-1)
	for _, r := range s.Reports {
		for _, a := range r.Assigners {
			least, most = min(least, a.ChoiceRatio.Median), max(most, a.ChoiceRatio.Median)
		}
	}
	if !(most > least) {
		most = least + 0.01
	}
	var grid [textRows][textColumns]byte
	for r := range grid {
		for c := range grid[r] {
			grid[r][c] = ' '
		}
	}
	column := func(i int) int { return i * (textColumns - 1) / max(1, len(s.Values)-1) }
	for k := range s.Reports[0].Assigners {
		at := func(i int) float64 {
			return (most - s.Reports[i].Assigners[k].ChoiceRatio.Median) / (most - least) * (textRows - 1)
		}
		for i := range s.Values {
			if i > 0 {
				for c := column(i-1) + 1; c < column(i); c++ {
					share := float64(c-column(i-1)) / float64(column(i)-column(i-1))
					if cell := &grid[int(math.Round(at(i-1)+share*(at(i)-at(i-1))))][c]; *cell == ' ' {
						*cell = '.'
					}
				}
			}
			grid[int(math.Round(at(i)))][column(i)] = letter(k)
		}
	}
	var b strings.Builder
	for r := range grid {
		fmt.Fprintf(&b, "%7.3f │%s\n", most-(most-least)*float64(r)/(textRows-1), strings.TrimRight(string(grid[r][:]), " "))
	}
	labels := []byte(strings.Repeat(" ", textColumns+16))
	for i, v := range s.Values {
		copy(labels[min(column(i), len(labels)-1):], v+" ")
	}
	axis := strings.TrimRight(string(labels), " ")
	fmt.Fprintf(&b, "        └%s\n         %s  %s\n", strings.Repeat("─", textColumns), axis, s.Parameter)
	for k, a := range s.Reports[0].Assigners {
		fmt.Fprintf(&b, "  %c %s", letter(k), a.Name)
	}
	return b.String() + "\n"
}

func letter(k int) byte { return byte('a' + k%26) }
