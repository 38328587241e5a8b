// Command overlay crawls a generated site with several nodes, disturbs them again and again, and judges the crawl.
//
// It serves a site over several hosts and addresses, which sees every request, and starts nodes of one overlay as processes on loopback. At
// random moments it kills some and starts them again in the same data directories, freezes some, erases the disks of some, starts some late,
// and cuts some off from the others. The crawl has to end by itself everywhere. Then what the site saw, the nodes' books and what is left on
// their disks are compared with the pages that the site has. Exit codes: 0 all held, 1 something did not, 2 wrong usage. Run it from the root
// of the repository:
//
//	go run ./scripts/check/overlay                    8 nodes, 20,000 pages, all kinds of faults: ten minutes
//	go run ./scripts/check/overlay -faults freeze=3   one kind alone
//	go run ./scripts/check/overlay -nat 3             3 of 8 nodes are behind NATs (root, Linux); nodes are not cut off
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

	"proxima/scripts/lab"
)

// settings are the flags.
type settings struct {
	proxima, dir                           string
	nodes, pages, hosts, addresses, fetch  int
	seed                                   uint64
	faults                                 counts
	think, slack, limit, shortest, longest time.Duration
	faster, overlap                        float64
	race                                   bool
	nat                                    int
	inside                                 bool
}

func main() {
	var s settings
	flag.StringVar(&s.proxima, "proxima", "", "`program` to check; built from ./cmd/proxima where empty")
	flag.StringVar(&s.dir, "dir", "", "`directory` for the site, data and logs, kept afterwards; must be new; a temporary one where empty")
	short := flag.Bool("short", false, "a smaller crawl with fewer faults; flags beside it change its numbers")
	flag.IntVar(&s.nodes, "nodes", 8, "`number` of nodes")
	flag.IntVar(&s.pages, "pages", 20000, "`number` of pages over all hosts")
	flag.IntVar(&s.hosts, "hosts", 18, "`number` of hosts")
	flag.IntVar(&s.addresses, "addresses", 12, "`number` of addresses that serve the hosts; with fewer than hosts, some serve two")
	faults := flag.String("faults", "", "`list` of faults, such as kill=10,freeze=2: kill, freeze, erase, join and isolate; all where empty, or none")
	flag.DurationVar(&s.shortest, "shortest", 5*time.Second, "least `time` a node is frozen or cut off")
	flag.DurationVar(&s.longest, "longest", 150*time.Second, "longest `time` a node is frozen or cut off")
	flag.IntVar(&s.fetch, "fetchers", 4, "`number` of downloads at once of each node")
	flag.Uint64Var(&s.seed, "seed", 1, "`seed` of the faults' moments and victims")
	flag.DurationVar(&s.think, "think", 20*time.Millisecond, "mean `time` the site takes for a page; up to twice as long")
	flag.DurationVar(&s.slack, "slack", 2*time.Second, "longest `time` from the end of a download to a fault that may have lost it")
	flag.Float64Var(&s.overlap, "overlap", 1, "`percentage` of the pages below which those that are downloaded again must stay")
	flag.DurationVar(&s.limit, "limit", 20*time.Minute, "longest `time` of the whole check")
	flag.Float64Var(&s.faster, "faster", 7.5, "`number` by which the times of the overlay are divided")
	flag.BoolVar(&s.race, "race", false, "build with the race detector")
	flag.IntVar(&s.nat, "nat", 0, "`number` of nodes behind routers that masquerade, in namespaces (root); nodes are not cut off then")
	flag.BoolVar(&s.inside, "inside", false, "for its own use")
	flag.Parse()
	if *short {
		given := map[string]bool{}
		flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for _, d := range []struct {
			name  string
			at    *int
			value int
		}{{"nodes", &s.nodes, 4}, {"pages", &s.pages, 3000}} {
			if !given[d.name] {
				*d.at = d.value
			}
		}
		if !given["faults"] {
			*faults = "kill=2,join=1"
		}
		if !given["limit"] {
			s.limit = 3 * time.Minute
		}
		if !given["faster"] {
			s.faster = 15
		}
		if !given["overlap"] {
			s.overlap = 3 // what a kill costs, some 20 pages, is more of fewer pages
		}
	}
	if *faults == "" {
		for _, u := range usual {
			if s.nat > 0 && u.kind == isolate {
				continue
			}
			*faults += string(u.kind) + ","
		}
		*faults = strings.TrimSuffix(*faults, ",")
	}
	var err error
	if s.faults, err = parseFaults(*faults); err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(2)
	}
	if flag.NArg() > 0 || s.nodes < 3 || s.nodes > 64 || s.addresses < 1 || s.addresses > 100 || s.hosts < s.addresses ||
		s.hosts > 2*s.addresses || s.pages < s.hosts || s.faults[join] > s.nodes-3 || s.shortest <= 0 || s.longest < s.shortest || s.fetch < 1 || s.faster < 1 || s.faster > 15 || !(s.overlap > 0) ||
		s.nat < 0 || s.nat > 0 && (s.nat > s.nodes-s.faults[join]-2 || s.faults[isolate] > 0 || s.addresses > 50 || s.nodes > 50) {
		flag.Usage()
		os.Exit(2)
	}
	lab.Main("overlay", s.limit, func(ctx context.Context) (bool, error) { return check(ctx, s) })
}

func check(ctx context.Context, s settings) (ok bool, err error) {
	if s.nat > 0 && !s.inside {
		began, err := apart(ctx)
		if !began {
			fmt.Printf("NOT CHECKED, for want of namespaces: %v\n", err)
			return true, nil
		}
		return err == nil, err
	}
	var remove func()
	if s.dir, remove, err = lab.Folder(s.dir, "overlay"); err != nil {
		return false, err
	}
	defer remove()
	if s.proxima == "" {
		var flags []string
		if s.race {
			flags = append(flags, "-race")
		}
		if s.proxima, err = lab.Build(ctx, s.dir, "./cmd/proxima", flags...); err != nil {
			return false, err
		}
	}
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
	// What is known is told even where the crawl broke off.
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

// report prints what happened and the verdicts, and says whether all held.
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
	return lab.Show(out, judge(s, &e))
}
