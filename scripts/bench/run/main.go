// Command run compares crawlers. It starts the server of ../origin and lets each crawler crawl the same sites, one after the other, in
// several rounds. It prints tables of pages per second, pages per CPU second, peak memory and conduct.
//
// process.go measures, report.go prints the tables, and crawlers.go starts the crawlers, one of which only downloads.
// ../rivals/install.sh installs them.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"proxima/scripts/bench/origin/client"
	"proxima/scripts/lab"
)

type options struct {
	scenario Scenario
	rounds   int
	only     []string
	out      string
	bench    string
	profile  string
	ceiling  string
	limit    time.Duration
}

func main() {
	opt, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	lab.Main("run", 0, func(ctx context.Context) (bool, error) {
		switch {
		case err != nil:
			return false, err
		case opt.ceiling != "":
			return true, ceiling(opt.ceiling, opt.scenario.Concurrency)
		}
		return true, run(ctx, opt)
	})
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	single := fs.Bool("single", false, "one site of 4000 pages, concurrency 16")
	small := fs.Bool("small", false, "8 sites of 25 pages, concurrency 16, one round: for CI")
	only := fs.String("only", "", "names of the crawlers to run, separated by commas; all if empty")
	fs.IntVar(&o.rounds, "rounds", 3, "rounds: each crawler runs once in each")
	fs.IntVar(&o.scenario.Pages, "pages", 400, "pages a site")
	fs.IntVar(&o.scenario.Addresses, "addresses", 64, "sites, each at its own loopback address")
	fs.IntVar(&o.scenario.Concurrency, "concurrency", 64, "requests in parallel, over all sites")
	fs.IntVar(&o.scenario.Port, "port", 8080, "port of the sites; the port below it serves the counts")
	fs.Uint64Var(&o.scenario.Seed, "seed", 1, "seed of the generated sites")
	fs.StringVar(&o.scenario.ServerCPUs, "server-cpus", "0", "cores of the server, as taskset names them")
	fs.StringVar(&o.scenario.CrawlerCPUs, "crawler-cpus", "1", "cores of the crawler, as taskset names them")
	fs.StringVar(&o.out, "out", "", "file for the figures of every run as JSON; the tables go to the same name with .md added")
	fs.StringVar(&o.profile, "profile", "", "file for a profile of Proxima's processor time, of the last round")
	fs.StringVar(&o.ceiling, "ceiling", "", "for the process of the ceiling: the `file` of its URLs")
	fs.StringVar(&o.bench, "bench", ".", "the folder scripts/bench")
	fs.DurationVar(&o.limit, "limit", 10*time.Minute, "time limit of one run; a crawler that takes longer is stopped, and the report has its figures so far")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if *single {
		pages := "4000"
		if *small {
			pages = "200"
		}
		lab.Preset(fs, map[string]string{"addresses": "1", "pages": pages, "concurrency": "16"})
	}
	if *small {
		lab.Preset(fs, map[string]string{"addresses": "8", "pages": "25", "concurrency": "16", "rounds": "1"})
	}
	if *only != "" {
		o.only = strings.Split(*only, ",")
	}
	if runtime.NumCPU() < 2 {
		// Server and crawler share the only core. The report says so.
		o.scenario.ServerCPUs, o.scenario.CrawlerCPUs = "", ""
	}
	if o.rounds < 1 || o.rounds > 100 {
		return o, fmt.Errorf("rounds: %d is not between 1 and 100", o.rounds)
	}
	bench, err := filepath.Abs(o.bench)
	if err != nil {
		return o, fmt.Errorf("bench: %w", err)
	}
	o.bench = bench
	return o, o.scenario.Validate()
}

