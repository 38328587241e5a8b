package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/terminal"
	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/testbed/sites"
	"proxima/ncoord/quantile"
	"proxima/node"
	"proxima/node/bell"
)

type run struct {
	plan      *Plan
	dir       string
	keep      bool
	command   string
	configure func(i int, c *node.Config) // sets what depends on the platform; nil in an emulated internet
	platform  platform
	out       terminal.Printer
	world     rundir.World

	running []runningNode // by node; nil while it is down
	shares  []float64     // by node: the share of the time in which it may run
	pages   []int64       // by node: the last count that it reported since its start
	past    int64         // pages of the nodes that have ended
	events  []Event
	busiest map[string]int // by group: the node that its events apply to
}

const (
	joinPatience = 60 * time.Second // until all nodes know each other
	stopPatience = 20 * time.Second // until a node that was told to end is killed
	quietSeconds = 10               // without a batch, after which no more is expected
)

func (r *run) execute(ctx context.Context) (err error) {
	n := len(r.plan.Nodes)
	r.running, r.pages, r.busiest = make([]runningNode, n), make([]int64, n), map[string]int{}
	for _, p := range r.plan.Nodes {
		r.shares = append(r.shares, p.CPU)
	}
	r.events, r.world = r.plan.Scenario.Events, r.plan.World()
	r.world.Started = time.Now()
	var ratios []float64
	if r.plan.RTTMs != nil { // they are unknown between real machines
		r.out.Say("comparing the emulated paths with the model")
		if ratios, err = r.calibrate(ctx); err != nil {
			return err
		}
	}
	if err := r.startAll(ctx); err != nil {
		return errors.Join(err, r.stop())
	}
	r.world.Started = time.Now()
	err = r.crawl(ctx)
	broken, since, length := "", time.Since(r.world.Started), r.plan.Scenario.Length
	if err != nil && !(r.keep && since >= length) {
		broken = fmt.Sprintf("the run of %s was broken off after %v of at most %v", strings.Join(r.world.Assigners, ", "), since.Round(time.Second), length)
	}
	err = errors.Join(err, r.stop())
	return errors.Join(err, r.writeResults(ratios, broken))
}

func (r *run) start(ctx context.Context, i int) error {
	l, err := r.platform.start(ctx, i)
	if err != nil {
		return err
	}
	if r.shares[i] < 1 {
		l.setShare(r.shares[i])
	}
	r.running[i] = l
	return nil
}

