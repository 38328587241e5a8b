package simulate

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"proxima/assign"
	"proxima/cmd/proxima/world"
)

// Goal is one row of the table of goals.
type Goal struct {
	What string `json:"what"`
	// Most is the goal: the median is to be at most that. 0 for rows that only inform.
	Most     float64 `json:"goal,omitempty"`
	Measured Spread  `json:"measured"`
	Pass     bool    `json:"pass"`
	Note     string  `json:"note,omitempty"`
}

// Goals is the whole table.
type Goals struct {
	Goals []Goal    `json:"goals"`
	World Described `json:"world"`
}

// setting is a variation of the world that has a goal.
type setting struct {
	name, what string
	most       float64
	set        func(c *Config)
}

func settings(noisy []*world.Matrix) []setting {
	return []setting{
		{"6", "budget of 6 estimates", 1.05, func(c *Config) { c.Estimates = 6 }},
		{"16", "budget of 16 estimates", 1.02, func(c *Config) { c.Estimates = 16 }},
		{"wrong", "30 % of the locations wrong, budget 6", 1.08, func(c *Config) { c.Estimates, c.LocationWrong = 6, 0.3 }},
		{"none", "no locations at all, budget 6", 1.10, func(c *Config) { c.Estimates, c.LocationMissing = 6, 1 }},
		{"32 nodes", "32 nodes, budget 6", 1.07, func(c *Config) { c.Estimates, c.Nodes = 6, 32 }},
		{"noisy", "noisy matrices (Seattle), budget 8", 1.12, func(c *Config) { c.Estimates, c.Matrices = 8, noisy }},
	}
}

// scarce are settings with next to no estimates.
func scarce() (list []setting) {
	for i, most := range []float64{1.10, 1.05, 1.03} {
		list = append(list, setting{"", fmt.Sprintf("budget of %d", i+1), most, func(c *Config) { c.Estimates = i + 1 }})
	}
	return list
}

// MeasureGoals measures nearest against its goals, all with cfg.Assign: cfg has the round trips among cities, noisy are
// matrices with many triangle violations. progress is called with each row when it is there.
func MeasureGoals(ctx context.Context, cfg Config, noisy []*world.Matrix, progress func(Goal)) (*Goals, error) {
	g := &Goals{World: describe(cfg)}
	add := func(rows ...Goal) {
		for _, row := range rows {
			row.Pass = row.Most == 0 || row.Measured.Median <= row.Most
			g.Goals = append(g.Goals, row)
			progress(row)
		}
	}
	for _, row := range append(settings(noisy), scarce()...) {
		one := cfg
		one.Assigners = []string{assign.Nearest}
		row.set(&one)
		r, err := Run(ctx, one)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", row.what, err)
		}
		a := r.Assigners[0]
		add(Goal{What: "choice ratio, " + row.what, Most: row.most, Measured: a.ChoiceRatio,
			Note: fmt.Sprintf("%.1f estimates a server, at most %d; %.0f %% at their best node; %d cities, %.0f %% triangle violations",
				a.EstimatesMean, a.EstimatesMax, 100*a.BestShare, r.World.Cities, 100*r.World.Violations)})
	}
	one := cfg
	one.Estimates = 6
	if rows, err := measureRecovery(ctx, one); err != nil {
		return nil, err
	} else {
		add(rows...)
	}
	if rows, err := measureMakespan(ctx, one); err != nil {
		return nil, err
	} else {
		add(rows...)
	}
	rows, err := measureNeighbours(ctx, cfg)
	if err != nil {
		return nil, err
	}
	add(rows...)
	rows, err = measureSpeed(ctx, cfg)
	if err != nil {
		return nil, err
	}
	add(rows...)
	return g, nil
}

// The goal after a change.
const recoverDownloads, recoverLimit = 30, 1.10

// quietPasses is how long the crawl goes on before and between changes, in passes.
const quietPasses = 16

