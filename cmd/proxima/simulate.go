//go:build !nolab

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"proxima/cmd/proxima/curves"
	"proxima/cmd/proxima/simulate"
	"proxima/cmd/proxima/world"
)

func runSimulate(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := newFlags("simulate", out, "Usage: proxima simulate [FLAGS]\n"+
		"Lets assigners decide in worlds without a network, drawn by seed, and judges their choices by the truth.\n",
		"Example: proxima simulate -cities cities.csv -rtt rtt.csv.gz -sweep estimates=1,2,4,8,16 -assigners nearest,best -plot sweep.svg\n")
	cfg := simulate.Default()
	cities := flags.String("cities", "", "`file` of cities (CSV: id, city, country, latitude, longitude)")
	rtt := flags.String("rtt", "", "`file` of round trips, gzip or not (CSV: source, destination, avg_ms; or square matrices); "+
		"without it they are synthetic")
	unit := flags.String("rtt-unit", "ms", "`unit` of square matrices: ms or s")
	flags.IntVar(&cfg.Nodes, "nodes", cfg.Nodes, "`number` of nodes")
	flags.IntVar(&cfg.Servers, "servers", cfg.Servers, "`number` of servers")
	flags.IntVar(&cfg.Seeds, "seeds", cfg.Seeds, "`number` of worlds")
	flags.Uint64Var(&cfg.First, "first-seed", cfg.First, "`seed` of the first world; the others follow")
	flags.IntVar(&cfg.Homes, "homes", cfg.Homes, "`number` of nodes that decide, each about its share; 0 for all")
	flags.IntVar(&cfg.Estimates, "estimates", cfg.Estimates, "hard budget of estimates a server, a `number`; -1 for each assigner's own")
	flags.Float64Var(&cfg.LocationWrong, "location-wrong", cfg.LocationWrong, "`share` of servers whose location is another city's, 0 to 1")
	flags.Float64Var(&cfg.LocationMissing, "location-missing", cfg.LocationMissing, "`share` of servers and nodes without a location, 0 to 1")
	flags.BoolVar(&cfg.Prefixed, "prefixed", cfg.Prefixed, "servers stand together in prefixes, mostly")
	flags.Func("delegations", "`file` of address blocks by country (JSON, gzip or not), for -prefixed; without it they are invented", func(path string) (err error) {
		cfg.Delegations, err = simulate.ReadDelegations(path)
		return err
	})
	flags.Float64Var(&cfg.Noise, "noise", cfg.Noise, "`factor` of all noise; 1 is the default world's")
	flags.IntVar(&cfg.Pages, "pages", cfg.Pages, "`number` of pages of each server")
	assigners := flags.String("assigners", strings.Join(cfg.Assigners, ","), "comma-separated `names`; direct-k takes any k")
	var sweep *simulate.Sweep
	parseSweep := func(text string) (err error) {
		sweep, err = simulate.ParseSweep(text)
		return err
	}
	flags.Func("sweep", "`name=value,value`: a run for each value of a number among the flags or of a key of the assigners", parseSweep)
	flags.Func("set", "`key=value` of the assigners' configuration, such as nearest.balance=0.1; may be repeated", func(text string) error {
		key, value, _ := strings.Cut(text, "=")
		return cfg.Set(key, value)
	})
	plot := flags.String("plot", "", "`file` for a drawing of the sweep (.svg, .png, .pdf)")
	goals := flags.Bool("goals", false, "measure nearest against its goals")
	papers := flags.Bool("papers", false, "repeat the experiments of the literature")
	ablation := flags.Bool("ablation", false, "measure nearest with each of its ingredients left out")
	data := flags.String("data", "data", "`folder` that scripts/data.sh filled, for -goals and -ablation")
	asJSON := flags.Bool("json", false, "print JSON")
	if err := parseAlone(flags, args); err != nil {
		return err
	}
	usage := func(err error) error { return exit{exitUsage, err} }
	switch {
	case *plot != "" && sweep == nil:
		return usage(errors.New("-plot draws a -sweep, and there is none"))
	case (*goals || *ablation) && (sweep != nil || *cities != "" || *rtt != "") || *goals && *ablation:
		return usage(errors.New("-goals and -ablation have settings of their own: give them without -sweep, -cities, -rtt and each other"))
	}
	cfg.Assigners = strings.Split(*assigners, ",")
	var err error
	if cfg.Matrices, err = matrices(*cities, *rtt, *unit); err != nil {
		return usage(err)
	}
	if err := cfg.Validate(); err != nil {
		return usage(err)
	}
	if *goals || *ablation {
		noisy, err := world.Read("", filepath.Join(*data, "seattle", "first200.txt.gz"), time.Second)
		if errors.Is(err, fs.ErrNotExist) {
			return usage(fmt.Errorf("%w (scripts/data.sh fetches what was measured; -data names its folder)", err))
		}
		if err != nil {
			return usage(err)
		}
		folder := filepath.Join(*data, "wondernetwork")
		if cfg.Matrices, err = world.Read(filepath.Join(folder, "cities.csv"), filepath.Join(folder, "rtt.csv.gz"), 0); err != nil {
			return usage(err)
		}
		if *ablation {
			return show(simulate.Ablate(ctx, cfg, noisy))(out, *asJSON)
		}
		return measureGoals(ctx, cfg, noisy, out, *asJSON)
	}
	if *papers {
		return show(simulate.MeasurePapers(ctx, cfg))(out, *asJSON)
	}
	if sweep != nil {
		if err := sweep.Check(cfg); err != nil {
			return usage(err)
		}
		if *plot != "" {
			if err := curves.Check(*plot); err != nil {
				return usage(err)
			}
		}
		if err := sweep.Run(ctx, cfg); err != nil {
			return err
		}
		// The figures first: they are not lost where the drawing cannot be written.
		err := show(sweep, nil)(out, *asJSON)
		if *plot != "" {
			err = errors.Join(err, sweep.Plot(*plot))
		}
		return err
	}
	return show(simulate.Run(ctx, cfg))(out, *asJSON)
}

// printer is what people and programs read.
type printer interface{ Print(out io.Writer) error }

// show prints a result, unless there was an error instead.
func show[P printer](result P, err error) func(out io.Writer, asJSON bool) error {
	return func(out io.Writer, asJSON bool) error {
		switch {
		case err != nil:
			return err
		case asJSON:
			return writeJSON(out, result)
		}
		return result.Print(out)
	}
}

// measureGoals prints each row when it has been measured: all of them take minutes.
func measureGoals(ctx context.Context, cfg simulate.Config, noisy []*world.Matrix, out io.Writer, asJSON bool) error {
	g, err := simulate.MeasureGoals(ctx, cfg, noisy, func(row simulate.Goal) {
		if !asJSON {
			row.Print(out)
		}
	})
	switch {
	case err != nil:
		return err
	case asJSON:
		return writeJSON(out, g)
	}
	return g.Print(out)
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// matrices reads the files of a world; none without a name.
func matrices(cities, rtt, unit string) ([]*world.Matrix, error) {
	units := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second}
	d, ok := units[unit]
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
