package simulate

import (
	"errors"
	"image/png"
	"strings"
	"testing"
	"unicode/utf8"

	"proxima/assign"
)

func TestSweep(t *testing.T) {
	cfg := small()
	cfg.Assigners = []string{assign.Geographic, assign.Nearest, Best}
	s, err := ParseSweep("estimates=1,2,8")
	if err == nil {
		err = s.Run(t.Context(), cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, most := range []int{1, 2, 8} {
		if a := s.Reports[i].of(t, assign.Nearest); a.EstimatesMax > most || a.EstimatesMax < 1 {
			t.Errorf("%d estimates at most, want %d", a.EstimatesMax, most)
		}
	}
	first, last := s.Reports[0].of(t, assign.Nearest).ChoiceRatio, s.Reports[2].of(t, assign.Nearest).ChoiceRatio
	if last.Median > first.Median {
		t.Errorf("nearest with 8 estimates: %.3f, with 1: %.3f", last.Median, first.Median)
	}
	var out strings.Builder
	if err := s.Print(&out); err != nil {
		t.Fatal(err)
	}
	lacks(t, out.String(), "estimates", "choice ratio", "nearest", "geographic", "1.000")
	wide := *s
	wide.Parameter = "nearest.balance"
	out.Reset()
	if err := errors.Join(wide.Print(&out), s.Reports[0].Print(&out)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
	plotted := func(name string) string {
		var text strings.Builder
		if err := s.Plot().Write(&text, name); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	lacks(t, plotted("plot.svg"), "<svg", "Choices by estimates", "choice ratio", "nearest", ">8<")
	if picture, err := png.Decode(strings.NewReader(plotted("plot.png"))); err != nil || picture.Bounds().Dx() < 600 {
		t.Error(err)
	}
}

// A value that stands for something else is no number of the axis: what is not limited is not less than one estimate.
func TestValuesThatAreNoNumbers(t *testing.T) {
	for text, want := range map[string]string{"estimates=-1,1": "own 1", "homes=0,2": "all 2", "nodes=4,2": "4 2"} {
		cfg := small()
		cfg.Seeds, cfg.Assigners = 1, []string{assign.Nearest}
		s, err := ParseSweep(text)
		if err == nil {
			err = s.Run(t.Context(), cfg)
		}
		if got := strings.Join(s.Plot().Values, " "); err != nil || got != want {
			t.Errorf("%s is drawn at %q, want %q; %v", text, got, want, err)
		}
	}
}

func TestWrongSweeps(t *testing.T) {
	for _, text := range []string{"", "estimates", "=1", "estimates="} {
		if _, err := ParseSweep(text); err == nil {
			t.Errorf("a sweep over %q is no error", text)
		}
	}
	s, _ := ParseSweep("nodes=4,0")
	if _, err := s.Configs(small()); err == nil || !strings.Contains(err.Error(), "nodes: 0") {
		t.Errorf("a sweep to no nodes: %v", err)
	}
}
