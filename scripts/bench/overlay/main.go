// Command overlay measures the cost of the overlay. Nodes run as processes on one machine and crawl the benchmark's sites, which count
// the requests.
//
//	go run ./scripts/bench/overlay                            CPU per page of one node, of four apart and of four as an overlay, on 40,000 pages
//	go run ./scripts/bench/overlay -mode start -starts 20     8 nodes started together: time to the first page on every node
//	go run ./scripts/bench/overlay -mode restart -starts 20   one of 8 nodes killed and started again: time to its first page
//	go run ./scripts/bench/overlay -mode end                  40 nodes crawl 100,000 pages: how many end without being stopped
//
// The nodes leave no gap between requests, and ask each site for one page at a time. -bin measures another build.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"proxima/scripts/bench/origin/client"
	"proxima/scripts/lab"
)

type settings struct {
	lab.Place
	mode, profile                     string
	nodes, pages, hosts, runs, starts int
	port                              int
	seed                              uint64
	think, limit                      time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.mode, "mode", "cost", "what to measure: cost, start, restart or end")
	flag.StringVar(&s.Proxima, "bin", "", "`program` to measure; built from ./cmd/proxima if empty")
	flag.StringVar(&s.Dir, "dir", "", "new `directory` for data and logs, kept afterwards; a temporary one if empty")
	flag.StringVar(&s.profile, "profile", "", "`directory` for CPU profiles of the nodes")
	flag.IntVar(&s.nodes, "nodes", 0, "`number` of nodes: 4 for cost, 40 for end, else 8")
	flag.IntVar(&s.pages, "pages", 0, "`number` of pages of all hosts: 100,000 for end, else 40,000")
	flag.IntVar(&s.hosts, "hosts", 256, "`number` of hosts, each at its own address")
	flag.IntVar(&s.runs, "runs", 1, "`number` of runs, each with one node and then with all nodes")
	flag.IntVar(&s.starts, "starts", 20, "`number` of starts or restarts")
	flag.IntVar(&s.port, "port", 8180, "`port` of the sites; the one below serves the counts")
	flag.Uint64Var(&s.seed, "seed", 1, "`seed` of the sites")
	flag.DurationVar(&s.think, "think", 0, "`time` that the sites take for a page; 1 s for start and restart")
	flag.DurationVar(&s.limit, "limit", 10*time.Minute, "longest `time` of one crawl or start")
	flag.Parse()
	measure, ok := map[string]func(context.Context, *bench) error{"cost": cost, "end": end, "start": start, "restart": restart}[s.mode]
	preset := map[string]string{"nodes": "8", "pages": "40000"}
	switch {
	case s.mode == "cost":
		preset["nodes"] = "4"
	case s.mode == "end":
		preset["nodes"], preset["pages"] = "40", "100000"
	case s.mode == "start" || s.mode == "restart":
		preset["think"] = "1s"
	}
	lab.Preset(flag.CommandLine, preset)
	lab.Refuse(!ok || s.nodes < 1 || s.nodes > 200 || s.hosts < 1 || s.pages < s.hosts || s.runs < 1 || s.starts < 1)
	lab.Main("overlay", 0, func(ctx context.Context) (bool, error) { return true, run(ctx, s, measure) })
}

func run(ctx context.Context, s settings, measure func(context.Context, *bench) error) (err error) {
	remove, err := s.Open(ctx, "bench-overlay")
	if err != nil {
		return err
	}
	defer remove()
	if s.profile != "" {
		if err := os.MkdirAll(s.profile, 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	web, err := lab.Build(ctx, s.Dir, "./scripts/bench/origin")
	if err != nil {
		return err
	}
	b := &bench{s: s}
	sites := client.Config{Addresses: s.hosts, Pages: (s.pages + s.hosts - 1) / s.hosts, Port: s.port, Seed: s.seed, Brief: true, Think: s.think}
	if b.web, err = client.Start(ctx, web, sites); err != nil {
		return err
	}
	defer b.web.Stop()
	b.seeds = sites.Seeds()
	return measure(ctx, b)
}
