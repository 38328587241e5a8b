package simulate

import (
	"context"
	"fmt"
	"io"
	"math"

	"proxima/assign"
	"proxima/cmd/proxima/world"
)

// Ablation is what nearest's ingredients are worth.
type Ablation struct {
	// Settings are the columns: worlds that have a goal.
	Settings []string      `json:"settings"`
	Rows     []AblationRow `json:"rows"`
	World    Described     `json:"world"`
}

// AblationRow is nearest without one ingredient.
type AblationRow struct {
	// Without is what is left out; "" in the first row: nothing.
	Without string         `json:"without"`
	Cells   []AblationCell `json:"cells"`
}

// AblationCell is one world.
type AblationCell struct {
	ChoiceRatio Spread  `json:"choice_ratio"`
	Estimates   float64 `json:"estimates_mean"`
	Makespan    float64 `json:"makespan_ratio"`
	// More is by how much the choice ratio is higher than with everything: the mean over the seeds, world by world, and its
	// standard error.
	More  float64 `json:"more"`
	Error float64 `json:"more_error"`
}

// Ablate runs nearest with everything, and then without each of its ingredients in turn, in the worlds that have goals.
func Ablate(ctx context.Context, cfg Config, noisy []*world.Matrix) (*Ablation, error) {
	a := &Ablation{World: describe(cfg)}
	all := settings(noisy)
	for _, s := range all {
		a.Settings = append(a.Settings, s.name)
	}
	whole := make([][]float64, len(all))
	for _, name := range append([]string{""}, assign.Ablations()...) {
		without, err := assign.ParseAblation(name)
		if err != nil {
			return nil, err
		}
		row := AblationRow{Without: name}
		for k, s := range all {
			one := cfg
			one.Assign.Nearest.Without = without
			s.set(&one)
			ratios, cell, err := choices(ctx, one)
			if err != nil {
				return nil, fmt.Errorf("without %q, %s: %w", name, s.what, err)
			}
			if name == "" {
				whole[k] = ratios
			}
			cell.More, cell.Error = paired(ratios, whole[k])
			row.Cells = append(row.Cells, cell)
		}
		a.Rows = append(a.Rows, row)
	}
	return a, nil
}

// choices are the choice ratios of nearest, by seed, and what else is measured.
func choices(ctx context.Context, cfg Config) (ratios []float64, cell AblationCell, err error) {
	scores := make([]score, cfg.Seeds)
	cfg.Pages = 1
	err = eachSeed(ctx, cfg, func(ctx context.Context, i int, w *World) error {
		d, err := decide(ctx, w, assign.Nearest)
		if err != nil {
			return err
		}
		scores[i] = newTruth(w).judge(w, d)
		return nil
	})
	for _, s := range scores {
		ratios = append(ratios, s.choice)
	}
	a := summarize(assign.Nearest, scores)
	return ratios, AblationCell{ChoiceRatio: a.ChoiceRatio, Estimates: a.EstimatesMean, Makespan: a.MakespanRatio}, err
}

// paired is the mean difference of two lists, and its standard error.
func paired(a, b []float64) (mean, err float64) {
	n := float64(len(a))
	for i := range a {
		mean += (a[i] - b[i]) / n
	}
	for i := range a {
		err += (a[i] - b[i] - mean) * (a[i] - b[i] - mean)
	}
	return mean, math.Sqrt(err / max(1, n-1) / n)
}

// Print writes the table for people: medians, and by how much the mean is higher than with everything, ± twice its standard
// error; in the end the mean of the estimates at a budget of 16, and the makespan at one of 6.
func (a *Ablation) Print(out io.Writer) error {
	a.World.print(out)
	t := newTable(out)
	fmt.Fprint(t, "without\t")
	for _, s := range a.Settings {
		fmt.Fprintf(t, "%s\tmore\t", s)
	}
	fmt.Fprintf(t, "estimates (%s)\tmakespan (%s)\t\n", a.Settings[1], a.Settings[0])
	for _, r := range a.Rows {
		name := r.Without
		if name == "" {
			name = "nothing"
		}
		fmt.Fprintf(t, "%s\t", name)
		for _, c := range r.Cells {
			fmt.Fprintf(t, "%.3f\t%+.3f ±%.3f\t", c.ChoiceRatio.Median, c.More, 2*c.Error)
		}
		fmt.Fprintf(t, "%.1f\t%.2f\t\n", r.Cells[1].Estimates, r.Cells[0].Makespan)
	}
	return t.Flush()
}
