//go:build !nolab

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"proxima/cmd/proxima/compare"
	"proxima/cmd/proxima/curves"
	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/testbed"
)

// testbedSweep runs a scenario once for each value of a parameter and each seed, and compares the values. It does not repeat runs, so a
// sweep that was stopped goes on.
func testbedSweep(ctx context.Context, args []string, out, _ io.Writer) error {
	flags := newFlags("testbed sweep", out, testbedUsage, "")
	var f testbedFlags
	f.set(flags.FlagSet)
	seeds := flags.String("seeds", "1..1", "`first..last` seed")
	plot := flags.String("plot", "", "`file` (.svg, .png or .pdf) for a plot of the choice ratios")
	name, err := parse(flags, args)
	if err != nil {
		return err
	}
	s, err := newSweep(name, &f, *seeds, *plot)
	if err != nil {
		return exit{exitUsage, err}
	}
	if f.Dir == "" {
		defer os.Remove(s.dir) // if it is still empty
	}
	if err := s.run(&f, out, func(one *testbedFlags) error { return runScenario(ctx, name[0], one, out) }); err != nil {
		return err
	}
	return s.show(ctx, *plot, out)
}

// run makes the runs that are not there yet.
func (s *sweep) run(f *testbedFlags, out io.Writer, run func(one *testbedFlags) error) error {
	release, err := rundir.Claim(s.dir)
	if err != nil {
		return err
	}
	defer release()
	var todo []testbedFlags
	for _, value := range s.values {
		for seed := s.first; seed <= s.last; seed++ {
			one := *f
			one.Dir, one.Seed = filepath.Join(s.folder(value), strconv.FormatUint(seed, 10)), seed
			one.settings = append(slices.Clone(s.fixed), s.key+"="+value)
			if _, err := os.Stat(one.Dir); err != nil {
				todo = append(todo, one)
				continue
			}
			if err := s.check(one); err != nil {
				return err
			}
			fmt.Fprintln(out, one.Dir, "is finished")
		}
	}
	for _, one := range todo {
		dir := one.Dir
		one.Dir = filepath.Join(s.dir, "unfinished")
		if err := rundir.Whole(one.Dir, dir, func() error { return run(&one) }); err != nil {
			return err
		}
	}
	return nil
}

// check fails if a finished run is not the one that some flags ask for.
func (s *sweep) check(f testbedFlags) error {
	dir := f.Dir
	if err := f.absolute(); err != nil {
		return err
	}
	wanted, err := testbed.Load(s.scenario, f.settings...)
	if err != nil {
		return err
	}
	for _, part := range testbed.Parts(wanted, f.Options) {
		if made, err := os.ReadFile(filepath.Join(part.Dir, rundir.ScenarioFile)); err != nil || string(made) != part.Scenario.Text() {
			return fmt.Errorf("%s is a run of another scenario or with other settings: use another -out, or delete it", dir)
		}
	}
	return nil
}

// sweep is a parameter with its values.
type sweep struct {
	dir, scenario, key string
	values, fixed      []string
	first, last        uint64
}

// newSweep reads what to vary, and checks all values before the first run.
func newSweep(name []string, f *testbedFlags, seeds, plot string) (*sweep, error) {
	if len(name) != 1 || len(f.settings) == 0 {
		return nil, errors.New("testbed sweep takes one scenario and -set KEY=VALUE,VALUE")
	}
	s := &sweep{dir: f.Dir, scenario: name[0]}
	for _, setting := range f.settings {
		key, values, _ := strings.Cut(setting, "=")
		_, several := toml.Decode("v = "+values, &map[string]any{}) // a list in brackets is one value
		switch {
		case several == nil || !strings.Contains(values, ","):
			s.fixed = append(s.fixed, setting)
		case s.key != "":
			return nil, fmt.Errorf("sweep: %s and %s have several values: only one key can be varied", s.key, key)
		default:
			s.key, s.values = key, strings.Split(values, ",")
		}
	}
	if s.key == "" {
		return nil, errors.New("sweep: no -set has several values, separated by commas")
	}
	var err error
	from, to, _ := strings.Cut(seeds, "..")
	if s.first, err = readSeed(from); err == nil {
		s.last, err = readSeed(cmp.Or(to, from))
	}
	if err != nil || s.first == 0 || s.last < s.first {
		return nil, fmt.Errorf("sweep: seeds %q do not have the form 1..5", seeds)
	}
	if err := curves.Check(plot); err != nil {
		return nil, err
	}
	folders := map[string]bool{}
	for _, v := range s.values {
		if folders[s.folder(v)] {
			return nil, fmt.Errorf("sweep: two values of %s have the folder %s", s.key, s.folder(v))
		}
		folders[s.folder(v)] = true
		if _, err := testbed.Load(s.scenario, append(slices.Clone(s.fixed), s.key+"="+v)...); err != nil {
			return nil, err
		}
	}
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp(".", "proxima-sweep-"); err != nil {
			return nil, fmt.Errorf("make folder of the sweep: %w", err)
		}
	}
	return s, nil
}

// folder returns the folder with the runs of a value.
func (s *sweep) folder(value string) string {
	return filepath.Join(s.dir, s.key[strings.LastIndexByte(s.key, '.')+1:]+"="+strings.ReplaceAll(value, "/", "-"))
}

// show compares all runs by their configurations, then draws each assigner over the values.
func (s *sweep) show(ctx context.Context, plot string, out io.Writer) error {
	all, err := compare.Read(ctx, []string{s.dir}, compare.Options{By: compare.ByConfig})
	if err != nil {
		return err
	}
	fmt.Fprint(out, all.Text())
	p := curves.Plot{Title: s.scenario + " by " + s.key, X: s.key, Y: "choice ratio (1 is perfect): of all seeds together, least and most of one",
		Values: s.values}
	var results []*compare.Result
	for _, v := range s.values {
		r, err := compare.Read(ctx, []string{s.folder(v)}, compare.Options{})
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	for _, first := range results[0].Assigners {
		c := curves.Curve{Name: first.Name}
		for _, r := range results {
			for _, a := range r.Assigners {
				if a.Name == c.Name && a.ChoiceRatio != nil {
					c.Points = append(c.Points, span(a))
				}
			}
		}
		if len(c.Points) == len(s.values) { // an assigner needs a ratio at every value to have a line
			p.Curves = append(p.Curves, c)
		}
	}
	if plot == "" {
		return nil
	}
	return writePage(plot, func(w io.Writer) error { return p.Write(w, plot) })
}

// span returns a choice ratio with its minimum and maximum over the seeds.
func span(a compare.Assigner) curves.Span {
	s := curves.Span{Low: *a.ChoiceRatio, Mid: *a.ChoiceRatio, High: *a.ChoiceRatio}
	for _, seed := range a.Seeds {
		if seed.Choice != nil {
			s.Low, s.High = min(s.Low, *seed.Choice), max(s.High, *seed.Choice)
		}
	}
	return s
}