// run compares the crawlers that are installed.
func run(ctx context.Context, o options) error {
	report := Report{
		Version: 1, Scenario: o.scenario, Rounds: o.rounds, Cores: runtime.NumCPU(), Go: runtime.Version(),
		Versions: map[string]string{}, Skipped: map[string]string{},
	}
	temp, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(temp)
	files := Files{Bench: o.bench, Seeds: filepath.Join(temp, "seeds.txt"), URLs: filepath.Join(temp, "urls.txt"), Profile: o.profile}
	present, err := choose(ctx, o.only, files, &report)
	if err != nil {
		return err
	}
	var before []string
	if o.scenario.ServerCPUs != "" {
		before = []string{"taskset", "-c", o.scenario.ServerCPUs}
	}
	origin, err := client.Start(ctx, files.bin("bench-origin"), o.scenario.Config, before...)
	if err != nil {
		return err
	}
	defer origin.Stop()
	urls, err := origin.URLs(ctx)
	if err != nil {
		return err
	}
	seeds := []byte(strings.Join(o.scenario.Seeds(), "\n") + "\n")
	if err := errors.Join(os.WriteFile(files.Seeds, seeds, 0o644), os.WriteFile(files.URLs, urls, 0o644)); err != nil {
		return fmt.Errorf("write URLs: %w", err)
	}
	for round := range o.rounds {
		for i := range present {
			// Rotate the order in each round, so that no crawler always runs after the same one.
			c := present[(i+round)%len(present)]
			files.Temp = filepath.Join(temp, fmt.Sprintf("%s-%d", c.Name, round))
			one, err := crawl(ctx, c, round, o, files, origin)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, c.Name, err)
			}
			report.Runs = append(report.Runs, one)
			fmt.Fprintf(os.Stderr, "round %d of %d: %s %.0f pages/s, %.0f pages/CPU s, %d of %d pages\n",
				round+1, o.rounds, c.Name, one.rate(), one.perCPU(), one.Stats.Distinct, one.Stats.Total)
			if one.Usage.Exit != 0 || one.Stats.Distinct < int64(one.Stats.Total) {
				fmt.Fprintf(os.Stderr, "  exit %d, timed out %t, last output: %s\n", one.Usage.Exit, one.Usage.TimedOut, cmp.Or(one.Usage.Stderr, "none"))
			}
		}
	}
	return write(report, o.out, os.Stdout)
}

// choose returns the requested crawlers that are installed. It prints which are missing.
func choose(ctx context.Context, only []string, f Files, report *Report) ([]Crawler, error) {
	var present []Crawler
	var known []string
	for _, c := range crawlers(f) {
		known = append(known, c.Name)
		if len(only) > 0 && !slices.Contains(only, c.Name) {
			continue
		}
		version, err := c.Version(ctx)
		if err != nil {
			report.Skipped[c.Name] = "not installed"
			fmt.Fprintf(os.Stderr, "SKIPPED: %s: %v\n", c.Name, err)
			continue
		}
		report.Versions[c.Name] = version
		present = append(present, c)
	}
	for _, name := range only {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("only: %q is not one of %s", name, strings.Join(known, ", "))
		}
	}
	if len(present) == 0 {
		return nil, errors.New("no crawler is installed: run rivals/install.sh")
	}
	return present, nil
}

func crawl(ctx context.Context, c Crawler, round int, o options, f Files, origin *client.Origin) (Run, error) {
	if err := os.MkdirAll(f.Temp, 0o755); err != nil {
		return Run{}, fmt.Errorf("make folder: %w", err)
	}
	defer os.RemoveAll(f.Temp)
	argv, err := c.Command(o.scenario, f)
	if err != nil {
		return Run{}, err
	}
	if err := origin.Reset(ctx); err != nil {
		return Run{}, err
	}
	usage, err := measure(ctx, argv, f.Temp, o.scenario.CrawlerCPUs, o.limit)
	if err != nil {
		return Run{}, err
	}
	stats, err := origin.Stats(ctx)
	if err != nil {
		return Run{}, err
	}
	if ctx.Err() != nil {
		return Run{}, ctx.Err()
	}
	return Run{Crawler: c.Name, Round: round, Stats: stats, Usage: usage, ServerCPU: stats.CPU}, nil
}

// write prints the tables. If a file is named, it also writes figures and tables to files.
func write(r Report, file string, w io.Writer) error {
	tables := r.Markdown()
	if _, err := io.WriteString(w, tables); err != nil {
		return fmt.Errorf("print tables: %w", err)
	}
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", " ")
	err = errors.Join(err, os.WriteFile(file, append(text, '\n'), 0o644), os.WriteFile(file+".md", []byte(tables), 0o644))
	if err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}
