package simulate

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"proxima/assign"
	"proxima/cmd/proxima/terminal"
	"proxima/cmd/proxima/world"
)

func TestAblate(t *testing.T) {
	cfg := small()
	a, err := Ablate(context.Background(), cfg, []*world.Matrix{world.Synthetic(world.Cities(), 9)})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Rows) != len(assign.Ablations())+1 || len(a.Settings) != len(settings(nil)) {
		t.Fatalf("%d rows, %d settings", len(a.Rows), len(a.Settings))
	}
	for i, r := range a.Rows {
		differs := 0
		for k, c := range r.Cells {
			if c.ChoiceRatio.Median < 1-1e-9 || c.Estimates <= 0 {
				t.Errorf("without %q, %s: %+v", r.Without, a.Settings[k], c)
			}
			if i == 0 && (c.Mean != 0 || c.Error == nil || *c.Error != 0) {
				t.Errorf("nothing left out, %s: %+v, want no difference to itself", a.Settings[k], c)
			}
			if first := a.Rows[0].Cells[k]; c.ChoiceRatio != first.ChoiceRatio || c.Estimates != first.Estimates || c.Makespan != first.Makespan {
				differs++
			}
		}
		// Without neighbours all is the same, since no servers share a network. The batch tells of nodes that publish nothing: hardly any.
		if same := r.Without == "" || r.Without == "neighbours"; (differs == 0) != same && r.Without != "batch" {
			t.Errorf("without %q, %d cells differ", r.Without, differs)
		}
	}
	var out strings.Builder
	if err := a.Print(&out); err != nil {
		t.Fatal(err)
	}
	lacks(t, out.String(), append([]string{"nothing", "32 nodes", "noisy"}, assign.Ablations()...)...)
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > terminal.Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
