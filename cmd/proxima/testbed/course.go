package testbed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/ncoord/quantile"
	"proxima/node"
)

// run is one run in progress.
type run struct {
	plan      *Plan
	assigners []string
	dir       string
	keep      bool
	command   string
	locate    func(i int, c *node.Config) // sets what depends on the bed
	bed       bed
	out       printer
	world     rundir.World

	lives   []life    // by node; nil while it is down
	shares  []float64 // of the time in which each node may run
	pages   []int64   // by node: the last count that its current life reported
	past    int64     // pages of lives that have ended
	events  []Event
	busiest map[string]int // the node that the events of a group mean
	started time.Time
}

const (
	joinPatience = 60 * time.Second // for all nodes to know each other
	stopPatience = 20 * time.Second // for a node to end when told to
	quietSeconds = 10               // without a batch: there will be no more
)

// whole executes a run from beginning to end.
func (r *run) whole(ctx context.Context) (err error) {
	n := len(r.plan.Nodes)
	r.lives, r.pages, r.busiest, r.started = make([]life, n), make([]int64, n), map[string]int{}, time.Now()
	for _, p := range r.plan.Nodes {
		r.shares = append(r.shares, p.CPU)
	}
	r.events = r.plan.Scenario.Events
	r.world.Started = r.started
	var ratios []float64
	if r.plan.RTTMs != nil { // the round trips between real machines are unknown
		r.out.say("comparing the emulated paths with the model")
		if ratios, err = r.calibrate(ctx); err != nil {
			return err
		}
	}
	if err := r.launch(ctx); err != nil {
		return errors.Join(err, r.stop())
	}
	r.started = time.Now()
	r.world.Started = r.started
	err = errors.Join(r.crawl(ctx), r.stop())
	return errors.Join(err, r.finish(ratios))
}

// start begins a life of a node.
func (r *run) start(ctx context.Context, i int) error {
	l, err := r.bed.start(ctx, i)
	if err != nil {
		return err
	}
	if r.shares[i] < 1 {
		l.setShare(r.shares[i])
	}
	r.lives[i] = l
	return nil
}

// launch starts all nodes and waits until they know each other.
func (r *run) launch(ctx context.Context) error {
	for i := range r.lives {
		if err := r.start(ctx, i); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(joinPatience)
	for {
		if err := r.pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		t := r.ask(ctx)
		r.out.renew(fmt.Sprintf("starting: %d of %d nodes up, %d joined", t.up, t.all, max(t.joined, 0)))
		switch {
		case t.joined == t.all:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("the nodes did not find each other within %v: the least joined sees %d of %d; see %s", joinPatience,
				t.joined, t.all, filepath.Join(r.dir, rundir.NodesFolder))
		}
	}
}

// crawl watches the nodes until they or the scenario have ended.
func (r *run) crawl(ctx context.Context) error {
	length := r.plan.Scenario.Length
	last, rate := int64(0), 0.0
	quiet := 0 // seconds in which no batch was under way
	for {
		since := time.Since(r.started)
		if err := r.happen(ctx, since); err != nil {
			return err
		}
		if since >= length && !r.keep {
			r.out.say("%s  the length of the scenario is over", clock(since))
			return nil
		}
		t := r.ask(ctx)
		rate += (float64(t.pages-last) - rate) / 5
		last = t.pages
		phase := t.phase()
		if r.keep && since >= length {
			phase = "left up for a look; Ctrl-C ends it"
		}
		r.out.renew(t.line(phase, length-since, rate))
		if t.up == 0 && len(r.events) == 0 {
			r.out.say("%s  the crawl has ended by itself: nothing was left to do", clock(since))
			return nil
		}
		if quiet++; !t.quiet() {
			quiet = 0
		}
		if r.plan.Scenario.Until == UntilBatches && quiet > quietSeconds && len(r.events) == 0 && !r.keep {
			r.out.say("%s  all batches are handed off", clock(since))
			return nil
		}
		if err := r.pause(ctx, time.Second-time.Since(r.started.Add(since))); err != nil {
			return err
		}
	}
}

// pause waits and then looks for nodes that have ended. Its error is the failure of a node or the end of the context.
func (r *run) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("stopped: %w", context.Cause(ctx))
	case <-time.After(max(d, 10*time.Millisecond)):
	}
	for i, l := range r.lives {
		if l == nil {
			continue
		}
		select {
		case <-l.done():
			r.bury(i)
			if err := l.ended(); err != nil {
				return r.failed(i, err)
			}
		default:
		}
	}
	return nil
}

// bury records that a life has ended.
func (r *run) bury(i int) {
	r.past += r.pages[i]
	r.lives[i], r.pages[i] = nil, 0
}

// failed returns the error of a node that failed, with its last output.
func (r *run) failed(i int, err error) error {
	words := ""
	for _, name := range []string{outputFile, filepath.Join(rundir.LogsFolder, "node.jsonl")} {
		if last := tail(filepath.Join(r.nodeDir(i), name), 5); last != "" {
			words += "\n  " + name + ":\n    " + strings.ReplaceAll(last, "\n", "\n    ")
		}
	}
	return fmt.Errorf("node %s failed: %w%s", r.plan.Nodes[i].Name, err, words)
}

// stop tells all nodes to end and kills those that do not.
func (r *run) stop() error {
	for _, l := range r.lives {
		if l != nil {
			l.stop()
		}
	}
	late := time.After(stopPatience)
	var errs []error
	for i, l := range r.lives {
		if l == nil {
			continue
		}
		select {
		case <-l.done():
		case <-late:
			l.kill()
			<-l.done()
			errs = append(errs, fmt.Errorf("node %s did not stop within %v and was killed", r.plan.Nodes[i].Name, stopPatience))
			late = time.After(0)
		}
		r.bury(i)
	}
	return errors.Join(errs...)
}

// finish writes the files that no node writes.
func (r *run) finish(ratios []float64) error {
	t, err := r.bed.faithful()
	if err != nil {
		return err
	}
	if t.Emulation == "" {
		return rundir.WriteWorld(r.dir, r.world)
	}
	t.Calibrations, t.Machine, t.Command = len(ratios), machine(), r.command
	at := func(q float64) float64 { return micro(quantile.Of(ratios, q)) }
	t.CalibrationP10, t.CalibrationP50, t.CalibrationP90 = at(0.1), at(0.5), at(0.9)
	r.verdict(t)
	return errors.Join(r.pacing(r.bed.visits()), rundir.WriteWorld(r.dir, r.world), rundir.WriteTestbed(r.dir, t))
}

// verdict prints how faithful the emulation was.
func (r *run) verdict(t rundir.Testbed) {
	r.out.say("emulation %s: %d packets, late by %.2f ms (p50) and %.2f ms (p99); dropped as planned %d, unplanned %d", t.Emulation,
		t.Packets, t.DelayErrorP50Ms, t.DelayErrorP99Ms, t.DroppedPlanned, t.DroppedForOwn)
	r.out.say("machine: %.0f %% of %d cores busy; nodes waited for a core for up to %.2f ms (p99)", 100*t.CPUBusy, t.Cores, t.WaitP99Ms)
	r.out.say("calibration: %d downloads by an ordinary client took %.2f times the time of the model (p10 %.2f, p90 %.2f)", t.Calibrations,
		t.CalibrationP50, t.CalibrationP10, t.CalibrationP90)
	if !t.Trusted {
		r.out.say("NOT TO BE TRUSTED: %s", strings.Join(t.Why, "; "))
	}
}