// startAll starts all nodes and waits until they know each other.
func (r *run) startAll(ctx context.Context) error {
	for i := range r.running {
		if err := r.start(ctx, i); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(joinPatience)
	for {
		if err := r.pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		t := r.askAll(ctx)
		r.out.Renew(func() string {
			return fmt.Sprintf("starting: %d of %d nodes up, %d joined", t.up, t.all, max(t.joined, 0))
		})
		switch {
		case t.joined == t.all:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("the nodes did not find each other within %v: %s knows only %d of %d%s; see %s", joinPatience,
				r.plan.Nodes[t.lonely].Name, t.joined, t.all, r.openPorts(), filepath.Join(r.dir, rundir.NodesFolder))
		}
	}
}

// openPorts says what real machines may lack, whose nodes do not reach each other.
func (r *run) openPorts() string {
	if r.plan.RTTMs != nil {
		return ""
	}
	return fmt.Sprintf(" (a firewall? all machines need each other's port %d for TCP and UDP, and %d for TCP)", gossipPort, peerPort)
}

// crawl watches the nodes until they have ended or the scenario's length is over.
func (r *run) crawl(ctx context.Context) error {
	length := r.plan.Scenario.Length
	last, rate := int64(0), 0.0
	quiet := 0 // seconds without a batch in progress
	warned := false
	for {
		since := time.Since(r.world.Started)
		if err := r.applyDueEvents(ctx, since); err != nil {
			return err
		}
		if since >= length && !r.keep {
			r.out.Say("%s  the length of the scenario is over", clock(since))
			return nil
		}
		t := r.askAll(ctx)
		rate += (float64(t.pages-last) - rate) / 5
		last = t.pages
		phase := t.phase()
		if r.keep && since >= length {
			phase = "still running; Ctrl-C ends it"
		}
		r.out.Renew(func() string { return t.line(phase, length-since, rate) })
		if !warned && t.pages == 0 && t.cut > 0 && since >= joinPatience {
			warned = true
			r.out.Say("%s  no page yet: %d of %d nodes cannot call others%s", clock(since), t.cut, t.all, r.openPorts())
		}
		if restart := func(e Event) bool { return e.Kind == rundir.EventRestart }; t.up == 0 && !slices.ContainsFunc(r.events, restart) {
			late := ""
			if n := len(r.events); n > 0 {
				late = fmt.Sprintf("; %d of the events would have come later", n)
			}
			r.out.Say("%s  the crawl has ended by itself: nothing was left to do%s", clock(since), late)
			return nil
		}
		if quiet++; !t.quiet() {
			quiet = 0
		}
		if r.plan.Scenario.Until == UntilBatches && quiet > quietSeconds && len(r.events) == 0 && !r.keep {
			r.out.Say("%s  all batches are handed off", clock(since))
			return nil
		}
		if err := r.pause(ctx, time.Second-time.Since(r.world.Started.Add(since))); err != nil {
			return err
		}
	}
}

// pause waits and then records which nodes have ended. It returns the failure of a node or the end of the context.
func (r *run) pause(ctx context.Context, d time.Duration) error {
	if bell.Sleep(ctx, max(d, 10*time.Millisecond)) != nil {
		return fmt.Errorf("stopped: %w", context.Cause(ctx))
	}
	for i, l := range r.running {
		if l == nil {
			continue
		}
		select {
		case <-l.done():
			r.recordEnd(i)
			if err := l.ended(); err != nil {
				return r.nodeFailure(i, err)
			}
		default:
		}
	}
	return nil
}

func (r *run) recordEnd(i int) {
	r.past += r.pages[i]
	r.running[i], r.pages[i] = nil, 0
}

// nodeFailure returns the error of a node that failed, with its last output.
func (r *run) nodeFailure(i int, err error) error {
	output := ""
	for _, name := range []string{outputFile, filepath.Join(rundir.LogsFolder, "node.jsonl")} {
		if last := sites.LastLines(filepath.Join(r.nodeDir(i), name), 5); last != "" {
			output += "\n  " + name + ":\n    " + strings.ReplaceAll(last, "\n", "\n    ")
		}
	}
	return fmt.Errorf("node %s failed: %w%s", r.plan.Nodes[i].Name, err, output)
}

// stop tells all nodes to end. It kills those that do not end in time.
func (r *run) stop() error {
	for _, l := range r.running {
		if l != nil {
			l.stop()
		}
	}
	late, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	var errs []error
	for i, l := range r.running {
		if l == nil {
			continue
		}
		select {
		case <-l.done():
		case <-late.Done():
		}
		select {
		case <-l.done(): // in time, even if that is over now
		default:
			l.kill()
			<-l.done()
			errs = append(errs, fmt.Errorf("node %s did not stop within %v and was killed", r.plan.Nodes[i].Name, stopPatience))
		}
		r.recordEnd(i)
	}
	return errors.Join(errs...)
}

// writeResults writes the files that describe the run as a whole. broken says that it did not come to its end; "" if it did.
func (r *run) writeResults(ratios []float64, broken string) error {
	s, err := r.platform.Stats()
	if err != nil {
		return err
	}
	if s.Emulation == "" {
		return rundir.WriteWorld(r.dir, r.world)
	}
	t := quality(s, ratios)
	if broken != "" {
		t.Why, t.Trusted = append(t.Why, broken), false
	}
	t.Machine, t.Command = machine(), r.command
	r.printQuality(t)
	return errors.Join(r.pacing(r.platform.Visits()), rundir.WriteWorld(r.dir, r.world), rundir.WriteTestbed(r.dir, t))
}

// leastOfModel and mostOfModel are the limits of the median ratio of an ordinary client's times to those of the model. Beyond them, as on a
// machine that is busy with something else, a run cannot be trusted.
const (
	leastOfModel = 0.8
	mostOfModel  = 1.25
)

// quality says how exact a run was. ratios are those of calibrate.
func quality(s emulate.Stats, ratios []float64) rundir.Testbed {
	at := func(q float64) float64 { return micro(quantile.Of(ratios, q)) }
	t := rundir.Testbed{Emulation: s.Emulation, Why: s.Doubts(), DelayErrorP50Ms: inMs(s.LateP50), DelayErrorP99Ms: inMs(s.LateP99),
		Packets: s.Packets, DroppedPlanned: s.Planned(), DroppedForOwn: s.Unplanned, CPUBusy: s.Busy, WaitP99Ms: inMs(s.WaitP99),
		Cores: s.Cores, Congestion: s.Congestion, Seconds: s.Elapsed.Seconds(),
		Calibrations: len(ratios), CalibrationP10: at(0.1), CalibrationP50: at(0.5), CalibrationP90: at(0.9)}
	if t.Calibrations > 0 && (t.CalibrationP50 < leastOfModel || t.CalibrationP50 > mostOfModel) {
		t.Why = append(t.Why, fmt.Sprintf("an ordinary client took %.2f times the time of the model, by which choices are judged; %.2f to %.2f are "+
			"allowed", t.CalibrationP50, leastOfModel, mostOfModel))
	}
	t.Trusted = len(t.Why) == 0
	return t
}

func (r *run) printQuality(t rundir.Testbed) {
	r.out.Say("emulation %s: %d packets, late by %.2f ms (p50) and %.2f ms (p99); dropped as planned %d, unplanned %d", t.Emulation,
		t.Packets, t.DelayErrorP50Ms, t.DelayErrorP99Ms, t.DroppedPlanned, t.DroppedForOwn)
	waits := ""
	if t.WaitP99Ms > 0 {
		waits = fmt.Sprintf("; nodes waited for a core for up to %.2f ms (p99)", t.WaitP99Ms)
	}
	r.out.Say("machine: %.0f %% of %d cores busy%s", 100*t.CPUBusy, t.Cores, waits)
	r.out.Say("calibration: %d downloads by an ordinary client took %.2f times the time of the model (p10 %.2f, p90 %.2f)", t.Calibrations,
		t.CalibrationP50, t.CalibrationP10, t.CalibrationP90)
	if !t.Trusted {
		r.out.Say("NOT TO BE TRUSTED: %s", strings.Join(t.Why, "; "))
	}
}

// calibrations is the number of pages that an ordinary client downloads from each node's address.
const calibrations = 8

// calibrate downloads some pages from each node's address with an ordinary HTTP client, on fresh connections and without load. It returns
// the ratios of the measured times to those of the model of the truth. They say how exact the model is. Each server is asked for one page
// at a time.
func (r *run) calibrate(ctx context.Context) (ratios []float64, err error) {
	var mu sync.Mutex
	for step := range min(calibrations, len(r.plan.Servers)) {
		var g errgroup.Group
		for i := range min(len(r.plan.Nodes), len(r.plan.Servers)) {
			k := (i + step*(len(r.plan.Nodes)+1)) % len(r.plan.Servers) // the servers of one step differ
			samples := r.platform.urls(k)
			if len(samples) == 0 {
				continue
			}
			g.Go(func() error {
				took, bytes, err := r.download(ctx, i, k, samples[(i+step)%len(samples)])
				if err != nil {
					return fmt.Errorf("calibrate from %s: %w", r.plan.Nodes[i].Name, err)
				}
				model := r.world.DownloadMs(i, k, bytes, r.world.Started)
				mu.Lock()
				defer mu.Unlock()
				ratios = append(ratios, inMs(took)/model)
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
	}
	slices.Sort(ratios)
	return ratios, nil
}

// download downloads a page with an ordinary client. It dials the server's address and looks up no names.
func (r *run) download(ctx context.Context, i, k int, page string) (took time.Duration, bytes int64, err error) {
	dial, leave, err := r.platform.dial(i)
	if err != nil {
		return 0, 0, err
	}
	defer leave()
	at := netip.AddrPortFrom(r.plan.Servers[k].Addr, httpPort).String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) { return dial(ctx, network, at) }}}
	most := r.world.DownloadMs(i, k, sites.MaxBytes, r.world.Started) // think times vary by the page
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second+4*ms(most))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	bytes, err = io.Copy(io.Discard, res.Body)
	took = time.Since(begun)
	return took, bytes, errors.Join(err, res.Body.Close())
}
