package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"proxima/scripts/lab"
)

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
