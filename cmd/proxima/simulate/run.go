package simulate

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"proxima/assign"
	"proxima/cmd/proxima/world"
	"proxima/ncoord/quantile"
)

// Report is the outcome of Run.
type Report struct {
	Assigners []Assigner `json:"assigners"`
	World     Described  `json:"world"`

	scores    [][]score // by assigner and world
	reference int       // the assigner that More compares with
}

// Assigner says how good the choices of one assigner are.
type Assigner struct {
	Name string `json:"name"`
	// ChoiceRatio is the sum of the servers' expected download times at the chosen nodes / at the best nodes.
	ChoiceRatio Spread `json:"choice_ratio"`
	// More compares with nearest, the first assigner if that is not among them, or, in a sweep, with the same one at the first value.
	More
	Figures
}

// More is how much higher choice ratios are than others in the same worlds.
type More struct {
	// Mean is that of the differences, world by world.
	Mean float64 `json:"more"`
	// Error is the standard error of Mean, nil of one world.
	Error *float64 `json:"more_error"`

	worlds int
}

// more compares scores of the same worlds.
func more(a, b []score) (m More) {
	var differences []float64
	for i := range a {
		differences = append(differences, a[i].choice-b[i].choice)
	}
	if len(differences) == 1 {
		return More{Mean: differences[0]}
	}
	mean, sd := stat.MeanStdDev(differences, nil)
	return More{mean, new(stat.StdErr(sd, float64(len(differences)))), len(differences)}
}

// cell is the mean and its 95 % interval, which holds the true mean in 19 of 20 cases. The standard error is itself uncertain where worlds are
// few: of 30 it counts 2.05 times, of two 12.7 times.
func (m More) cell() string {
	if m.Error == nil {
		return fmt.Sprintf("%+.3f±–", m.Mean)
	}
	t := distuv.StudentsT{Sigma: 1, Nu: float64(m.worlds - 1)}.Quantile(.975)
	return fmt.Sprintf("%+.3f±%.3f", m.Mean, t**m.Error)
}

// Figures are medians over the worlds, unless they say otherwise. Times are in ms.
type Figures struct {
	// TotalRatio is the time that all pages took at the chosen nodes, noise included / the time expected at the best nodes.
	// TotalWith is the same with the first pages at the nodes that downloaded them as estimates.
	TotalRatio float64 `json:"total_ratio"`
	TotalWith  float64 `json:"total_ratio_with_estimates"`
	// BestShare is the share of servers at their best node.
	BestShare float64 `json:"best_share"`
	// LossMs is the mean time lost per download. P50Ms and P90Ms are of the time of all pages.
	LossMs float64 `json:"loss_ms"`
	P50Ms  float64 `json:"p50_ms"`
	P90Ms  float64 `json:"p90_ms"`
	// EstimatesMax is the most estimates of a server in any world, EstimatesMean the mean over all servers.
	EstimatesMax  int     `json:"estimates_max"`
	EstimatesMean float64 `json:"estimates_mean"`
	// MakespanRatio is the largest sum of expected times of a node / the least possible if servers may be split.
	// MakespanSameSum is the same / the least possible without a larger sum over all nodes.
	MakespanRatio   float64 `json:"makespan_ratio"`
	MakespanSameSum float64 `json:"makespan_same_sum_ratio"`
	// BalanceCV is the coefficient of variation of the nodes' sums.
	BalanceCV float64 `json:"balance_cv"`
}

// medians are the figures of which a report has the median.
func (f *Figures) medians() []*float64 {
	return []*float64{&f.TotalRatio, &f.TotalWith, &f.BestShare, &f.LossMs, &f.P50Ms, &f.P90Ms, &f.MakespanRatio, &f.MakespanSameSum, &f.BalanceCV}
}

// Spread is a quantity over the worlds.
type Spread struct {
	Median float64 `json:"median"`
	P10    float64 `json:"p10"`
	P90    float64 `json:"p90"`
}

// Described is what a report says about its worlds.
type Described struct {
	Cities int `json:"cities"`
	// Violations is the share of triangles that violate the inequality, the median over the matrices.
	Violations float64 `json:"triangle_violations"`
	Matrices   string  `json:"matrices"` // "synthetic" or "measured"
	Setup
	Estimates *int `json:"estimates"` // nil: each assigner's own
}

// Run simulates all worlds, as many at once as there are cores. The same configuration gives the same report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	scores, err := perSeed(ctx, cfg, func(w *World) ([]score, error) {
		t := newTruth(w)
		list := make([]score, len(cfg.Assigners))
		for k, name := range cfg.Assigners {
			d, err := decide(ctx, w, name)
			if err != nil {
				return nil, err
			}
			list[k] = t.judge(d)
		}
		return list, nil
	})
	if err != nil {
		return nil, err
	}
	r := &Report{World: describe(cfg)}
	for k, name := range cfg.Assigners {
		var one []score
		for _, ofWorld := range scores {
			one = append(one, ofWorld[k])
		}
		r.scores = append(r.scores, one)
		r.Assigners = append(r.Assigners, summarize(name, one))
	}
	r.reference = max(0, slices.Index(cfg.Assigners, assign.Nearest))
	for k := range r.Assigners {
		r.Assigners[k].More = more(r.scores[k], r.scores[r.reference])
	}
	return r, nil
}

