package simulate

import (
	"context"
	"fmt"
	"io"

	"proxima/assign"
	"proxima/cmd/proxima/world"
)

// Goals compares nearest with its goals.
type Goals struct {
	Goals []Goal    `json:"goals"`
	World Described `json:"world"`
}

// Goal is one row of the table of goals.
type Goal struct {
	What string `json:"what"`
	// Most is the goal: an upper bound of the median. 0 marks a row that only informs.
	Most     float64 `json:"goal,omitempty"`
	Measured Spread  `json:"measured"`
	Pass     bool    `json:"pass"`
	Note     string  `json:"note,omitempty"`
}

// setting is a variation of the world that has a goal.
type setting struct {
	name, what string // name heads a column, what describes a row
	most       float64
	set        func(c *Config)
}

func settings(noisy []*world.Matrix) []setting {
	return []setting{
		{"6", "budget of 6 estimates", 1.05, func(c *Config) { c.Estimates = 6 }},
		{"16", "budget of 16 estimates", 1.02, func(c *Config) { c.Estimates = 16 }},
		{"wrong", "30 % of the locations wrong, budget 6", 1.08, func(c *Config) { c.Estimates, c.LocationWrong = 6, 0.3 }},
		{"none", "no locations at all, budget 6", 1.10, func(c *Config) { c.Estimates, c.LocationMissing = 6, 1 }},
		{"32 nodes", "32 nodes, budget 6", 1.07, func(c *Config) { c.Estimates, c.Nodes, c.Homes = 6, 32, min(c.Homes, 32) }},
		{"noisy", "noisy matrices (Seattle), budget 8", 1.12, func(c *Config) { c.Estimates, c.Matrices = 8, noisy }},
	}
}

// scarce are settings with hardly any estimates.
func scarce() (list []setting) {
	for i, most := range []float64{1.10, 1.05, 1.03} {
		list = append(list, setting{"", fmt.Sprintf("budget of %d", i+1), most, func(c *Config) { c.Estimates = i + 1 }})
	}
	return list
}

// MeasureGoals measures nearest, configured by cfg.Assign. cfg has the measured round trips, and noisy has matrices with many triangle
// violations. progress hears of each row as soon as it is measured: the table takes minutes.
func MeasureGoals(ctx context.Context, cfg Config, noisy []*world.Matrix, progress func(Goal)) (*Goals, error) {
	budget6 := cfg
	budget6.Estimates = 6
	g := &Goals{World: describe(cfg)}
	var all []func() ([]Goal, error)
	for _, s := range append(settings(noisy), scarce()...) {
		all = append(all, func() ([]Goal, error) { return measureSetting(ctx, cfg, s) })
	}
	all = append(all,
		func() ([]Goal, error) { return measureRecovery(ctx, budget6) },
		func() ([]Goal, error) { return measureMakespan(ctx, budget6) },
		func() ([]Goal, error) { return measureNeighbours(ctx, cfg) },
		func() ([]Goal, error) { return measureSpeed(ctx, cfg) })
	for _, measure := range all {
		rows, err := measure()
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			row.Pass = row.Most == 0 || row.Measured.Median <= row.Most
			g.Goals = append(g.Goals, row)
			progress(row)
		}
	}
	return g, nil
}

// measureSetting measures the choices in a world that has a goal.
func measureSetting(ctx context.Context, cfg Config, s setting) ([]Goal, error) {
	cfg.Assigners = []string{assign.Nearest}
	s.set(&cfg)
	r, err := Run(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.what, err)
	}
	a := r.Assigners[0]
	return []Goal{{What: "choice ratio, " + s.what, Most: s.most, Measured: a.ChoiceRatio,
		Note: fmt.Sprintf("%.1f estimates per server, at most %d; %.0f %% of the servers at their best node; %d cities, %.0f %% triangle violations",
			a.EstimatesMean, a.EstimatesMax, 100*a.BestShare, r.World.Cities, 100*r.World.Violations)}}, nil
}

// Print writes a row.
func (g *Goal) Print(out io.Writer) {
	verdict, goal := "", ""
	if g.Most > 0 {
		verdict, goal = "MISS", fmt.Sprintf("≤ %.4g", g.Most)
	}
	if g.Most > 0 && g.Pass {
		verdict = "PASS"
	}
	m := g.Measured
	fmt.Fprintf(out, "%-5s %-8s %8.3f  (p10–p90 %.3f–%.3f)  %s\n        %s\n", verdict, goal, m.Median, m.P10, m.P90, g.What, g.Note)
}

// Print writes how many goals are met.
func (g *Goals) Print(out io.Writer) error {
	goals, met := 0, 0
	for _, row := range g.Goals {
		if row.Most > 0 {
			goals++
			if row.Pass {
				met++
			}
		}
	}
	_, err := fmt.Fprintf(out, "%d of %d goals met; medians and p10–p90 of %d seeds from %d\n", met, goals, g.World.Seeds, g.World.First)
	return err
}
