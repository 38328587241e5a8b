package simulate

import (
	"context"
	"fmt"

	"proxima/assign"
)

// measureNeighbours lets nearest decide about half of the servers of a prefixed world, then about the others with few estimates and
// what is known of their neighbours, whichever home has found it out.
func measureNeighbours(ctx context.Context, cfg Config) (rows []Goal, err error) {
	cfg.Prefixed, cfg.Estimates = true, -1
	for _, goal := range []struct {
		estimates int
		missing   float64 // locations
		most      float64
	}{{0, 0, 1.08}, {1, 0, 1.03}, {2, 0, 1.02}, {0, 1, 0}, {1, 1, 0}, {2, 1, 0}} {
		cfg.LocationMissing = goal.missing
		where := ""
		if goal.missing > 0 {
			where = ", no locations at all"
		}
		ratios, without := make([]float64, cfg.Seeds), make([]float64, cfg.Seeds)
		err := eachSeed(ctx, cfg, func(ctx context.Context, i int, w *World) (err error) {
			if ratios[i], err = secondHalf(ctx, w, goal.estimates, false); err != nil {
				return err
			}
			without[i], err = secondHalf(ctx, w, goal.estimates, true)
			return err
		})
		if err != nil {
			return nil, err
		}
		rows = append(rows, Goal{What: fmt.Sprintf("choice ratio of the second half of a prefixed world, %d estimates%s", goal.estimates, where), Most: goal.most,
			Measured: spreadOf(ratios), Note: fmt.Sprintf("%.3f if nothing is known of the first half", spreadOf(without).Median)})
	}
	return rows, nil
}

// secondHalf is the choice ratio of every other server, with so many estimates each.
func secondHalf(ctx context.Context, w *World, estimates int, alone bool) (float64, error) {
	d := &decision{nodes: make([]int, len(w.servers)), estimates: make([]estimated, len(w.servers)), overlay: newOverlay(w, true), homes: share(w)}
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
	if !alone {
		known := make(map[string][]assign.Server)
		for _, h := range d.homes {
			for _, s := range h.batch.Servers {
				s.Memory = d.memory(s.Addr)
				network := assign.Network(s.Addr).String()
				known[network] = append(known[network], s)
			}
		}
		for _, h := range rest {
			near := make(map[string]bool)
			for _, s := range h.batch.Servers {
				if network := assign.Network(s.Addr).String(); !near[network] {
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
	var chosen, best float64
	for j := 1; j < len(w.servers); j += 2 {
		chosen += w.Expected(d.nodes[j], j)
		best += w.Expected(w.best(j), j)
	}
	return chosen / best, nil
}
