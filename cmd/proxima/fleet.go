//go:build !nolab

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"proxima/cmd/proxima/fleet"
	"proxima/cmd/proxima/testbed"
	"proxima/frontier/identity"
	"proxima/node"
)

const fleetUsage = `Usage: proxima fleet run SCENARIO | select | deploy | start | status | stop | collect, each with -hosts FILE [FLAGS]
Runs nodes on your own machines, over ssh. "run" runs each assigner of a scenario in turn and collects the results. The others are
for long crawls, whose nodes need no connection. "proxima fleet VERB -h" lists the flags of each.
FILE has a line [USER@]HOST[:PORT] [ADDRESS-FOR-PEERS] for each machine.
`

func runFleet(ctx context.Context, args []string, out, errs io.Writer) error {
	verbs := longCrawls()
	verbs["run"], verbs["tend"] = fleetRun, fleetTend
	return runVerb(ctx, args, out, errs, fleetUsage, verbs)
}

// fleetFlags are the flags that all verbs share.
type fleetFlags struct {
	*flagSet
	ssh   fleet.SSH
	hosts string
}

func newFleetFlags(verb string, out io.Writer, before, dir string, jobs int) *fleetFlags {
	f := &fleetFlags{flagSet: newFlags("fleet "+verb, out, before, "")}
	f.StringVar(&f.hosts, "hosts", "", "`file` that lists the hosts for nodes")
	f.StringVar(&f.ssh.Config, "F", os.Getenv("SSH_CONFIG"), "`file` that configures ssh")
	f.StringVar(&f.ssh.Dir, "dir", dir, "`directory` on each host, below the home directory if it does not begin with /")
	f.IntVar(&f.ssh.Jobs, "jobs", jobs, "`number` of hosts to work on at once")
	inSeconds(f.FlagSet, &f.ssh.Timeout, "timeout", 10*time.Second, "`time` that a connection may take")
	return f
}

// inSeconds adds a flag of a duration. A number without a unit is one of seconds.
func inSeconds(flags *flag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	flags.Func(name, fmt.Sprintf("%s (default %v)", usage, value), func(text string) (err error) {
		if _, bad := strconv.Atoi(text); bad == nil {
			text += "s"
		}
		if err = take(d, text); err == nil && *d < 0 {
			err = errors.New("it is negative")
		}
		return err
	})
}

// readList reads the list of hosts, after it has checked the other flags.
func (f *fleetFlags) readList() ([]fleet.Host, error) {
	f.ssh.Dir = strings.TrimPrefix(f.ssh.Dir, "~/")
	var unreadable error
	if f.ssh.Config != "" {
		_, unreadable = os.Stat(f.ssh.Config)
	}
	switch {
	case f.hosts == "":
		return nil, f.wrong("-hosts is missing")
	case f.ssh.Jobs < 1:
		return nil, f.wrong("-jobs must be at least 1")
	case strings.Trim(f.ssh.Dir, "./ ") == "": // what is there is deleted
		return nil, f.wrong("-dir cannot be %q", f.ssh.Dir)
	case unreadable != nil:
		return nil, f.wrong("-F: %v", unreadable)
	}
	hosts, err := fleet.ReadHosts(f.hosts)
	if err != nil {
		return nil, exit{exitUsage, err}
	}
	if _, err := exec.LookPath("ssh"); err != nil {
		return nil, exit{exitData, errors.New("ssh is not installed here")}
	}
	return hosts, nil
}

// programs adds the flag of the programs for hosts.
func (f *fleetFlags) programs() *[]string {
	var paths []string
	f.Func("proxima", "`file` that is copied to the hosts; this program by default; repeat it for other kinds of processors", func(path string) error {
		paths = append(paths, path)
		return nil
	})
	return &paths
}

func (f *fleetFlags) wrong(format string, args ...any) error {
	return exit{exitUsage, fmt.Errorf("%s (%s -h)", fmt.Sprintf(format, args...), f.Name())}
}

// fleetSeeds reads a file of seeds.
func fleetSeeds(ctx context.Context, file string, out io.Writer) (list []string, err error) {
	var c node.Config
	c.Crawl.Seeds = []string{file}
	urls, err := untilStopped(ctx, func() ([]identity.URL, error) { return readSeeds(c, nil, os.Stdin, out) })
	for _, u := range urls {
		list = append(list, u.String())
	}
	return list, err
}

const fleetRunUsage = `Usage: proxima fleet run SCENARIO -hosts FILE (-sites FILE | -seeds FILE) -out DIR [FLAGS]
Runs each assigner of a scenario in turn on equal sets of machines, over ssh, and collects logs and packages.
The same command again goes on where it stopped. FILE has a line [USER@]HOST[:PORT] [ADDRESS ...] for each machine.
`

