//go:build !nolab

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"proxima/cmd/proxima/fleet"
	"proxima/cmd/proxima/testbed"
)

// labVerbs are the verbs of fleet that need the testbed.
func labVerbs() map[string]verb { return map[string]verb{"run": fleetRun, tendVerb: fleetTend} }

const fleetRunUsage = `Usage: proxima fleet run SCENARIO -hosts FILE (-sites FILE | -seeds FILE) -out DIR [FLAGS]
Runs each assigner of a scenario in turn on equal sets of machines, over ssh, and collects logs and packages. The same command again goes on where it stopped. FILE has a line [USER@]HOST[:PORT] [ADDRESS ...] for each machine.
`

func fleetRun(ctx context.Context, args []string, out, _ io.Writer) error {
	flags := newFleetFlags("run", out, fleetRunUsage, "proxima-fleet", 200)
	o := testbed.FleetOptions{Out: out, Command: commandLine(append([]string{"fleet", "run"}, args...)...)}
	var sites, seeds string
	flags.StringVar(&sites, "sites", "", "`file` that lists machines for the scenario's sites, each with the addresses of its servers")
	flags.StringVar(&seeds, "seeds", "", "`file` of seeds in the real web, in place of -sites")
	flags.StringVar(&o.Dir, "out", "", "`directory` of all runs; finished ones are not run again")
	flags.IntVar(&o.Sets, "sets", 1, "`number` of equal sets of hosts that run the scenario side by side")
	seedFlag(flags.FlagSet, &o.Seed, "`number` that draws what the scenario leaves open; 0 takes the scenario's own")
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
	return testbed.Tend(ctx, seed, os.Stdin, out)
}
