package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"proxima/cmd/proxima/fleet"
	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/terminal"
)

// FleetOptions say how to run a scenario on real machines.
type FleetOptions struct {
	// Dir is the folder of all runs. Runs that are finished there are not repeated.
	Dir string
	// Hosts can run nodes. Sites run the web servers of the scenario. Without Sites, the crawl begins with Seeds on the real web.
	Hosts, Sites []fleet.Host
	Seeds        []string
	Sets         int    // the number of equal sets of hosts that run the scenario at the same time
	Seed         uint64 // draws what the scenario leaves open; 0 takes the scenario's
	// SSH reaches the hosts. Programs are for them.
	SSH      fleet.SSH
	Programs fleet.Programs
	// Port is the port of the servers of the first set. Each further set has the next one.
	Port    int
	Command string    // the command line, which the folder of each run records
	Out     io.Writer // receives messages and progress for people
}

type fleetRun struct {
	FleetOptions
	scenario Scenario
	out      terminal.Printer
}

// Fleet runs a scenario on real machines over ssh: each assigner in turn, on equal sets of hosts at the same time. In the folder, set-1 and
// so on have a run for each assigner. unfinished has the others. Fleet returns when everything that it started has ended.
func Fleet(ctx context.Context, s Scenario, o FleetOptions) error {
	f := &fleetRun{FleetOptions: o, scenario: s, out: terminal.New(o.Out)}
	if err := f.check(); err != nil {
		return err
	}
	release, err := rundir.Claim(f.Dir)
	if err != nil {
		return err
	}
	defer release()
	sets, err := f.chooseSets(ctx)
	if err != nil {
		return err
	}
	all := f.SSH
	all.Jobs = len(sets)
	return all.Each(len(sets), func(k int) error {
		if err := f.runSet(ctx, k, sets[k]); err != nil {
			err = fmt.Errorf("set %d: %w", k+1, err)
			f.out.Say("%v", err)
			return err
		}
		return nil
	})
}

// check returns an error if real machines cannot run the scenario.
func (f *fleetRun) check() error {
	for _, e := range f.scenario.Events {
		switch e.Kind {
		case rundir.EventBandwidth, rundir.EventPartition, rundir.EventHeal:
			return fmt.Errorf("event %s at %v: real machines do not support this", e.Kind, e.At)
		case rundir.EventSlow:
			if len(f.Sites) == 0 {
				return fmt.Errorf("event %s at %v: a server can be slow only on a machine for sites", e.Kind, e.At)
			}
		}
	}
	addresses, servers := len(f.siteAddresses()), len(f.scenario.siteNames())
	switch {
	case len(f.Sites) == 0 && len(f.Seeds) == 0:
		return errors.New("a fleet needs machines for sites, or seeds on the real web")
	case len(f.Sites) > 0 && addresses < servers:
		return fmt.Errorf("the scenario has %d servers, but the list of sites has only %d addresses", servers, addresses)
	case f.Sets < 1 || f.SSH.Jobs < 1:
		return errors.New("the number of sets and the number of jobs must be at least 1")
	case f.Port < 1 || f.Port > math.MaxUint16+1-f.Sets:
		return fmt.Errorf("there are no %d ports from %d on", f.Sets, f.Port)
	}
	return nil
}

// inspectAll asks hosts about themselves and copies the program to them. It returns those that can be used, and prints why the others cannot.
func (f *fleetRun) inspectAll(ctx context.Context, hosts []fleet.Host) []fleet.Info {
	found := make([]fleet.Info, len(hosts))
	_ = f.SSH.Each(len(hosts), func(i int) error {
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		info, err := f.SSH.Probe(ctx, hosts[i])
		var program fleet.File
		if err == nil {
			program, err = f.Programs.For(info)
		}
		if err == nil {
			_, _, err = f.SSH.Copy(ctx, hosts[i], []fleet.File{program}, "within", "take")
		}
		if err != nil {
			f.out.Say("left out: %v", err)
			return err
		}
		found[i] = info
		return nil
	})
	return slices.DeleteFunc(found, func(h fleet.Info) bool { return h.Dir == "" })
}