func fleetRun(ctx context.Context, args []string, out, _ io.Writer) error {
	flags := newFleetFlags("run", out, fleetRunUsage, "proxima-fleet", 200)
	o := testbed.FleetOptions{Out: out, Command: strings.Join(append([]string{"proxima", "fleet", "run"}, args...), " ")}
	var sites, seeds string
	flags.StringVar(&sites, "sites", "", "`file` that lists machines for the scenario's sites, each with the addresses of its servers")
	flags.StringVar(&seeds, "seeds", "", "`file` of seeds in the real web, in place of -sites")
	flags.StringVar(&o.Dir, "out", "", "`directory` of all runs; finished ones are not run again")
	flags.IntVar(&o.Sets, "sets", 1, "`number` of equal sets of hosts that run the scenario side by side")
	flags.Uint64Var(&o.Seed, "seed", 0, "`number` that draws what the scenario leaves open; 0 takes the scenario's own")
	programs := flags.programs()
	flags.IntVar(&o.Port, "port", 8000, "`port` of the sites of the first set; the other sets use the next ones")
	name, err := parse(flags.flagSet, args)
	if err != nil {
		return err
	}
	if len(name) != 1 || flags.hosts == "" || o.Dir == "" || (sites == "") == (seeds == "") {
		return exit{exitUsage, errors.New("fleet run takes one scenario, -hosts, -out and one of -sites and -seeds (proxima fleet run -h)")}
	}
	if o.Hosts, err = flags.readList(); err != nil {
		return err
	}
	s, err := testbed.Load(name[0])
	if err == nil && sites != "" {
		o.Sites, err = fleet.ReadHosts(sites)
	}
	if err == nil && seeds != "" {
		o.Seeds, err = fleetSeeds(ctx, seeds, out)
	}
	if err == nil {
		o.Programs, err = fleet.ReadPrograms(*programs)
	}
	if err != nil {
		return exit{exitUsage, err}
	}
	o.SSH = flags.ssh
	if err := testbed.Fleet(ctx, s, o); err != nil {
		if ctx.Err() != nil {
			fmt.Fprintln(out, "stopped; the same command goes on")
			return exit{code: exitStopped}
		}
		return err
	}
	fmt.Fprintf(out, "all runs are in %s; compare them with proxima compare %[1]s\n", o.Dir)
	return nil
}

// fleetTend runs the node in this folder of a host. A fleet run on another machine started it and controls it.
func fleetTend(ctx context.Context, args []string, out, _ io.Writer) error {
	if len(args) != 1 {
		return exit{exitUsage, errors.New("fleet tend is for fleet run")}
	}
	seed, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return exit{exitUsage, fmt.Errorf("fleet tend: seed: %w", err)}
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find this folder: %w", err)
	}
	return testbed.Tend(ctx, dir, program, seed, os.Stdin, out)
}

func runSites(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("sites", out, "Usage: proxima sites SCENARIO -at ADDRESS,ADDRESS... [-here ADDRESS,...] [FLAGS]\n"+
		"Serves the sites of a scenario at your own addresses, on one machine or on several with the same -at.\n", "")
	o := testbed.ServeOptions{Out: out}
	addresses(flags.FlagSet, &o.Addresses, "at", "comma-separated `addresses` of all servers, on whichever machine they are")
	addresses(flags.FlagSet, &o.Here, "here", "comma-separated `addresses` of this machine; all by default")
	flags.IntVar(&o.Port, "port", 80, "`port` of all servers")
	flags.Uint64Var(&o.Seed, "seed", 0, "`number` that draws the pages; 0 takes the scenario's own")
	orders := flags.Bool("orders", false, "obey lines of standard input (slow ADDRESS MILLISECONDS), and end with it")
	name, err := parse(flags, args)
	if err != nil {
		return err
	}
	if len(name) != 1 || len(o.Addresses) == 0 {
		return exit{exitUsage, errors.New("sites takes one scenario and -at (proxima sites -h)")}
	}
	if len(o.Here) == 0 {
		o.Here = o.Addresses
	}
	s, err := testbed.Load(name[0])
	if err != nil {
		return exit{exitUsage, err}
	}
	if *orders {
		o.Orders = os.Stdin
	}
	return testbed.Serve(ctx, s, o)
}

// addresses adds a flag of comma-separated IP addresses.
func addresses(flags *flag.FlagSet, list *[]netip.Addr, name, usage string) {
	flags.Func(name, usage, func(text string) error {
		for part := range strings.SplitSeq(text, ",") {
			a, err := netip.ParseAddr(part)
			if err != nil {
				return fmt.Errorf("%q is no address", part)
			}
			*list = append(*list, a)
		}
		return nil
	})
}