// measureRecovery changes the node that it matters most of, and changes it back.
func measureRecovery(ctx context.Context, cfg Config) ([]Goal, error) {
	kinds := []struct {
		worse, better change
	}{
		{change{"a node's load × 5", 5, 1}, change{"its load back", 0.2, 1}},
		{change{"a node's bandwidth ÷ 5", 1, 0.2}, change{"its bandwidth back", 1, 5}},
	}
	var rows []Goal
	for _, kind := range kinds {
		all := [2][]recovery{make([]recovery, cfg.Seeds), make([]recovery, cfg.Seeds)}
		err := eachSeed(ctx, cfg, func(ctx context.Context, i int, w *World) error {
			c, err := newCrawl(ctx, w)
			if err != nil {
				return err
			}
			if err := c.settle(ctx, quietPasses); err != nil {
				return err
			}
			node := c.hardest(kind.worse)
			if all[0][i], err = c.recover(ctx, node, kind.worse, recoverDownloads, recoverLimit); err != nil {
				return err
			}
			if err := c.settle(ctx, quietPasses); err != nil {
				return err
			}
			all[1][i], err = c.recover(ctx, node, kind.better, recoverDownloads, recoverLimit)
			return err
		})
		if err != nil {
			return nil, err
		}
		for k, what := range []change{kind.worse, kind.better} {
			var at, after, whole, needed, servers, moved []float64
			for _, r := range all[k] {
				at, after, needed = append(at, r.at), append(after, r.after), append(needed, float64(r.needed))
				servers, moved, whole = append(servers, float64(r.servers)), append(moved, float64(r.moved)), append(whole, r.whole)
			}
			n := spreadOf(needed)
			note := fmt.Sprintf("%.0f servers, %.3f at once; under %.2f for good after %.0f downloads (p90 %.0f; %d: not by then); ",
				spreadOf(servers).Median, spreadOf(at).Median, recoverLimit, n.Median, n.P90, recoverDownloads+1)
			note += fmt.Sprintf("%.0f servers moved; all %d servers: %.3f", spreadOf(moved).Median, cfg.Servers, spreadOf(whole).Median)
			rows = append(rows, Goal{What: fmt.Sprintf("choice ratio of the servers concerned, %d downloads after %s", recoverDownloads, what.name),
				Most: recoverLimit, Measured: spreadOf(after), Note: note})
		}
	}
	return rows, nil
}

// sharing is the setting with which a home that decides about all servers gives up choice for balance.
func sharing(cfg Config) Config {
	cfg.Homes, cfg.Estimates, cfg.Assign.Nearest.Balance = 1, 16, 0.5
	return cfg
}

