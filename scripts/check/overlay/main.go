// Command overlay crawls a generated site with several nodes, injects faults, and judges the crawl.
//
// It serves a site on several hosts and addresses, records every request, and starts the nodes of one overlay as processes on loopback. At
// random moments it kills nodes and restarts them in the same data directory, freezes nodes, erases their disks or restores older ones, starts nodes late, takes
// one away for good, and isolates nodes from the others or from one of them, or stops their streams only, for which it needs network namespaces (Linux). The crawl must end by itself at every node. Then the
// requests, the nodes' books and their disks are compared with the pages of the site. Exit codes: 0 all held, 1 something did not, 2 wrong usage. Run it from the root
// of the repository:
//
//	go run ./scripts/check/overlay                    8 nodes, 20,000 pages, all kinds of faults: a quarter of an hour
//	go run ./scripts/check/overlay -faults freeze=3   a single kind
//	go run ./scripts/check/overlay -nat 3             3 of 8 nodes are behind NATs (Linux), and none is isolated
//	go run ./scripts/check/overlay -short             4 nodes, 3,000 pages, a late node and 2 kills: about a minute
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"proxima/cmd/proxima/testbed/emulate"
	"proxima/scripts/lab"
)

type settings struct {
	lab.Place
	nodes, pages, hosts, addresses, fetch  int
	seed                                   uint64
	faults                                 counts
	think, slack, limit, shortest, longest time.Duration
	faster, overlap                        float64
	race                                   bool
	nat                                    int
	inside                                 bool // whether this process has namespaces of its own
}

func main() {
	if handled, code := emulate.Child(os.Args[1:]); handled {
		os.Exit(code)
	}
	s := settings{inside: emulate.Inside()}
	s.Flags()
	short := flag.Bool("short", false, "a smaller crawl with fewer faults; other flags override its numbers")
	flag.IntVar(&s.nodes, "nodes", 8, "`number` of nodes")
	flag.IntVar(&s.pages, "pages", 20000, "`number` of pages over all hosts")
	flag.IntVar(&s.hosts, "hosts", 18, "`number` of hosts")
	flag.IntVar(&s.addresses, "addresses", 12, "`number` of addresses that serve the hosts; if fewer than hosts, some serve two")
	flag.Func("faults", "`list` of faults, such as kill=10,freeze=2, of kill, freeze, erase, lose, join, isolate, restore, path and mute; all by default; or none",
		func(list string) (err error) {
			s.faults, err = parseFaults(list)
			return err
		})
	flag.DurationVar(&s.shortest, "shortest", 5*time.Second, "shortest `time` that a node is frozen, isolated or mute, or a path broken")
	flag.DurationVar(&s.longest, "longest", 150*time.Second, "longest `time` that a node is frozen, isolated or mute, or a path broken")
	flag.IntVar(&s.fetch, "fetchers", 4, "`number` of downloads at once at each node")
	flag.Uint64Var(&s.seed, "seed", 1, "`seed` of the moments and victims of the faults")
	flag.DurationVar(&s.think, "think", 20*time.Millisecond, "mean `time` until the site answers; at most twice as long")
	flag.DurationVar(&s.slack, "slack", 2*time.Second, "longest `time` between the end of a download and a fault that may have lost it")
	flag.Float64Var(&s.overlap, "overlap", 1, "`percentage` of the pages that may be downloaded again, at most")
	flag.DurationVar(&s.limit, "limit", 20*time.Minute, "longest `time` of the whole check")
	flag.Float64Var(&s.faster, "faster", 7.5, "`number` that divides the times of the overlay")
	flag.BoolVar(&s.race, "race", false, "build with the race detector")
	flag.IntVar(&s.nat, "nat", 0, "`number` of nodes behind NATs, in network namespaces; no node is isolated then unless -faults says so")
	flag.Parse()
	if *short {
		lab.Preset(flag.CommandLine, map[string]string{"nodes": "4", "pages": "3000", "faults": "kill=2,join=1", "limit": "3m", "faster": "15",
			"overlap": "3"}) // a kill costs some 20 pages, which is a larger share of fewer pages
	}
	all := "kill,freeze,erase,join,restore"
	if s.nat == 0 {
		all += ",lose,isolate,path,mute"
	}
	lab.Preset(flag.CommandLine, map[string]string{"faults": all})
	lab.Refuse(s.nodes < 3 || s.nodes > 64 || s.addresses < 1 || s.addresses > 100 || s.hosts < s.addresses ||
		s.hosts > 2*s.addresses || s.pages < s.hosts || s.faults[join] > s.nodes-3 || 2*(s.faults[lose]+1) >= s.nodes || s.shortest <= 0 || s.longest < s.shortest ||
		s.fetch < 1 || s.faster < 1 || s.faster > 15 || !(s.overlap > 0) || s.nat < 0 || s.nat > 0 && s.nat > s.nodes-s.faults[join]-2)
	lab.Main("overlay", s.limit, func(ctx context.Context) (bool, error) { return check(ctx, s) })
}

