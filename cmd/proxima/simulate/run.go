package simulate

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"proxima/ncoord/quantile"
)

// Spread is a quantity over the worlds.
type Spread struct {
	Median float64 `json:"median"`
	P10    float64 `json:"p10"`
	P90    float64 `json:"p90"`
}

// Assigner is how good the choices of one assigner are: medians over the worlds where nothing else is said. Times are in ms.
type Assigner struct {
	Name string `json:"name"`
	// ChoiceRatio is the sum over the servers of the expected download time at the chosen node, over that at the best nodes.
	ChoiceRatio Spread `json:"choice_ratio"`
	// TotalRatio is the time that all pages took at the chosen nodes, noise and slow downloads included, over what the same pages
	// are expected to take at the best nodes. TotalWith counts the estimates' pages where they were downloaded.
	TotalRatio float64 `json:"total_ratio"`
	TotalWith  float64 `json:"total_ratio_with_estimates"`
	// BestShare is the share of servers at their best node.
	BestShare float64 `json:"best_share"`
	// LossMs is the mean time lost a download.
	LossMs float64 `json:"loss_ms"`
	P50Ms  float64 `json:"p50_ms"`
	P90Ms  float64 `json:"p90_ms"`
	// EstimatesMax is the largest number of estimates of a server in any world, EstimatesMean the mean of all.
	EstimatesMax  int     `json:"estimates_max"`
	EstimatesMean float64 `json:"estimates_mean"`
	// MakespanRatio is the largest sum of expected times of a node, over the least that is possible if servers may be split;
	// MakespanSameSum over the least that is possible without a larger sum over all nodes.
	MakespanRatio   float64 `json:"makespan_ratio"`
	MakespanSameSum float64 `json:"makespan_same_sum_ratio"`
	// BalanceCV is the coefficient of variation of the nodes' sums.
	BalanceCV float64 `json:"balance_cv"`
}

// Described is what a report says of its worlds.
type Described struct {
	Cities int `json:"cities"`
	// Violations is the share of triangles that violate the inequality, the median of the worlds' matrices.
	Violations      float64 `json:"triangle_violations"`
	Matrices        string  `json:"matrices"`
	Nodes           int     `json:"nodes"`
	Servers         int     `json:"servers"`
	Homes           int     `json:"homes"`
	Seeds           int     `json:"seeds"`
	First           uint64  `json:"first_seed"`
	Estimates       *int    `json:"estimates"` // null: each assigner's own
	LocationWrong   float64 `json:"location_wrong"`
	LocationMissing float64 `json:"location_missing"`
	Prefixed        bool    `json:"prefixed"`
	Noise           float64 `json:"noise"`
	Pages           int     `json:"pages"`
}

// Report is the outcome.
type Report struct {
	Assigners []Assigner `json:"assigners"`
	World     Described  `json:"world"`
}

// Run simulates all worlds, as many at once as there are cores. The same configuration gives the same report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	scores := make([][]score, cfg.Seeds)
	err := eachSeed(ctx, cfg, func(ctx context.Context, i int, w *World) (err error) {
		t := newTruth(w)
		scores[i] = make([]score, len(cfg.Assigners))
		for k, name := range cfg.Assigners {
			d, err := decide(ctx, w, name)
			if err != nil {
				return err
			}
			scores[i][k] = t.judge(w, d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := &Report{World: describe(cfg)}
	for k, name := range cfg.Assigners {
		one := make([]score, cfg.Seeds)
		for i := range one {
			one[i] = scores[i][k]
		}
		r.Assigners = append(r.Assigners, summarize(name, one))
	}
	return r, nil
}

// eachSeed draws the worlds of a configuration and does something with each, several at once.
func eachSeed(ctx context.Context, cfg Config, do func(ctx context.Context, i int, w *World) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range cfg.Seeds {
		g.Go(func() error {
			seed := cfg.First + uint64(i)
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := do(ctx, i, newWorld(cfg, seed)); err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// spreadOf is the spread of values, which it sorts.
func spreadOf(v []float64) Spread {
	slices.Sort(v)
	return Spread{Median: quantile.Median(v), P10: quantile.Of(v, 0.1), P90: quantile.Of(v, 0.9)}
}

func summarize(name string, all []score) Assigner {
	of := func(what func(*score) float64) Spread {
		v := make([]float64, len(all))
		for i := range all {
			v[i] = what(&all[i])
		}
		return spreadOf(v)
	}
	a := Assigner{
		Name:            name,
		ChoiceRatio:     of(func(s *score) float64 { return s.choice }),
		TotalRatio:      of(func(s *score) float64 { return s.total }).Median,
		TotalWith:       of(func(s *score) float64 { return s.totalWith }).Median,
		BestShare:       of(func(s *score) float64 { return s.bestShare }).Median,
		LossMs:          of(func(s *score) float64 { return s.lossMs }).Median,
		P50Ms:           of(func(s *score) float64 { return s.p50 }).Median,
		P90Ms:           of(func(s *score) float64 { return s.p90 }).Median,
		MakespanRatio:   of(func(s *score) float64 { return s.makespan }).Median,
		MakespanSameSum: of(func(s *score) float64 { return s.makespanSameSum }).Median,
		BalanceCV:       of(func(s *score) float64 { return s.balance }).Median,
	}
	for _, s := range all {
		a.EstimatesMax = max(a.EstimatesMax, s.estimatesMax)
		a.EstimatesMean += s.estimatesMean / float64(len(all))
	}
	return a
}

func describe(cfg Config) Described {
	d := Described{Matrices: "synthetic", Nodes: cfg.Nodes, Servers: cfg.Servers, Homes: cfg.Homes, Seeds: cfg.Seeds, First: cfg.First,
		LocationWrong: cfg.LocationWrong, LocationMissing: cfg.LocationMissing, Prefixed: cfg.Prefixed, Noise: cfg.Noise, Pages: cfg.Pages}
	if d.Homes == 0 {
		d.Homes = cfg.Nodes
	}
	if cfg.Estimates >= 0 {
		d.Estimates = &cfg.Estimates
	}
	if len(cfg.Matrices) > 0 {
		d.Matrices = "measured"
	}
	var shares []float64
	for i := range min(cfg.Seeds, 10) {
		m := matrixOf(cfg, cfg.First+uint64(i))
		d.Cities = len(m.Cities)
		shares = append(shares, m.Violations())
		if len(cfg.Matrices) == 1 {
			break
		}
	}
	d.Violations = spreadOf(shares).Median
	return d
}