// measureMakespan measures how near the choices are to the frontier between the sum of the times and the busiest node's: with a setting
// that seeks it, then as the homes choose by themselves.
func measureMakespan(ctx context.Context, cfg Config) ([]Goal, error) {
	var rows []Goal
	for _, c := range []struct {
		what       string
		cfg        Config
		most, cost float64
	}{
		{"one home, 16 estimates, balance 0.5", sharing(cfg), 1.25, 1.05},
		{"every node a home, budget 6, default balance", cfg, 0, 0},
	} {
		plain, same, choice := make([]float64, cfg.Seeds), make([]float64, cfg.Seeds), make([]float64, cfg.Seeds)
		err := eachSeed(ctx, c.cfg, func(ctx context.Context, i int, w *World) error {
			d, err := decide(ctx, w, assign.Nearest)
			if err != nil {
				return err
			}
			s := newTruth(w).judge(w, d)
			plain[i], same[i], choice[i] = s.makespan, s.makespanSameSum, s.choice
			return nil
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows,
			Goal{What: "makespan / the least of the same sum of times, " + c.what, Most: c.most, Measured: spreadOf(same),
				Note: fmt.Sprintf("linear program, jobs may be split; %.2f of the least of any sum", spreadOf(plain).Median)},
			Goal{What: "choice ratio meanwhile, " + c.what, Most: c.cost, Measured: spreadOf(choice), Note: "what the balance costs"})
	}
	return rows, nil
}

// measureSpeed measures the time that the assigner takes to decide about 100 servers among 1,000 nodes.
func measureSpeed(ctx context.Context, cfg Config) ([]Goal, error) {
	const nodes, servers, times = 1000, 100, 5
	cfg.Nodes, cfg.Servers, cfg.Homes, cfg.Estimates = nodes, servers, 1, -1
	var decides, wholes []float64
	for i := range times {
		w := newWorld(cfg, cfg.First+uint64(i))
		last, whole, err := timeDecision(ctx, w)
		if err != nil {
			return nil, err
		}
		decides, wholes = append(decides, float64(last.Microseconds())/1000), append(wholes, float64(whole.Microseconds())/1000)
	}
	decide := spreadOf(decides)
	return []Goal{
		{What: "ms to decide 100 servers among 1,000 nodes, one core", Most: 50, Measured: decide,
			Note: "with all answers in hand: from nothing to the choices; by this machine's clock"},
		{What: "ms of all rounds of that batch together", Measured: spreadOf(wholes), Note: "estimates chosen anew after every answer"},
	}, nil
}

// timeDecision lets one home decide, and takes the time that the assigner works: for a decision from what all estimates brought,
// and for the whole batch.
func timeDecision(ctx context.Context, w *World) (last, whole time.Duration, err error) {
	o := newOverlay(w, true)
	cfg := w.cfg.budgeted()
	h := share(w)[0]
	timed := func(f func()) time.Duration {
		begun := time.Now()
		f()
		return time.Since(begun)
	}
	whole += timed(func() { h.assigner, err = assign.New(assign.Nearest, cfg, h.batch, o.viewOf(0), o.now) })
	if err != nil {
		return 0, 0, err
	}
	made := map[[2]int]int{}
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		var asks []assign.Ask
		whole += timed(func() { asks = h.assigner.Asks(o.now) })
		for _, ask := range asks {
			i, j := w.index[ask.Node], w.at[ask.Server]
			t := w.download(i, j, made[[2]int{i, j}])
			made[[2]int{i, j}]++
			whole += timed(func() {
				h.assigner.Observe(assign.Result{Ask: ask, OK: true, Timing: t, Coord: o.coords[i].Coordinate()}, o.now)
			})
			o.learn(i, j, t, nil)
		}
		whole += timed(func() { _, done = h.assigner.Decide(o.now) })
		o.pass()
		if !done {
			whole += timed(func() { h.assigner.SetView(o.viewOf(0), o.now) })
		}
	}
	// The same batch once more, with what was learnt: the decision alone.
	for i := range h.batch.Servers {
		if m := h.assigner.Memory(h.batch.Servers[i].Addr); m != nil {
			h.batch.Servers[i].Memory = m.Clone()
		}
	}
	cfg.Nearest.Estimates = 0
	view := o.viewOf(0)
	last = time.Duration(math.MaxInt64)
	for range 3 { // the least of a few: the machine has other things to do, too
		last = min(last, timed(func() {
			a, failed := assign.New(assign.Nearest, cfg, h.batch, view, o.now)
			if err = failed; err == nil {
				a.Asks(o.now)
				a.Decide(o.now)
			}
		}))
		if err != nil {
			return 0, 0, err
		}
	}
	return last, whole, nil
}

// Print writes a row for people: rows take their time, and are shown as they come.
func (g *Goal) Print(out io.Writer) {
	verdict := "     "
	if g.Most > 0 {
		verdict = "MISS "
		if g.Pass {
			verdict = "PASS "
		}
	}
	goal := "        "
	if g.Most > 0 {
		goal = fmt.Sprintf("≤ %-6.4g", g.Most)
	}
	m := g.Measured
	fmt.Fprintf(out, "%s %s %8.3f  (p10–p90 %.3f–%.3f)  %s\n        %s\n", verdict, goal, m.Median, m.P10, m.P90, g.What, g.Note)
}

// Print writes what came of it in one line.
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
