package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"proxima/assign"
	"proxima/cmd/proxima/world"
)

// Ablation says what each ingredient of nearest is worth.
type Ablation struct {
	// Settings are the columns: the worlds that have a goal.
	Settings []string      `json:"settings"`
	Rows     []AblationRow `json:"rows"`
	World    Described     `json:"world"`

	legend []string // what differs in each column
}

// AblationRow is nearest without one ingredient. The first row has everything, and Without is empty.
type AblationRow struct {
	Without string         `json:"without"`
	Cells   []AblationCell `json:"cells"`
}

// AblationCell is one world.
type AblationCell struct {
	ChoiceRatio Spread  `json:"choice_ratio"`
	Estimates   float64 `json:"estimates_mean"`
	Makespan    float64 `json:"makespan_ratio"`
	// More compares with everything.
	More
}

// Ablate runs nearest with everything, then without each ingredient in turn, in the worlds that have goals.
func Ablate(ctx context.Context, cfg Config, noisy []*world.Matrix) (*Ablation, error) {
	cfg.Pages = 1
	a := &Ablation{World: describe(cfg)}
	all := settings(noisy)
	for _, s := range all {
		a.Settings = append(a.Settings, s.name)
		a.legend = append(a.legend, s.name+": "+s.what)
	}
	whole := make([][]score, len(all))
	for i, name := range append([]string{""}, assign.Ablations()...) {
		row := AblationRow{Without: name}
		for k, s := range all {
			one := cfg
			one.Assign.Nearest.Without = 1 << i >> 1 // nothing at first
			s.set(&one)
			scores, err := nearest(ctx, one)
			if err != nil {
				return nil, fmt.Errorf("without %q, %s: %w", name, s.what, err)
			}
			if name == "" {
				whole[k] = scores
			}
			sum := summarize(assign.Nearest, scores)
			row.Cells = append(row.Cells, AblationCell{sum.ChoiceRatio, sum.EstimatesMean, sum.MakespanRatio, more(scores, whole[k])})
		}
		a.Rows = append(a.Rows, row)
	}
	return a, nil
}

// nearest judges the choices of nearest, by seed.
func nearest(ctx context.Context, cfg Config) ([]score, error) {
	return perSeed(ctx, cfg, func(w *World) (s score, err error) {
		d, err := decide(ctx, w, assign.Nearest)
		if err != nil {
			return s, err
		}
		return newTruth(w).judge(d), nil
	})
}

// Print writes two tables, since one is too wide for a terminal: medians, with the mean number of estimates in the second world and the
// makespan in the first; and how much higher the mean is than with everything, and its 95 % interval.
func (a *Ablation) Print(out io.Writer) error {
	a.World.print(out)
	fmt.Fprintf(out, "columns:\n  %s\n\nchoice ratio\n", strings.Join(a.legend, "\n  "))
	last := fmt.Sprintf("estimates (%s)\tmakespan (%s)\t", a.Settings[1], a.Settings[0])
	err := a.table(out, last, func(c AblationCell) string { return fmt.Sprintf("%.3f", c.ChoiceRatio.Median) }, func(r AblationRow) string {
		return fmt.Sprintf("%.1f\t%.2f\t", r.Cells[1].Estimates, r.Cells[0].Makespan)
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "\nmore than with everything, ± the 95 % interval")
	return a.table(out, "", func(c AblationCell) string { return c.More.cell() }, func(AblationRow) string { return "" })
}

// table writes a cell for each world, and what stands last in each row.
func (a *Ablation) table(out io.Writer, head string, cell func(AblationCell) string, last func(AblationRow) string) error {
	t := newTable(out)
	fmt.Fprintf(t, "without\t%s\t%s\n", strings.Join(a.Settings, "\t"), head)
	for _, r := range a.Rows {
		fmt.Fprintf(t, "%s\t", cmp.Or(r.Without, "nothing"))
		for _, c := range r.Cells {
			fmt.Fprintf(t, "%s\t", cell(c))
		}
		fmt.Fprintf(t, "%s\n", last(r))
	}
	return t.Flush()
}
