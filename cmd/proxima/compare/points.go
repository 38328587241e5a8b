package compare

import "proxima/cmd/proxima/compare/report"

// The forms of a timeline in a plot.

// upTo makes a timeline reach to the end of its run: nothing is a figure, too.
func upTo(t *timeline[cell], end float64) *timeline[cell] {
	if t == nil {
		t = newSums()
	}
	t.at(end)
	return t
}

func cumulative(label string, t *timeline[cell]) report.Series {
	s, sum := report.Series{Label: label, Unit: "URLs"}, 0.0
	for i, c := range t.cells {
		sum += c.sum
		s.Points = append(s.Points, report.Point{X: float64(i+1) * t.width, Y: sum})
	}
	return s
}

// rateCells is how many cells become one in a plot of a rate: counts of single seconds are noise.
const rateCells = 10

func rate(label, unit string, t *timeline[cell]) report.Series {
	s := report.Series{Label: label, Unit: unit}
	for i := 0; i < len(t.cells); i += rateCells {
		sum := 0.0
		for _, c := range t.cells[i:min(i+rateCells, len(t.cells))] {
			sum += c.sum
		}
		s.Points = append(s.Points, report.Point{X: (float64(i) + rateCells/2) * t.width, Y: sum * 60 / (rateCells * t.width)})
	}
	return s
}

// spacing is the mean time between two requests.
func spacing(t *timeline[cell]) report.Series {
	s := report.Series{Label: "spacing", Unit: "s"}
	for i := 0; i < len(t.cells); i += rateCells {
		n := 0.0
		for _, c := range t.cells[i:min(i+rateCells, len(t.cells))] {
			n += c.sum
		}
		y := report.Unknown()
		if n > 0 {
			y = rateCells * t.width / n
		}
		s.Points = append(s.Points, report.Point{X: (float64(i) + rateCells/2) * t.width, Y: y})
	}
	return s
}

func means(label, unit string, t *timeline[cell]) report.Series {
	s := report.Series{Label: label, Unit: unit}
	for i, c := range t.cells {
		if c.n > 0 {
			s.Points = append(s.Points, report.Point{X: t.middle(i), Y: c.sum / float64(c.n)})
		}
	}
	return s
}

func latest(label, unit string, t *timeline[cell]) report.Series {
	s := report.Series{Label: label, Unit: unit}
	for i, c := range t.cells {
		if c.n > 0 {
			s.Points = append(s.Points, report.Point{X: t.middle(i), Y: c.last})
		}
	}
	return s
}

func appendSeries(list []report.Series, s report.Series) []report.Series {
	if len(s.Points) == 0 {
		return list
	}
	return append(list, s)
}