func check(ctx context.Context, s settings) (ok bool, err error) {
	if s.apart() && !s.inside {
		switch err := ready(ctx); {
		case err == nil:
			code, err := emulate.Reexec(ctx, os.Args[1:]...)
			return code == 0, err
		case s.nat > 0:
			fmt.Printf("NOT CHECKED, no namespaces: %v\n", err)
			return true, nil
		default:
			fmt.Printf("no node is isolated or mute, and no path broken, no namespaces: %v\n", err)
			delete(s.faults, isolate)
			delete(s.faults, path)
			delete(s.faults, mute)
		}
	}
	remove, err := s.Open(ctx, "overlay", fmt.Sprintf("-race=%t", s.race))
	if err != nil {
		return false, err
	}
	defer remove()
	network := subnet
	if s.inside {
		network = natSubnet
		if err := build(ctx, s); err != nil {
			return false, err
		}
	}
	w, err := lab.Serve(lab.NewLayout(network, s.pages, s.hosts, s.addresses), s.think)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	crew, err := newCrew(s, w)
	if err != nil {
		return false, err
	}
	began := time.Now()
	crawlErr := crew.run(ctx)
	took := time.Since(began)
	// Report what is known even if the crawl failed.
	e, err := gather(w, crew)
	if err != nil {
		return false, errors.Join(crawlErr, err)
	}
	ok = report(os.Stdout, s, took, e)
	if crawlErr != nil {
		return false, fmt.Errorf("crawl: %w", crawlErr)
	}
	return ok, nil
}

// report prints what happened and the verdicts, and reports whether all held.
func report(out io.Writer, s settings, took time.Duration, e evidence) bool {
	t := readTraffic(s, &e)
	fmt.Fprintf(out, "%d nodes crawled %d pages of %d hosts on %d addresses in %.0f s (seed %d): %d requests, %d for robots.txt.\n", s.nodes,
		len(e.pages), s.hosts, s.addresses, took.Seconds(), s.seed, len(e.requests), t.robots)
	var by, faults, other []string
	for _, n := range top(t.byNode) {
		by = append(by, fmt.Sprintf("%d: %d", n, t.byNode[n]))
	}
	for _, f := range e.faults {
		faults = append(faults, fmt.Sprintf("%s %d.%d at %s for %.1f s", f.kind, f.node, f.life, clock(f.at), f.until.Sub(f.at).Seconds()))
	}
	for _, status := range top(t.failed) {
		other = append(other, fmt.Sprintf("%d x %d", t.failed[status], status))
	}
	for _, row := range []struct {
		what string
		list []string
	}{{"pages by node", by}, {"faults", faults}, {"other answers", other}} {
		if len(row.list) > 0 {
			fmt.Fprintf(out, "%s: %s\n", row.what, strings.Join(row.list, ", "))
		}
	}
	fmt.Fprintln(out)
	return lab.Show(out, judge(s, &e, t))
}
