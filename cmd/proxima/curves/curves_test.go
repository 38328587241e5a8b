package curves

import (
	"fmt"
	"io"
	"testing"
)

// TestLinesJoinNeighbours: whatever the order in which values are given, lines do not go back and forth. Names keep their order.
func TestLinesJoinNeighbours(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   string
	}{
		{[]string{"16", "1", "4"}, "[1 4 16] [{0 2 0} {0 3 0} {0 1 0}] [1 4 16]"},
		{[]string{"slow", "1", "fast"}, "[slow 1 fast] [{0 1 0} {0 2 0} {0 3 0}] [0 1 2]"},
	} {
		p := Plot{Values: c.values, Curves: []Curve{{"nearest", []Span{{Mid: 1}, {Mid: 2}, {Mid: 3}}}}}
		s, x, _ := p.ascending()
		if got := fmt.Sprint(s.Values, s.Curves[0].Points, x); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestOnlyKnownFormats(t *testing.T) {
	p := Plot{Values: []string{"1", "2"}, Curves: []Curve{{"nearest", []Span{{Mid: 1}, {Mid: 2}}}}}
	for _, file := range []string{"plot.txt", "plot"} {
		if Check(file) == nil || p.Write(io.Discard, file) == nil {
			t.Errorf("%s is no error", file)
		}
	}
}
