package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"proxima/ncoord/quantile"
	"proxima/scripts/bench/origin/client"
	"proxima/scripts/lab"
)

type Run struct {
	Crawler   string        `json:"crawler"`
	Round     int           `json:"round"`
	Stats     client.Stats  `json:"stats"`
	Usage     Usage         `json:"usage"`
	ServerCPU time.Duration `json:"server_cpu_ns"` // CPU time of the server during the crawl
}

// rate returns distinct pages per second of the window that the server measured, or 0 without pages.
func (r Run) rate() float64 { return divide(float64(r.Stats.Distinct), r.Stats.Seconds) }

// perCPU returns distinct pages per CPU second of the crawler's process tree, including its start and end.
func (r Run) perCPU() float64 { return divide(float64(r.Stats.Distinct), r.Usage.CPU.Seconds()) }

// coverage returns the share of all pages that was downloaded, 0 to 1.
func (r Run) coverage() float64 { return divide(float64(r.Stats.Distinct), float64(r.Stats.Total)) }

// serverBusy returns the server's CPU time / the crawl's window. Near 1, the server limits the crawler.
func (r Run) serverBusy() float64 { return divide(r.ServerCPU.Seconds(), r.Stats.Seconds) }

func divide(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

type Report struct {
	Version  int               `json:"v"`
	Scenario Scenario          `json:"scenario"`
	Rounds   int               `json:"rounds"`
	Cores    int               `json:"cores"` // of the machine
	Go       string            `json:"go"`
	Versions map[string]string `json:"versions"` // of the crawlers that ran
	Skipped  map[string]string `json:"skipped"`  // crawler to reason
	Runs     []Run             `json:"runs"`
}

// of returns the runs of a crawler by round.
func (r Report) of(name string) []Run {
	var out []Run
	for _, run := range r.Runs {
		if run.Crawler == name {
			out = append(out, run)
		}
	}
	return out
}

func over(runs []Run, figure func(Run) float64) (v []float64) {
	for _, r := range runs {
		v = append(v, figure(r))
	}
	return v
}

// ratios divides Proxima's figure by another crawler's, for each round that has both, so that both were measured at about the same
// time.
func (r Report) ratios(name string, figure func(Run) float64) (v []float64) {
	for _, p := range r.of(nameProxima) {
		for _, o := range r.of(name) {
			if o.Round == p.Round && figure(o) > 0 && figure(p) > 0 {
				v = append(v, figure(p)/figure(o))
			}
		}
	}
	return v
}

// Markdown returns the tables: first speed, then conduct.
func (r Report) Markdown() string {
	var b strings.Builder
	s := r.Scenario
	fmt.Fprintf(&b, "%d sites × %d pages, concurrency %d, %d rounds; server on core %s, crawler on core %s of %d; %s.\n",
		s.Addresses, s.Pages, s.Concurrency, r.Rounds, cmp.Or(s.ServerCPUs, "any"), cmp.Or(s.CrawlerCPUs, "any"), r.Cores, r.Go)
	if s.ServerCPUs == "" || s.ServerCPUs == s.CrawlerCPUs {
		b.WriteString("Server and crawler share their cores: the figures are lower than with cores apart and the ratios closer to 1.\n")
	}
	b.WriteString("Median [min–max]. Ratios are Proxima's figure over the crawler's, round by round: above 1, Proxima is better.\n\n")
	b.WriteString("| crawler | version | pages/s | pages/CPU s | peak MiB | Proxima's pages/s | Proxima's pages/CPU s | server busy |\n")
	b.WriteString("|---|---|---:|---:|---:|---:|---:|---:|\n")
	names := r.names()
	for _, name := range names {
		runs := r.of(name)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s %% |\n", name, r.Versions[name],
			lab.Spread(over(runs, Run.rate), "%.0f"), lab.Spread(over(runs, Run.perCPU), "%.0f"),
			lab.Spread(over(runs, func(x Run) float64 { return float64(x.Usage.PeakRSS) / (1 << 20) }), "%.0f"),
			r.ratio(name, Run.rate), r.ratio(name, Run.perCPU),
			lab.Spread(over(runs, func(x Run) float64 { return 100 * x.serverBusy() }), "%.0f"))
	}
	b.WriteString("\n| crawler | coverage | repeats | robots.txt | before robots.txt | disallowed | other requests | connections | open at once | whole run s | remarks |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n")
	for _, name := range names {
		runs := r.of(name)
		count := func(field func(client.Stats) int64) string {
			return lab.Spread(over(runs, func(x Run) float64 { return float64(field(x.Stats)) }), "%.0f")
		}
		fmt.Fprintf(&b, "| %s | %s %% | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name,
			lab.Spread(over(runs, func(x Run) float64 { return 100 * x.coverage() }), "%.2f"),
			count(func(s client.Stats) int64 { return s.Repeats }), count(func(s client.Stats) int64 { return s.Robots }),
			count(func(s client.Stats) int64 { return s.Early }), count(func(s client.Stats) int64 { return s.Disallowed }),
			count(func(s client.Stats) int64 { return s.Other }), count(func(s client.Stats) int64 { return s.Connections }),
			count(func(s client.Stats) int64 { return s.PeakOpen }),
			lab.Spread(over(runs, func(x Run) float64 { return x.Usage.Wall.Seconds() }), "%.1f"), remarks(name, runs))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(&b, "\nSkipped: %s (%s)\n", name, r.Skipped[name])
	}
	return b.String()
}

// names returns the crawlers that ran, fastest first.
func (r Report) names() []string {
	var names []string
	for _, run := range r.Runs {
		if !slices.Contains(names, run.Crawler) {
			names = append(names, run.Crawler)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(quantile.Median(over(r.of(b), Run.rate)), quantile.Median(over(r.of(a), Run.rate)))
	})
	return names
}

func (r Report) ratio(name string, figure func(Run) float64) string {
	if v := r.ratios(name, figure); len(v) > 0 && name != nameProxima {
		return lab.Spread(v, "%.2f") + " ×"
	}
	return "—"
}

// remarks returns what was wrong with a crawler's runs.
func remarks(name string, runs []Run) string {
	var out []string
	add := func(text string, bad func(Run) bool) {
		if slices.ContainsFunc(runs, bad) {
			out = append(out, text)
		}
	}
	add("INCOMPLETE", func(r Run) bool { return r.Stats.Distinct < int64(r.Stats.Total) })
	add("VIOLATES robots.txt", func(r Run) bool { return r.Stats.Disallowed > 0 })
	if name == nameCeiling {
		out = append(out, "no crawler: a list of URLs, no robots.txt, no parsing")
	} else {
		add("pages before robots.txt", func(r Run) bool { return r.Stats.Early > 0 })
	}
	add("timed out", func(r Run) bool { return r.Usage.TimedOut })
	add("exit code not 0", func(r Run) bool { return r.Usage.Exit != 0 && !r.Usage.TimedOut })
	return strings.Join(out, "; ")
}