// chooseSets returns the hosts of each set: those that an earlier call wrote to the folder, or the least loaded.
func (f *fleetRun) chooseSets(ctx context.Context) ([][]fleet.Info, error) {
	if len(f.Sites) > 0 {
		if found := f.inspectAll(ctx, f.Sites); len(found) < len(f.Sites) {
			return nil, fmt.Errorf("%d of %d machines for sites can be used", len(found), len(f.Sites))
		}
	}
	file := func(k int) string { return filepath.Join(f.setDir(k), "hosts") }
	if _, err := os.Stat(file(0)); err == nil {
		sets := make([][]fleet.Info, f.Sets)
		for k := range sets {
			hosts, err := fleet.ReadHosts(file(k))
			if err != nil {
				return nil, err
			}
			if sets[k] = f.inspectAll(ctx, hosts); len(sets[k]) < len(hosts) {
				f.out.Say("set %d: %d of its %d hosts can be used", k+1, len(sets[k]), len(hosts))
				sets[k] = nil
			}
		}
		return sets, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("find sets: %w", err)
	}
	found, size := f.inspectAll(ctx, f.Hosts), len(f.scenario.nodeNames())
	if need := size * f.Sets; len(found) < need {
		return nil, fmt.Errorf("%d sets of %d nodes need %d hosts; %d of %d can be used", f.Sets, size, need, len(found), len(f.Hosts))
	}
	sets := fleet.Divide(found, f.Sets, size)
	for k, set := range sets {
		if err := fleet.WriteHosts(file(k), set); err != nil {
			return nil, err
		}
	}
	return sets, nil
}

func (f *fleetRun) setDir(k int) string { return filepath.Join(f.Dir, fmt.Sprintf("set-%d", k+1)) }

// runSet runs each assigner on a set of hosts, unless its run is finished.
func (f *fleetRun) runSet(ctx context.Context, k int, hosts []fleet.Info) error {
	if hosts == nil {
		return errors.New("some of its hosts cannot be used")
	}
	out := f.out
	out.Prefix = fmt.Sprintf("set %d: ", k+1)
	var errs []error
	for _, a := range f.scenario.Assigners {
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx))...)
		}
		done := filepath.Join(f.setDir(k), a)
		if _, err := os.Stat(done); err == nil {
			out.Say("the run of assigner %s is finished", a)
			continue
		}
		out.Say("assigner %s", a)
		part := filepath.Join(f.Dir, "unfinished", fmt.Sprintf("set-%d-%s", k+1, a))
		if err := rundir.Whole(part, done, func() error { return f.runAssigner(ctx, k, a, part, hosts, out) }); err != nil {
			errs = append(errs, fmt.Errorf("assigner %s: %w", a, err))
			out.Say("assigner %s: %v", a, err)
		}
	}
	return errors.Join(errs...)
}

func (f *fleetRun) runAssigner(ctx context.Context, k int, assigner, dir string, hosts []fleet.Info, out terminal.Printer) (err error) {
	plan, err := f.plan(assigner, hosts)
	if err != nil {
		return err
	}
	r := &run{plan: plan, dir: dir, command: f.Command, out: out}
	b := &machines{SSH: f.SSH, run: r, infos: hosts, web: map[netip.Addr]*fleet.Conversation{}, port: f.Port + k, seeds: f.Seeds}
	r.platform, r.configure = b, b.configure
	if err := r.prepare(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if len(f.Sites) > 0 {
		if err := b.serve(ctx, f.Sites, []byte(plan.Scenario.Text())); err != nil {
			return err
		}
	}
	if err := r.writeSeeds(b.frontPages()); err != nil {
		return err
	}
	if err := b.deploy(ctx); err != nil {
		return err
	}
	err = r.execute(ctx)
	// Collect the logs of failed runs, too.
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
	defer cancel()
	return errors.Join(err, b.collect(late))
}

// plan plans the run of an assigner on real machines, whose round trips are unknown.
func (f *fleetRun) plan(assigner string, hosts []fleet.Info) (*Plan, error) {
	p := &Plan{Scenario: f.scenario.as(f.Seed, assigner)}
	if err := p.addNodes(nil); err != nil {
		return nil, err
	}
	if len(hosts) < len(p.Nodes) {
		return nil, fmt.Errorf("the set has %d hosts for %d nodes: name another -out, since this one has the sets of an earlier call", len(hosts), len(p.Nodes))
	}
	for i := range p.Nodes {
		h := hosts[i].Host
		p.Nodes[i].Addr = h.Addresses[0]
		if p.Nodes[i].Name == "" {
			p.Nodes[i].Name = p.freeName(slug(strings.ReplaceAll(h.Name, ".", "-")))
		}
	}
	if len(f.Sites) == 0 {
		return p, nil
	}
	return p, p.addServers(nil, f.siteAddresses())
}

// siteAddresses returns the addresses of all servers, in the order of the list of machines.
func (f *fleetRun) siteAddresses() (all []netip.Addr) {
	for _, h := range f.Sites {
		all = append(all, h.Addresses...)
	}
	return all
}
