package simulate

import (
	"context"
	"fmt"
	"io"
	"math"

	"proxima/assign"
)

// PaperRow is one row of a published table beside the same experiment in these worlds. Shares are from 0 to 1. A published loss of 0
// was not printed.
type PaperRow struct {
	Method string `json:"method"`
	Setup  string `json:"setup"`
	// Best is the share of servers that went to the node with the shortest probe. Probes is the number of probes / that of every
	// node probing every server. LossMs is how much longer than the shortest the probe of the chosen node is, over the servers
	// that went elsewhere.
	Best       float64 `json:"best"`
	Probes     float64 `json:"probes"`
	LossMs     float64 `json:"loss_ms"`
	PaperBest  float64 `json:"paper_best"`
	PaperProbe float64 `json:"paper_probes"`
	PaperLoss  float64 `json:"paper_loss_ms,omitempty"`
}

// Papers are the tables of the literature.
type Papers struct {
	Rows  []PaperRow `json:"rows"`
	World Described  `json:"world"`
}

// paper is an experiment: nodes decide about servers by a method that was trained with others before.
type paper struct {
	method             string
	nodes              int
	thresholdMs        float64
	trained, servers   int
	best, probes, loss float64 // as published
}

// papers are the tables of O. Papapetrou's thesis of 2003: 8.1 and 8.2 (HiMicra) and those of section 8.6 (IPMicra). Its section 8.3
// finds ping right for 908 of 1,000 sites by download times. Here probes are the measure, and ping is right by definition.
var papers = []paper{
	{assign.HiMicra, 12, 25, 0, 1000, .89, .78, 4.8},
	{assign.HiMicra, 12, 50, 0, 1000, .62, .55, 17},
	{assign.HiMicra, 12, 75, 0, 1000, .43, .42, 22.9},
	{assign.HiMicra, 10, 50, 0, 2000, .90, .68, 18},
	{assign.HiMicra, 25, 50, 0, 2000, .63, .37, 19},
	{assign.HiMicra, 40, 50, 0, 2000, .50, .27, 20},
	{assign.HiMicra, 50, 50, 0, 2000, .46, .18, 21},
	{assign.IPMicra, 12, 25, 650, 350, .90, .488, 5.6},
	{assign.IPMicra, 12, 50, 650, 350, .75, .250, 13},
	{assign.IPMicra, 12, 100, 650, 350, .53, .147, 29.9},
	{assign.IPMicra, 6, 50, 0, 1000, .434, .45, 0},
	{assign.IPMicra, 12, 50, 0, 1000, .703, .29, 0},
}

// MeasurePapers repeats the experiments in the worlds of a configuration, but prefixed, with one home and without noise. Rows are
// medians over the seeds.
func MeasurePapers(ctx context.Context, cfg Config) (*Papers, error) {
	cfg.Noise, cfg.Homes, cfg.Prefixed, cfg.sparse = 0, 1, true, true
	p := &Papers{World: describe(cfg)}
	p.World.Nodes, p.World.Servers, p.World.Pages = 0, 0, 0 // each row has its own
	for _, one := range papers {
		cfg.Nodes, cfg.Servers = one.nodes, one.trained+one.servers
		rows, err := perSeed(ctx, cfg, one.measure)
		if err != nil {
			return nil, err
		}
		setup := fmt.Sprintf("%d nodes, T %.0f ms, %d servers", one.nodes, one.thresholdMs, one.servers)
		if one.trained > 0 {
			setup += fmt.Sprintf(" after %d", one.trained)
		}
		p.Rows = append(p.Rows, PaperRow{Method: one.method, Setup: setup,
			Best:      spread(rows, func(r PaperRow) float64 { return r.Best }).Median,
			Probes:    spread(rows, func(r PaperRow) float64 { return r.Probes }).Median,
			LossMs:    spread(rows, func(r PaperRow) float64 { return r.LossMs }).Median,
			PaperBest: one.best, PaperProbe: one.probes, PaperLoss: one.loss})
	}
	return p, nil
}

