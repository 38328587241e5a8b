//go:build !nolab

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"proxima/cmd/proxima/curves"
	"proxima/cmd/proxima/simulate"
	"proxima/cmd/proxima/world"
)

// printer is a result for people. Programs get it as JSON.
type printer interface{ Print(out io.Writer) error }

func runSimulate(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("simulate", out, "Usage: proxima simulate [FLAGS]\n"+
		"Lets assigners decide in worlds without a network, drawn by seed, and compares their choices with the truth.\n",
		"Example: proxima simulate -sweep estimates=1,2,4,8,16 -assigners nearest,best -plot sweep.svg\n")
	cfg := simulate.Default()
	cities := flags.String("cities", "", "`file` of cities (CSV: id, city, country, latitude, longitude)")
	rtt := flags.String("rtt", "", "`file` of round trips (CSV: source, destination, avg_ms; or square matrices), may be gzipped; "+
		"without it they are synthetic")
	unit := flags.String("rtt-unit", "ms", "`unit` of square matrices: ms or s")
	cfg.Flags(flags.FlagSet)
	flags.BoolVar(&cfg.Prefixed, "prefixed", cfg.Prefixed, "give servers that stand together addresses in one prefix")
	flags.Func("delegations", "`file` of address blocks by country for -prefixed (JSON), may be gzipped; without it they are invented",
		func(path string) (err error) {
			cfg.Delegations, err = simulate.ReadDelegations(path)
			return err
		})
	flags.Func("assigners", "comma-separated `names` in place of "+strings.Join(cfg.Assigners, ", ")+"; direct-k takes any k", func(names string) error {
		cfg.Assigners = strings.Split(names, ",")
		return nil
	})
	var sweep *simulate.Sweep
	flags.Func("sweep", "`name=value,value`: one run for each value of a numeric flag or of a key of the assigners", func(text string) (err error) {
		sweep, err = simulate.ParseSweep(text)
		return err
	})
	flags.Func("set", "`key=value` of the assigners' configuration, such as nearest.balance=0.1; may be repeated", func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("%q does not have the form key=value", text)
		}
		return cfg.Set(key, value)
	})
	plot := flags.String("plot", "", "`file` for a plot of the sweep (.svg, .png or .pdf)")
	goals := flags.Bool("goals", false, "measure nearest against its goals")
	papers := flags.Bool("papers", false, "repeat the experiments of the literature")
	ablation := flags.Bool("ablation", false, "measure nearest without each of its ingredients")
	data := flags.String("data", "data", "`folder` that scripts/data.sh has filled, for -goals and -ablation")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := parseAlone(flags, args); err != nil {
		return err
	}
	var noisy []*world.Matrix
	var err error
	ofPapers := []string{"sweep", "nodes", "servers", "pages", "homes", "estimates", "noise", "assigners", "prefixed"}
	switch {
	case *plot != "" && sweep == nil:
		err = errors.New("-plot draws a -sweep, and none is given")
	case (*goals || *ablation) && (sweep != nil || *cities != "" || *rtt != ""):
		err = errors.New("-goals and -ablation have their own settings: use them without -sweep, -cities and -rtt")
	case *papers && slices.ContainsFunc(ofPapers, func(name string) bool { return given(flags.FlagSet, name) }):
		err = fmt.Errorf("-papers has settings of its own: use it without -%s", strings.Join(ofPapers, ", -"))
	case *goals && *ablation || *papers && (*goals || *ablation):
		err = errors.New("-goals, -ablation and -papers are three measurements: choose one")
	case *goals || *ablation:
		cfg.Matrices, noisy, err = measured(*data)
	default:
		cfg.Matrices, err = matrices(*cities, *rtt, *unit)
	}
	if err == nil {
		err = errors.Join(cfg.Validate(), curves.Check(*plot))
	}
	if err == nil && sweep != nil {
		_, err = sweep.Configs(cfg)
	}
	if err != nil {
		return exit{exitUsage, err}
	}
	var result printer
	switch {
	case *ablation:
		result, err = simulate.Ablate(ctx, cfg, noisy)
	case *goals:
		result, err = simulate.MeasureGoals(ctx, cfg, noisy, func(row simulate.Goal) {
			if !*asJSON { // goals take minutes, so print each one immediately
				row.Print(out)
			}
		})
	case *papers:
		result, err = simulate.MeasurePapers(ctx, cfg)
	case sweep != nil:
		result, err = sweep, sweep.Run(ctx, cfg)
	default:
		result, err = simulate.Run(ctx, cfg)
	}
	if err != nil {
		return err
	}
	// Print first, so that a plot that cannot be written loses no figures.
	if *asJSON {
		err = writeJSON(out, result)
	} else {
		err = result.Print(out)
	}
	if *plot != "" {
		err = errors.Join(err, writePage(*plot, func(w io.Writer) error { return sweep.Plot().Write(w, *plot) }))
	}
	return err
}

// matrices reads round trips from files. Without a name there are none.
func matrices(cities, rtt, unit string) ([]*world.Matrix, error) {
	d, ok := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second}[unit]
	switch {
	case !ok:
		return nil, fmt.Errorf("-rtt-unit %q is neither ms nor s", unit)
	case rtt == "" && cities == "":
		return nil, nil
	case rtt == "":
		return nil, errors.New("-cities needs -rtt")
	}
	return world.Read(cities, rtt, d)
}

// measured reads what scripts/data.sh has fetched: round trips between cities, and noisy ones.
func measured(folder string) (cities, noisy []*world.Matrix, err error) {
	noisy, err = world.Read("", filepath.Join(folder, "seattle", "first200.txt.gz"), time.Second)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w (scripts/data.sh fetches these files; -data names their folder)", err)
	}
	if err != nil {
		return nil, nil, err
	}
	folder = filepath.Join(folder, "wondernetwork")
	cities, err = world.Read(filepath.Join(folder, "cities.csv"), filepath.Join(folder, "rtt.csv.gz"), 0)
	return cities, noisy, err
}
