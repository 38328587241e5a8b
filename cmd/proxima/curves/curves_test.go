package curves

import (
	"fmt"
	"os"
	"path/filepath"
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

// TestFailedPlotIsNotSeen: neither a file that is there is harmed by a plot that cannot be drawn, nor does one come into being.
func TestFailedPlotIsNotSeen(t *testing.T) {
	dir := t.TempDir()
	older := filepath.Join(dir, "older.txt")
	if err := os.WriteFile(older, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := Plot{Values: []string{"1", "2"}, Curves: []Curve{{"nearest", []Span{{Mid: 1}, {Mid: 2}}}}}
	if p.Save(older) == nil || p.Save(filepath.Join(dir, "new.txt")) == nil {
		t.Error("a plot in the format txt is no error")
	}
	if text, err := os.ReadFile(older); err != nil || string(text) != "older" {
		t.Errorf("%v, %q is left", err, text)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%v, files: %v", err, list)
	}
}