func (p paper) measure(w *World) (row PaperRow, err error) {
	o := newOverlay(w, false)
	batch := share(w)[0].batch
	// Neighbouring addresses come in any order.
	stream(w.seed, streamChoice).Shuffle(len(batch.Servers), func(i, j int) {
		batch.Servers[i], batch.Servers[j] = batch.Servers[j], batch.Servers[i]
	})
	cfg := w.cfg.Assign
	training := batch
	training.Servers, batch.Servers = batch.Servers[:p.trained], batch.Servers[p.trained:]
	if p.trained > 0 { // no probe is below this threshold, so each subnet goes to the node with the shortest
		cfg.HiMicra.ThresholdMs, cfg.IPMicra.ThresholdMs, cfg.IPMicra.Check = 0, 0, true
		if batch.Before, _, err = p.run(w, o, cfg, training); err != nil {
			return row, err
		}
	}
	cfg.HiMicra.ThresholdMs, cfg.IPMicra.ThresholdMs, cfg.IPMicra.Check = p.thresholdMs, p.thresholdMs, w.cfg.Assign.IPMicra.Check
	_, choices, err := p.run(w, o, cfg, batch)
	if err != nil {
		return row, err
	}
	probe := func(node, server int) float64 {
		return float64(w.download(node, server, 0).Connect.Microseconds()) / 1000
	}
	wrong := 0.0
	for _, c := range choices {
		chosen, least := probe(w.index[c.Node], w.at[c.Server]), math.Inf(1)
		for i := range w.nodes {
			least = min(least, probe(i, w.at[c.Server]))
		}
		row.Probes += float64(c.Estimates) / float64(len(w.nodes)*len(choices))
		if chosen == least {
			row.Best += 1 / float64(len(choices))
			continue
		}
		wrong++
		row.LossMs += chosen - least
	}
	row.LossMs /= max(1, wrong)
	return row, nil
}

func (p paper) run(w *World, o *overlay, cfg assign.Config, b assign.Batch) (assign.Assigner, []assign.Choice, error) {
	a, err := assign.New(p.method, cfg, b, o.view, o.now)
	if err != nil {
		return nil, nil, err
	}
	for range maxRounds {
		if choices, done := a.Decide(o.now); done {
			return a, choices, nil
		}
		for _, ask := range a.Asks(o.now) {
			i, j := w.index[ask.Node], w.at[ask.Server]
			a.Observe(assign.Result{Ask: ask, OK: true, Timing: w.download(i, j, 0), Coord: o.coords[i].Coordinate()}, o.now)
		}
	}
	return nil, nil, fmt.Errorf("%s: undecided after %d rounds", p.method, maxRounds)
}

// Print writes the measured tables beside the published ones.
func (p *Papers) Print(out io.Writer) error {
	w := p.World
	fmt.Fprintf(out, "one home, prefixed addresses, no noise; %s round trips over %d cities, %.0f %% triangle violations;\n"+
		"locations wrong %.0f %%, missing %.0f %%; medians of %d seeds from %d\n\n", w.Matrices, w.Cities, 100*w.Violations,
		100*w.LocationWrong, 100*w.LocationMissing, w.Seeds, w.First)
	t := newTable(out)
	fmt.Fprintln(t, "method\tset-up\t% best\tpaper\t% probes\tpaper\tloss ms\tpaper\t")
	for _, r := range p.Rows {
		printed := "–"
		if r.PaperLoss > 0 {
			printed = fmt.Sprintf("%.1f", r.PaperLoss)
		}
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.1f\t%s\t\n", r.Method, r.Setup, 100*r.Best, 100*r.PaperBest, 100*r.Probes,
			100*r.PaperProbe, r.LossMs, printed)
	}
	return t.Flush()
}
