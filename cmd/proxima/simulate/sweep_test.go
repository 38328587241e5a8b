package simulate

import (
	"context"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"proxima/assign"
)

func TestSweep(t *testing.T) {
	cfg := small()
	cfg.Assigners = []string{assign.Geographic, assign.Nearest, Best}
	s, err := ParseSweep("estimates=1,2,8")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(cfg); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background(), cfg); err != nil {
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
	for _, want := range []string{"estimates", "choice ratio", "nearest", "geographic", "1.000"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	for _, name := range []string{"plot.svg", "plot.png"} {
		file := filepath.Join(t.TempDir(), name)
		if err := s.Plot(file); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if strings.HasSuffix(name, ".png") {
			if picture, err := png.Decode(f); err != nil || picture.Bounds().Dx() < 600 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		text, _ := os.ReadFile(file)
		for _, want := range []string{"<svg", "Choices by estimates", "choice ratio", "nearest", ">8<"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
	if err := s.Plot("plot.txt"); err == nil {
		t.Error("a plot in the format txt is no error")
	}
}

func TestSet(t *testing.T) {
	cfg := Default()
	for _, p := range [][2]string{{"nodes", "20"}, {"noise", "0.5"}, {"nearest.balance", "0.25"}, {"nearest.explore", "1"},
		{"vivaldi.theta", "0.15"}} {
		if err := cfg.Set(p[0], p[1]); err != nil {
			t.Error(err)
		}
	}
	if a := cfg.Assign; cfg.Nodes != 20 || cfg.Noise != 0.5 || a.Nearest.Balance != 0.25 || a.Nearest.Explore != 1 || a.Vivaldi.Theta != 0.15 {
		t.Errorf("%+v", cfg)
	}
	for _, p := range [][2]string{{"nodes", "many"}, {"noise", "loud"}, {"nearest.beauty", "1"}, {"nearest.balance", "x"},
		{"nearest.balance", "-1"}, {"", "1"}} {
		if err := cfg.Set(p[0], p[1]); err == nil {
			t.Errorf("%s = %s is no error", p[0], p[1])
		}
	}
	for _, text := range []string{"", "estimates", "=1", "estimates="} {
		if _, err := ParseSweep(text); err == nil {
			t.Errorf("a sweep over %q is no error", text)
		}
	}
	s, _ := ParseSweep("nodes=4,0")
	if err := s.Check(small()); err == nil || !strings.Contains(err.Error(), "nodes: 0") {
		t.Errorf("a sweep to no nodes: %v", err)
	}
}
