//go:build !nolab

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"proxima/cmd/proxima/compare"
	"proxima/cmd/proxima/compare/report"
	"proxima/cmd/proxima/testbed"
	"proxima/cmd/proxima/testbed/emulate"
	"proxima/node"
)

const testbedUsage = `Usage: proxima testbed run SCENARIO [-out DIR] [-seed N] [-set KEY=VALUE ...] [-separate] [-keep]
                   [-portable] [-rtt FILE -cities FILE]
       proxima testbed sweep SCENARIO -set KEY=VALUE,VALUE ... [-seeds 1..5] [-out DIR] [-plot FILE]
       proxima testbed shell [-out DIR] NODE [COMMAND ...]
       proxima testbed list
Runs identical nodes on an emulated Internet on this machine. SCENARIO is one of the list, or a file.
`

func runTestbed(ctx context.Context, args []string, out, errs io.Writer) error {
	return runVerb(ctx, args, out, errs, testbedUsage, map[string]verb{"run": testbedRun, "sweep": testbedSweep, "shell": testbedShell, "list": testbedList})
}

func testbedList(_ context.Context, args []string, out, _ io.Writer) error {
	if err := parseAlone(newFlags("testbed list", out, testbedUsage, ""), args); err != nil {
		return err
	}
	all, err := testbed.List()
	if err != nil {
		return err
	}
	for _, s := range all {
		fmt.Fprintf(out, "  %-12s %s\n", s.Name, s.Description)
	}
	return nil
}

// testbedFlags are those of a run, or of the runs of a sweep.
type testbedFlags struct {
	testbed.Options
	portable bool
	settings []string
}

// one adds the flags of a single run, set those of several as well.
func (f *testbedFlags) one(flags *flag.FlagSet) {
	f.set(flags)
	seedFlag(flags, &f.Seed, "`number` that draws what the scenario leaves open; 0 takes the scenario's own")
	flags.BoolVar(&f.Keep, "keep", false, "keep the nodes running at the end, until Ctrl-C")
}

func (f *testbedFlags) set(flags *flag.FlagSet) {
	flags.StringVar(&f.Dir, "out", "", "`directory` of the logs and results, which must be empty or absent; a fresh one by default")
	flags.Func("set", "change a `key` of the scenario: length=3h, node.assign.vivaldi.theta=0.15; may be repeated", func(setting string) error {
		f.settings = append(f.settings, setting)
		return nil
	})
	flags.StringVar(&f.RTT, "rtt", "", "`file` of measured round trips in place of the scenario's, with -cities")
	flags.StringVar(&f.Cities, "cities", "", "`file` of their cities")
	flags.BoolVar(&f.portable, "portable", false, "use one process and the portable emulation, whatever the machine can do")
}

// seedFlag adds the flag of a seed that fits into the file of a scenario.
func seedFlag(flags *flag.FlagSet, seed *uint64, usage string) {
	flags.Func("seed", usage, func(text string) (err error) {
		*seed, err = readSeed(text)
		return err
	})
}

func readSeed(text string) (uint64, error) {
	seed, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number from 0 to %d", text, math.MaxInt64)
	}
	return seed, nil
}

func (f *testbedFlags) absolute() (err error) {
	for _, path := range []*string{&f.Dir, &f.RTT, &f.Cities} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return fmt.Errorf("make folder of the run: %w", err)
			}
		}
	}
	return nil
}

func runDemo(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("demo", out, "Usage: proxima demo [FLAGS]\nBuilds a small Internet on this machine, lets six nodes crawl it, and "+
		"compares four assigners. It takes two minutes.\n", "")
	var f testbedFlags
	f.one(flags.FlagSet)
	if err := parseAlone(flags, args); err != nil {
		return err
	}
	if err := runScenario(ctx, "demo", &f, out); err != nil {
		return err
	}
	r, err := compare.Read(ctx, []string{f.Dir}, compare.Options{})
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	r.Command = commandLine(append([]string{"demo"}, args...)...)
	fmt.Fprint(out, "\n", r.Text())
	path := filepath.Join(f.Dir, "report.html")
	if err := writePage(path, func(w io.Writer) error { return report.Write(w, r, node.Version()) }); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nlogs of every node: %s\nreport, for a browser: %s\n", f.Dir, path)
	return nil
}