// perSeed draws the worlds of a configuration, several at once, and returns what do finds in each, in the order of the seeds.
func perSeed[T any](ctx context.Context, cfg Config, do func(w *World) (T, error)) ([]T, error) {
	found := make([]T, cfg.Seeds)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range found {
		g.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			seed := cfg.First + uint64(i)
			if found[i], err = do(newWorld(cfg, seed)); err != nil {
				err = fmt.Errorf("seed %d: %w", seed, err)
			}
			return err
		})
	}
	return found, g.Wait()
}

func spread[T any](worlds []T, of func(T) float64) Spread {
	v := make([]float64, len(worlds))
	for i, w := range worlds {
		v[i] = of(w)
	}
	slices.Sort(v)
	return Spread{Median: quantile.Median(v), P10: quantile.Of(v, 0.1), P90: quantile.Of(v, 0.9)}
}

func summarize(name string, all []score) Assigner {
	a := Assigner{Name: name, ChoiceRatio: spread(all, func(s score) float64 { return s.choice })}
	for k, figure := range a.medians() {
		*figure = spread(all, func(s score) float64 { return *s.medians()[k] }).Median
	}
	for _, s := range all {
		a.EstimatesMax = max(a.EstimatesMax, s.EstimatesMax)
		a.EstimatesMean += s.EstimatesMean / float64(len(all))
	}
	return a
}

func describe(cfg Config) Described {
	d := Described{Matrices: "synthetic", Setup: cfg.Setup}
	if d.Homes == 0 {
		d.Homes = cfg.Nodes
	}
	if cfg.Estimates >= 0 {
		d.Estimates = &cfg.Estimates
	}
	worlds := min(cfg.Seeds, 10)
	if len(cfg.Matrices) > 0 {
		d.Matrices, worlds = "measured", min(worlds, len(cfg.Matrices))
	}
	var matrices []*world.Matrix
	for i := range worlds {
		matrices = append(matrices, matrixOf(cfg, cfg.First+uint64(i)))
	}
	d.Cities = len(matrices[0].Cities)
	d.Violations = spread(matrices, (*world.Matrix).Violations).Median
	if !matrices[0].Located() {
		d.LocationMissing = 1
	}
	return d
}

// Print writes a report as tables.
func (r *Report) Print(out io.Writer) error {
	r.World.print(out)
	return printTables(out, "assigner\t", r.Assigners[r.reference].Name, func(row func(lead string, a *Assigner)) {
		for i := range r.Assigners {
			row(r.Assigners[i].Name+"\t", &r.Assigners[i])
		}
	})
}

func newTable(out io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// printTables writes the figures of assigners as two tables, since one of them all is too wide for a terminal. each calls row for every line,
// with the cells that it begins with; head is what stands above these. reference is what More compares with.
func printTables(out io.Writer, head, reference string, each func(row func(lead string, a *Assigner))) error {
	t := newTable(out)
	fmt.Fprintln(t, head+"choice ratio\tp10–p90\tmore\ttotal\t+estimates\t% best\t")
	each(func(lead string, a *Assigner) {
		c := a.ChoiceRatio
		fmt.Fprintf(t, "%s%.3f\t%.3f–%.3f\t%s\t%.3f\t%.3f\t%.0f\t\n", lead, c.Median, c.P10, c.P90, a.More.cell(), a.TotalRatio, a.TotalWith, 100*a.BestShare)
	})
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "more: than with %s, the mean over the worlds ± its 95 %% interval\n\n", reference)
	t = newTable(out)
	fmt.Fprintln(t, head+"loss ms\tp50 ms\tp90 ms\testimates\tmax\tmakespan\tsame sum\tbalance\t")
	each(func(lead string, a *Assigner) {
		fmt.Fprintf(t, "%s%.1f\t%.0f\t%.0f\t%.1f\t%d\t%.2f\t%.2f\t%.2f\t\n", lead, a.LossMs, a.P50Ms, a.P90Ms, a.EstimatesMean, a.EstimatesMax,
			a.MakespanRatio, a.MakespanSameSum, a.BalanceCV)
	})
	return t.Flush()
}

func (d Described) print(out io.Writer) {
	budget := "as each assigner likes"
	if d.Estimates != nil {
		budget = fmt.Sprintf("at most %d per server", *d.Estimates)
	}
	more := ""
	if d.Prefixed {
		more = "; addresses prefixed"
	}
	if len(d.Changed) > 0 {
		more += "; set " + strings.Join(d.Changed, ", ")
	}
	fmt.Fprintf(out, "%d nodes, %d servers, %d homes over %d cities; %d seeds from %d;\n"+
		"%s round trips, %.0f %% triangle violations; locations wrong %.0f %%, missing %.0f %%; noise × %g;\n"+
		"estimates: %s; %d pages per server%s\n\n", d.Nodes, d.Servers, d.Homes, d.Cities, d.Seeds, d.First,
		d.Matrices, 100*d.Violations, 100*d.LocationWrong, 100*d.LocationMissing, d.Noise, budget, d.Pages, more)
}
