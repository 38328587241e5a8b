package simulate

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"gonum.org/v1/gonum/stat"

	"proxima/assign"
	"proxima/cmd/proxima/world"
)

// Ablation says what each ingredient of nearest is worth.
type Ablation struct {
	// Settings are the columns: the worlds that have a goal.
	Settings []string      `json:"settings"`
	Rows     []AblationRow `json:"rows"`
	World    Described     `json:"world"`
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
	// More is how much higher the choice ratio is than with everything: the mean over the seeds, seed by seed, with its
	// standard error.
	More  float64 `json:"more"`
	Error float64 `json:"more_error"`
}

// Ablate runs nearest with everything, then without each ingredient in turn, in the worlds that have goals.
func Ablate(ctx context.Context, cfg Config, noisy []*world.Matrix) (*Ablation, error) {
	a := &Ablation{World: describe(cfg)}
	cfg.Pages = 1
	all := settings(noisy)
	for _, s := range all {
		a.Settings = append(a.Settings, s.name)
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
			cell := AblationCell{ChoiceRatio: sum.ChoiceRatio, Estimates: sum.EstimatesMean, Makespan: sum.MakespanRatio}
			cell.More, cell.Error = paired(scores, whole[k])
			row.Cells = append(row.Cells, cell)
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

// paired is the mean difference between the choice ratios of the same worlds, and its standard error.
func paired(a, b []score) (mean, err float64) {
	var more []float64
	for i := range a {
		more = append(more, a[i].choice-b[i].choice)
	}
	if len(more) == 1 {
		return more[0], 0
	}
	mean, sd := stat.MeanStdDev(more, nil)
	return mean, stat.StdErr(sd, float64(len(more)))
}

// Print writes medians, and how much higher the mean is than with everything ± twice its standard error. The last columns are the
// mean number of estimates in the second world and the makespan in the first.
func (a *Ablation) Print(out io.Writer) error {
	a.World.print(out)
	t := newTable(out)
	fmt.Fprint(t, "without\t")
	for _, s := range a.Settings {
		fmt.Fprintf(t, "%s\tmore\t", s)
	}
	fmt.Fprintf(t, "estimates (%s)\tmakespan (%s)\t\n", a.Settings[1], a.Settings[0])
	for _, r := range a.Rows {
		fmt.Fprintf(t, "%s\t", cmp.Or(r.Without, "nothing"))
		for _, c := range r.Cells {
			fmt.Fprintf(t, "%.3f\t%+.3f ±%.3f\t", c.ChoiceRatio.Median, c.More, 2*c.Error)
		}
		fmt.Fprintf(t, "%.1f\t%.2f\t\n", r.Cells[1].Estimates, r.Cells[0].Makespan)
	}
	return t.Flush()
}