func testbedRun(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("testbed run", out, testbedUsage, "")
	var f testbedFlags
	f.one(flags.FlagSet)
	flags.BoolVar(&f.Separate, "separate", false, "make one run for each assigner, instead of letting all decide the same batches")
	name, err := parseSome(flags, args, 1, 1, "testbed run takes one scenario (see proxima testbed list)")
	if err != nil {
		return err
	}
	if err := runScenario(ctx, name[0], &f, out); err != nil {
		return err
	}
	if !emulate.Inside() {
		fmt.Fprintf(out, "logs and results are in %s; compare them with proxima compare %[1]s\n", f.Dir)
	}
	return nil
}

// runScenario runs a scenario, in namespaces if it can: then the program starts itself again inside them. It creates a folder if none is
// named.
func runScenario(ctx context.Context, name string, f *testbedFlags, out io.Writer) error {
	if (f.RTT == "") != (f.Cities == "") {
		return exit{exitUsage, errors.New("-rtt and -cities need each other")}
	}
	s, err := testbed.LoadDrawable(name, f.Options, f.settings...)
	if err != nil {
		return exit{exitUsage, err}
	}
	if f.Dir == "" {
		if f.Dir, err = os.MkdirTemp(".", "proxima-"+s.Name+"-"); err != nil {
			return fmt.Errorf("make folder of the run: %w", err)
		}
		defer os.Remove(f.Dir) // if it is still empty
	}
	if err := f.absolute(); err != nil {
		return err
	}
	ready := emulate.Readiness{Emulation: emulate.Portable}
	switch {
	case emulate.Inside():
		ready.Emulation = "" // the best one that works here
	case f.portable:
	default:
		ready = emulate.Preflight(ctx)
		if err := ctx.Err(); err != nil { // what it tried was broken off
			return fmt.Errorf("try the namespaces: %w", err)
		}
		for _, m := range ready.Missing {
			fmt.Fprintln(out, "missing:", m)
		}
		if ready.Emulation != emulate.Portable {
			if err := s.Room(); err != nil {
				return exit{exitUsage, err}
			}
			return again(ctx, name, f)
		}
		fmt.Fprintln(out, "therefore all nodes run in this process over the portable emulation, without packets, the kernel's TCP, or loss")
	}
	f.Emulation, f.Command, f.Out = ready.Emulation, commandLine(os.Args[1:]...), out
	err = testbed.Run(ctx, s, f.Options)
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(out, "stopped; what was logged is in", f.Dir)
		return exit{code: exitStopped}
	}
	return err
}

// line is the command line of a run with these flags. The folder of the run records it, so it must not hold empty words.
func (f *testbedFlags) line(name string) []string {
	args := []string{"testbed", "run", name, "-out=" + f.Dir, "-seed=" + strconv.FormatUint(f.Seed, 10), "-rtt=" + f.RTT, "-cities=" + f.Cities,
		"-separate=" + strconv.FormatBool(f.Separate), "-keep=" + strconv.FormatBool(f.Keep)}
	for _, s := range f.settings {
		args = append(args, "-set="+s)
	}
	return args
}

// again starts this program inside new namespaces.
func again(ctx context.Context, name string, f *testbedFlags) error {
	code, err := emulate.Reexec(ctx, f.line(name)...)
	switch {
	case err != nil:
		return fmt.Errorf("start the testbed: %w", err)
	case code != exitOK && ctx.Err() != nil: // it may not have begun to listen to signals
		return exit{code: exitStopped}
	case code != exitOK:
		return exit{code: code}
	}
	return nil
}

func testbedShell(_ context.Context, args []string, out, _ io.Writer) error {
	flags := newFlags("testbed shell", out, testbedUsage, "")
	dir := flags.String("out", ".", "`directory` of the run")
	if err := parseFirst(flags, args); err != nil { // the command behind the node has its own flags
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
		argv = append(argv, cmp.Or(os.Getenv("SHELL"), "/bin/sh"))
	}
	// It takes this program's place, and with it the terminal's signals: Ctrl-C is for what runs there.
	path, err := exec.LookPath(argv[0])
	if err == nil {
		err = syscall.Exec(path, argv, os.Environ())
	}
	return fmt.Errorf("start %s: %w", strings.Join(argv, " "), err)
}
