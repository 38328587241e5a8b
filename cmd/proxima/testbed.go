//go:build !nolab

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"proxima/cmd/proxima/testbed"
	"proxima/cmd/proxima/testbed/emulate"
)

const testbedUsage = `Usage: proxima testbed run SCENARIO [-out DIR] [-seed N] [-set KEY=VALUE ...] [-separate] [-keep] [-portable]
                   [-rtt FILE -cities FILE]
       proxima testbed sweep SCENARIO -set KEY=VALUE,VALUE ... [-seeds 1..5] [-out DIR] [-plot FILE]
       proxima testbed shell [-out DIR] NODE [COMMAND ...]
       proxima testbed list
Runs identical nodes on an emulated Internet on this machine. SCENARIO is one of the list, or a file.
`

func runTestbed(ctx context.Context, args []string, out, errs io.Writer) error {
	verb := ""
	if len(args) > 0 {
		verb, args = args[0], args[1:]
	}
	switch verb {
	case "run":
		return testbedRun(ctx, args, out, errs)
	case "sweep":
		return testbedSweep(ctx, args, out)
	case "shell":
		return testbedShell(ctx, args, out, errs)
	case "list":
		return testbedList(out)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(out, testbedUsage)
		return nil
	}
	if verb == "" {
		fmt.Fprint(errs, testbedUsage)
		return exit{code: exitUsage}
	}
	return exit{exitUsage, fmt.Errorf("testbed: there is no command %q, but run, sweep, shell and list (proxima testbed -h)", verb)}
}

func testbedList(out io.Writer) error {
	all, err := testbed.List()
	if err != nil {
		return err
	}
	for _, s := range all {
		fmt.Fprintf(out, "  %-12s %s\n", s.Name, s.Description)
	}
	return nil
}

// testbedFlags are those of a run.
type testbedFlags struct {
	dir, rtt, cities         string
	seed                     uint64
	separate, keep, portable bool
	settings                 list
}

// list is a flag that may stand there several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func (f *testbedFlags) set(flags *flag.FlagSet) {
	flags.StringVar(&f.dir, "out", "", "`directory` of the logs and results, which must be empty or absent; a fresh one by default")
	flags.Uint64Var(&f.seed, "seed", 0, "draws what the scenario leaves open; 0 is the scenario's own `number`")
	flags.Var(&f.settings, "set", "change a `key` of the scenario: length=3h, node.assign.vivaldi.theta=0.15; may be repeated")
	flags.StringVar(&f.rtt, "rtt", "", "`file` of measured round trips, with -cities, in place of the scenario's matrix")
	flags.StringVar(&f.cities, "cities", "", "`file` of their cities")
	flags.BoolVar(&f.keep, "keep", false, "leave the nodes up at the end, until Ctrl-C")
	flags.BoolVar(&f.portable, "portable", false, "one process over the portable emulation, whatever the machine can do")
}

func testbedRun(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("testbed run", out, testbedUsage, "")
	var f testbedFlags
	f.set(flags.FlagSet)
	flags.BoolVar(&f.separate, "separate", false, "one run for each assigner, instead of all deciding the same batches")
	name, err := parse(flags, args)
	if err != nil {
		return err
	}
	if len(name) != 1 {
		return exit{exitUsage, errors.New("testbed run takes one scenario (see proxima testbed list)")}
	}
	if err := runScenario(ctx, name[0], &f, out); err != nil {
		return err
	}
	if !emulate.Inside() {
		fmt.Fprintf(out, "logs and results are in %s; proxima compare %s shows what came of it\n", f.dir, f.dir)
	}
	return nil
}

// runScenario runs a scenario in namespaces, for which the program starts itself again inside, or in this process where they are
// not to be had. It makes the folder if none is named.
func runScenario(ctx context.Context, name string, f *testbedFlags, out io.Writer) error {
	s, err := testbed.Load(name, f.settings...)
	if err != nil {
		return exit{exitUsage, err}
	}
	if f.dir == "" {
		if f.dir, err = os.MkdirTemp(".", "proxima-"+s.Name+"-"); err != nil {
			return fmt.Errorf("make folder of the run: %w", err)
		}
	}
	for _, path := range []*string{&f.dir, &f.rtt, &f.cities} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("make folder of the run: %w", err)
		}
	}
	ready := emulate.Readiness{Emulation: emulate.Portable}
	switch {
	case emulate.Inside():
		ready.Emulation = "" // the best that there is
	case f.portable:
	default:
		ready = emulate.Preflight(ctx)
		for _, m := range ready.Missing {
			fmt.Fprintln(out, "missing:", m)
		}
		if ready.Emulation != emulate.Portable {
			return again(ctx, name, f)
		}
		fmt.Fprintln(out, "so all nodes run in this process, over the portable emulation: no packets, no kernel's TCP, no loss")
	}
	err = testbed.Run(ctx, s, testbed.Options{Dir: f.dir, Seed: f.seed, RTT: f.rtt, Cities: f.cities, Separate: f.separate, Keep: f.keep,
		Emulation: ready.Emulation, Command: strings.Join(append([]string{"proxima"}, os.Args[1:]...), " "), Out: out})
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(out, "stopped; what was logged is in", f.dir)
		return exit{code: exitStopped}
	}
	return err
}

// again starts this program inside new namespaces.
func again(ctx context.Context, name string, f *testbedFlags) error {
	defer testbed.Remember(f.dir)()
	args := []string{"testbed", "run", name, "-out", f.dir, "-seed", strconv.FormatUint(f.seed, 10), "-rtt", f.rtt, "-cities", f.cities,
		"-separate=" + strconv.FormatBool(f.separate), "-keep=" + strconv.FormatBool(f.keep)}
	for _, s := range f.settings {
		args = append(args, "-set", s)
	}
	code, err := emulate.Reexec(ctx, args...)
	switch {
	case err != nil:
		return fmt.Errorf("start the testbed: %w", err)
	case code != exitOK:
		return exit{code: code}
	}
	return nil
}

func testbedShell(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("testbed shell", out, testbedUsage, "")
	dir := flags.String("out", "", "`directory` of the run; the one that was started last by default")
	if err := parseFirst(flags, args); err != nil { // what follows the node has flags of its own
		return err
	}
	if flags.NArg() == 0 {
		return exit{exitUsage, errors.New("testbed shell takes the name of a node")}
	}
	argv, err := testbed.Shell(*dir, flags.Arg(0))
	if err != nil {
		return err
	}
	if flags.NArg() > 1 {
		argv = append(argv, flags.Args()[1:]...)
	} else {
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		argv = append(argv, shell)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, errs
	err = cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return exit{code: ended.ExitCode()}
	} else if err != nil {
		return fmt.Errorf("start %s: %w", strings.Join(argv, " "), err)
	}
	return nil
}
