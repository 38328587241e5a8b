package simulate

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"time"

	"proxima/assign"
)

// measureMakespan measures how near the choices come to the frontier between the sum of the times and that of the busiest node: where
// nearest seeks it, then where the homes choose by themselves.
func measureMakespan(ctx context.Context, cfg Config) (rows []Goal, err error) {
	// One home, which decides about all servers, trades choice for balance.
	sharing := cfg
	sharing.Homes, sharing.Estimates, sharing.Assign.Nearest.Balance = 1, 16, 0.5
	for _, c := range []struct {
		what       string
		cfg        Config
		most, cost float64
	}{
		{"one home, 16 estimates, balance 0.5", sharing, 1.25, 1.05},
		{"every node a home, budget 6, default balance", cfg, 0, 0},
	} {
		scores, err := nearest(ctx, c.cfg)
		if err != nil {
			return nil, err
		}
		plain := spread(scores, func(s score) float64 { return s.MakespanRatio }).Median
		rows = append(rows,
			Goal{What: "makespan / the least with the same sum of times, " + c.what, Most: c.most,
				Measured: spread(scores, func(s score) float64 { return s.MakespanSameSum }),
				Note:     fmt.Sprintf("linear program, jobs may be split; %.2f of the least with any sum", plain)},
			Goal{What: "choice ratio with that makespan, " + c.what, Most: c.cost,
				Measured: spread(scores, func(s score) float64 { return s.choice }), Note: "what the balance costs"})
	}
	return rows, nil
}

// measureNeighbours lets nearest decide about half of the servers of a prefixed world. About the others it decides with few estimates
// and what any home has found out about their neighbours.
func measureNeighbours(ctx context.Context, cfg Config) (rows []Goal, err error) {
	cfg.Prefixed, cfg.Estimates = true, -1
	for _, goal := range []struct {
		estimates int
		missing   float64 // share of locations
		most      float64
	}{{0, 0, 1.08}, {1, 0, 1.03}, {2, 0, 1.02}, {0, 1, 0}, {1, 1, 0}, {2, 1, 0}} {
		cfg.LocationMissing = goal.missing
		where := ""
		if goal.missing > 0 {
			where = ", no locations at all"
		}
		ratios, err := perSeed(ctx, cfg, func(w *World) (r [2]float64, err error) { // with and without neighbours
			if r[0], err = secondHalf(ctx, w, goal.estimates, true); err == nil {
				r[1], err = secondHalf(ctx, w, goal.estimates, false)
			}
			return r, err
		})
		if err != nil {
			return nil, err
		}
		without := spread(ratios, func(r [2]float64) float64 { return r[1] }).Median
		rows = append(rows, Goal{What: fmt.Sprintf("choice ratio of the second half of a prefixed world, %d estimates%s", goal.estimates, where),
			Most: goal.most, Measured: spread(ratios, func(r [2]float64) float64 { return r[0] }),
			Note: fmt.Sprintf("%.3f if nothing is known about the first half", without)})
	}
	return rows, nil
}

// secondHalf is the choice ratio of every other server, with so many estimates each. neighbours says whether homes know about the
// first half.
func secondHalf(ctx context.Context, w *World, estimates int, neighbours bool) (float64, error) {
	d := newDecision(w)
	d.overlay, d.homes = newOverlay(w, true), share(w)
	rest := make([]*home, len(d.homes))
	for i, h := range d.homes {
		later := *h
		rest[i] = &later
		all := h.batch.Servers
		h.batch.Servers, later.batch.Servers = nil, nil
		for _, s := range all {
			if w.at[s.Addr]%2 == 0 {
				h.batch.Servers = append(h.batch.Servers, s)
			} else {
				later.batch.Servers = append(later.batch.Servers, s)
			}
		}
	}
	cfg := w.cfg.budgeted()
	if err := d.decide(ctx, w, assign.Nearest, cfg, d.homes); err != nil {
		return 0, err
	}
	if neighbours {
		known := make(map[netip.Prefix][]assign.Server)
		for _, h := range d.homes {
			for _, s := range h.batch.Servers {
				s.Memory = d.memory(s.Addr)
				network := assign.Network(s.Addr)
				known[network] = append(known[network], s)
			}
		}
		for _, h := range rest {
			near := make(map[netip.Prefix]bool)
			for _, s := range h.batch.Servers {
				if network := assign.Network(s.Addr); !near[network] {
					near[network] = true
					h.batch.Near = append(h.batch.Near, known[network]...)
				}
			}
		}
	}
	cfg.Nearest.Estimates, cfg.Nearest.MinEstimates = estimates, min(cfg.Nearest.MinEstimates, estimates)
	if err := d.decide(ctx, w, assign.Nearest, cfg, rest); err != nil {
		return 0, err
	}
	var second []int
	for j := 1; j < len(w.servers); j += 2 {
		second = append(second, j)
	}
	return w.ratio(d.nodes, second), nil
}

// measureSpeed measures how long nearest takes to decide about 100 servers among 1,000 nodes.
func measureSpeed(ctx context.Context, cfg Config) ([]Goal, error) {
	const nodes, servers, times = 1000, 100, 5
	cfg.Nodes, cfg.Servers, cfg.Homes, cfg.Estimates = nodes, servers, 1, -1
	var took [times][2]time.Duration // last decision, whole batch
	for i := range took {
		var err error
		if took[i][0], took[i][1], err = timeDecision(ctx, newWorld(cfg, cfg.First+uint64(i))); err != nil {
			return nil, err
		}
	}
	ms := func(k int) Spread {
		return spread(took[:], func(d [2]time.Duration) float64 { return float64(d[k].Microseconds()) / 1000 })
	}
	return []Goal{
		{What: "ms to decide 100 servers among 1,000 nodes, one core", Most: 50, Measured: ms(0),
			Note: "from nothing to the choices with all answers in hand, by this machine's clock"},
		{What: "ms for all rounds of that batch together", Measured: ms(1), Note: "estimates chosen anew after every answer"},
	}, nil
}

// timeDecision lets one home decide. It returns how long the assigner works: for one decision when all answers are there, and for the
// whole batch.
func timeDecision(ctx context.Context, w *World) (last, whole time.Duration, err error) {
	d, err := decide(ctx, w, assign.Nearest)
	if err != nil {
		return 0, 0, err
	}
	// Decide about the same batch again, knowing all answers.
	h, o, cfg := d.homes[0], d.overlay, w.cfg.budgeted()
	for i := range h.batch.Servers {
		h.batch.Servers[i].Memory = d.memory(h.batch.Servers[i].Addr)
	}
	cfg.Nearest.Estimates = 0
	whole, last = h.took, time.Duration(math.MaxInt64)
	for range 3 { // the shortest counts: the machine has other work, too
		begun := time.Now()
		a, err := assign.New(assign.Nearest, cfg, h.batch, o.view, o.now)
		if err != nil {
			return 0, 0, err
		}
		a.Asks(o.now)
		a.Decide(o.now)
		last = min(last, time.Since(begun))
	}
	return last, whole, nil
}
