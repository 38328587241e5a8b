package simulate

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"proxima/cmd/proxima/curves"
)

// Plot draws the choice ratios of a sweep: medians as lines, p10 to p90 as bands. The name of the file says the format.
func (s *Sweep) Plot(file string) error {
	if len(s.Reports) == 0 {
		return errors.New("plot: nothing has been simulated")
	}
	w := s.Reports[0].World
	p := curves.Plot{Title: fmt.Sprintf("Choices by %s: %d seeds from %d, %d cities (%s)", s.Parameter, w.Seeds, w.First, w.Cities, w.Matrices),
		X: s.Parameter, Y: "choice ratio (1 is perfect); median, p10–p90", Values: s.Values}
	for k, a := range s.Reports[0].Assigners {
		c := curves.Curve{Name: a.Name}
		for _, r := range s.Reports {
			ratio := r.Assigners[k].ChoiceRatio
			c.Points = append(c.Points, curves.Span{Low: ratio.P10, Mid: ratio.Median, High: ratio.P90})
		}
		p.Curves = append(p.Curves, c)
	}
	return p.Save(file)
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
