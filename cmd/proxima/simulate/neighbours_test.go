package simulate

import (
	"context"
	"testing"
)

// What is known of servers in the same network stands for an estimate or two, in worlds that nothing was tuned on.
func TestNeighbours(t *testing.T) {
	cfg := Default()
	cfg.Seeds, cfg.First = 8, 9100
	rows, err := measureNeighbours(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		t.Logf("%s: %.3f (%.3f–%.3f); %s", r.What, r.Measured.Median, r.Measured.P10, r.Measured.P90, r.Note)
		if most := []float64{1.08, 1.03, 1.02, 1.30, 1.25, 1.20}[i]; r.Measured.Median > most {
			t.Errorf("%s: %.3f, want at most %v", r.What, r.Measured.Median, most)
		}
	}
}
