package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxima/scripts/bench/origin/client"
	"proxima/scripts/lab"
)

func aRun(name string, round int, seconds, cpu float64, distinct int64) Run {
	return Run{
		Crawler: name, Round: round,
		Stats: client.Stats{Total: 100, Distinct: distinct, Pages: distinct, Seconds: seconds},
		Usage: Usage{CPU: time.Duration(cpu * float64(time.Second)), PeakRSS: 10 << 20},
	}
}

// The machine was twice as slow in round 1: ratios of one round must not notice.
func TestRatiosAreOfOneRound(t *testing.T) {
	r := Report{Runs: []Run{
		aRun(nameProxima, 0, 1, 1, 100), aRun("other", 0, 4, 2, 100),
		aRun("other", 1, 8, 4, 100), aRun(nameProxima, 1, 2, 2, 100),
		aRun("other", 2, 1, 1, 100), // Proxima has no third round
	}}
	if s := lab.Spread(r.ratios("other", Run.rate), "%.0f"); s != "4" {
		t.Errorf("rate: %s", s)
	}
	if s := lab.Spread(r.ratios("other", Run.perCPU), "%.0f"); s != "2" {
		t.Errorf("per CPU: %s", s)
	}
	if v := r.ratios("absent", Run.rate); len(v) > 0 {
		t.Error("a ratio to a crawler that did not run")
	}
}

func TestFiguresOfAnEmptyRunAreFinite(t *testing.T) {
	var r Run
	for name, v := range map[string]float64{"rate": r.rate(), "perCPU": r.perCPU(), "coverage": r.coverage(), "busy": r.serverBusy()} {
		if v != 0 || math.IsNaN(v) {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func TestMarkdownShowsConduct(t *testing.T) {
	bad := aRun("rude", 0, 1, 1, 90)
	bad.Stats.Disallowed, bad.Stats.Early, bad.Usage.TimedOut = 3, 2, true
	good := aRun(nameProxima, 0, 0.5, 0.25, 100)
	r := Report{
		Runs:    []Run{bad, good},
		Skipped: map[string]string{"absent": "not installed"},
	}
	text := r.Markdown()
	for _, want := range []string{
		"INCOMPLETE; VIOLATES robots.txt; pages before robots.txt; timed out",
		"90.00 %", "2.22 ×", "4.44 ×", "Skipped: absent (not installed)", "share their cores",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Index(text, "| proxima |") > strings.Index(text, "| rude |") {
		t.Error("the slower crawler stands first")
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| proxima |") && strings.Contains(line, "INCOMPLETE") {
			t.Errorf("a complete crawl is called incomplete: %s", line)
		}
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-single", "-rounds", "2", "-only", "colly,wget2"})
	if err != nil {
		t.Fatal(err)
	}
	if o.scenario.Addresses != 1 || o.scenario.Concurrency != 16 || o.scenario.Pages != 4000 || o.rounds != 2 || len(o.only) != 2 {
		t.Errorf("single: %+v", o)
	}
	o, err = parse([]string{"-single", "-pages", "70"})
	if err != nil || o.scenario.Pages != 70 {
		t.Errorf("a flag given yields to a preset: %+v, %v", o.scenario, err)
	}
	for _, args := range [][]string{{"-rounds", "0"}, {"-pages", "0"}, {"-addresses", "251"}, {"-concurrency", "0"}, {"-port", "1"}} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(args[0], "-")) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	// A child of the child burns CPU time: it belongs to the tree.
	u, err := measure(t.Context(), []string{"sh", "-c", "echo sorry >&2; sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; touch here; exit 3"}, dir, "", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if u.Exit != 3 || u.Stderr != "sorry" || u.TimedOut || u.CPU < 20*time.Millisecond || u.PeakRSS < 100<<10 || u.Wall <= 0 {
		t.Errorf("usage %+v", u)
	}
	if _, err := os.Stat(filepath.Join(dir, "here")); err != nil {
		t.Error("not run in its folder")
	}
}

func TestMeasureEndsTheWholeTree(t *testing.T) {
	u, err := measure(t.Context(), []string{"sh", "-c", "sleep 600 & sleep 600"}, t.TempDir(), "", 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if !u.TimedOut || u.Exit == 0 || u.Wall > time.Minute {
		t.Errorf("usage %+v", u)
	}
}

func TestMeasureNamesWhatIsMissing(t *testing.T) {
	if _, err := measure(t.Context(), []string{"no-such-program"}, t.TempDir(), "", time.Second); err == nil {
		t.Error("a missing program ran")
	}
}

func TestProximaCommandWritesItsConfig(t *testing.T) {
	f := Files{Bench: "bench", Seeds: "seeds.txt", Temp: t.TempDir()}
	for addresses, want := range map[int]string{64: "own_parallel = 1\n", 1: "own_parallel = 16\n"} {
		argv, err := proximaCommand(Scenario{Config: client.Config{Addresses: addresses}, Concurrency: 16}, f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(f.Temp, "bench.toml"))
		if err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), "fetchers = 16\n") {
			t.Errorf("%d sites: %s %v", addresses, text, err)
		}
		if argv[1] != "node" {
			t.Errorf("command %v", argv)
		}
	}
}
