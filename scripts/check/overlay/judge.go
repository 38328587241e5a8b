package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"proxima/frontier"
	"proxima/scripts/lab"
)

// traffic sums up the requests that the site received.
type traffic struct {
	given     map[string]int // answers with 200, by page
	downloads int
	strange   []string    // requests for other pages, or from unknown clients
	failed    map[int]int // other answers, by status
	early     []string    // pages requested before the robots.txt of their host
	robots    int
	explained int         // repeats of downloads that a fault may have lost
	loose     []string    // repeats that no fault explains
	meetings  []string    // two requests at once at a server
	byNode    map[int]int // answers with 200, by node
}

func readTraffic(s settings, e *evidence) traffic {
	t := traffic{given: map[string]int{}, failed: map[int]int{}, byNode: map[int]int{}}
	want, robots := map[string]bool{}, map[string]bool{}
	for _, p := range e.pages {
		want[p] = true
	}
	ends := map[[2]int]time.Time{}
	for _, f := range e.faults {
		switch f.kind {
		case restore:
			ends[[2]int{f.node, f.life + 1}] = f.again
			fallthrough
		case kill, erase, lose:
			ends[[2]int{f.node, f.life}] = f.at
		}
	}
	last := map[string]lab.Request{}
	busy := map[string]lab.Request{} // by server, the latest request to end so far
	for _, r := range e.requests {
		life := [2]int{r.Node, r.Life}
		if died, killed := ends[life]; killed && r.End.After(died) {
			r.End = died // the node could not receive the rest
		}
		if b, ok := busy[r.Server]; ok && r.Start.Before(b.End) {
			t.meetings = append(t.meetings, fmt.Sprintf("%s: node %d.%d asked for %s%s at %s, while node %d.%d was answered %s%s from %s to %s",
				r.Server, r.Node, r.Life, r.Host, r.Path, clock(r.Start), b.Node, b.Life, b.Host, b.Path, clock(b.Start), clock(b.End)))
		}
		if b, ok := busy[r.Server]; !ok || r.End.After(b.End) {
			busy[r.Server] = r
		}
		if r.Path == "/robots.txt" {
			robots[r.Host] = true
			t.robots++
			continue
		}
		if !want[r.Page()] || r.Node < 0 {
			t.strange = append(t.strange, r.Page())
			continue
		}
		if !robots[r.Host] {
			t.early = append(t.early, r.Page())
		}
		if r.Status != 200 {
			t.failed[r.Status]++
			continue
		}
		t.downloads++
		t.byNode[r.Node]++
		t.given[r.Page()]++
		if before, again := last[r.Page()]; again {
			if e.explains(before, r, s.slack) {
				t.explained++
			} else {
				t.loose = append(t.loose, fmt.Sprintf("%s: by node %d.%d at %s and by node %d.%d at %s", r.Page(), before.Node, before.Life,
					clock(before.End), r.Node, r.Life, clock(r.End)))
			}
		}
		last[r.Page()] = r
	}
	return t
}

// explains reports whether a fault explains that a page was downloaded again: the first download ended within slack of a fault, so that it may
// be on no disk, or one of the two nodes was isolated or frozen at the time.
func (e *evidence) explains(first, again lab.Request, slack time.Duration) bool {
	return slices.ContainsFunc(e.faults, func(f fault) bool {
		from, to := f.at.Add(-slack), f.until.Add(slack)
		within := func(t time.Time) bool { return t.After(from) && t.Before(to) }
		d := f.at.Sub(first.End)
		return f.kind != join && (d > -slack && d < slack || first.Node == f.node && within(first.End) || again.Node == f.node && within(again.End))
	})
}

// gone says whether a node was lost for good.
func (e *evidence) gone(node int) bool {
	return slices.ContainsFunc(e.faults, func(f fault) bool { return f.kind == lose && f.node == node })
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func judge(s settings, e *evidence, t traffic) []lab.Verdict {
	var missing []string
	for _, p := range e.pages {
		if t.given[p] == 0 {
			missing = append(missing, p)
		}
	}
	distinct := len(t.given)
	repeats := t.downloads - distinct
	overlap := 100 * float64(repeats) / float64(max(1, distinct))
	list := []lab.Verdict{
		{Name: "coverage", Found: fmt.Sprintf("%.4f (%d of %d pages)", float64(distinct)/float64(max(1, len(e.pages))), distinct, len(e.pages)), Bound: "1",
			OK: len(missing) == 0 && distinct == len(e.pages), Faults: missing},
		{Name: "faults", Found: fmt.Sprint(len(e.faults)), Bound: fmt.Sprint(s.faults.total()), OK: len(e.faults) == s.faults.total()},
		lab.None("not of the site", t.strange),
		lab.None("pages before robots.txt", t.early),
		{Name: "overlap", Found: fmt.Sprintf("%.2f %%: %d repeats, %d by a fault", overlap, repeats, t.explained), Bound: fmt.Sprintf("< %g %%", s.overlap),
			OK: overlap < s.overlap, Faults: t.loose},
		lab.None("requests that meet at a server", t.meetings),
	}
	if s.nat > 0 {
		list = append(list, judgeBehind(s, t))
	}
	return append(list, judgeBooks(s, e), judgeDisks(e))
}

// judgeBehind checks that each node behind a NAT crawls, too.
func judgeBehind(s settings, t traffic) lab.Verdict {
	v := lab.Verdict{Name: "pages of nodes behind NATs", Bound: "each has some"}
	total := 0
	for n := range s.nodes {
		if s.behind(n) {
			if total += t.byNode[n]; t.byNode[n] == 0 {
				v.Faults = append(v.Faults, fmt.Sprintf("node %d has none", n))
			}
		}
	}
	v.Found = fmt.Sprintf("%.1f %% by %d of %d nodes", 100*float64(total)/float64(max(1, t.downloads)), s.nat, s.nodes)
	v.OK = len(v.Faults) == 0
	return v
}

// judgeBooks checks that every node accounts for every URL, in each line of its queue log and at the end.
func judgeBooks(s settings, e *evidence) lab.Verdict {
	v := lab.Verdict{Name: "books of the nodes", Bound: "accepted + at start + arrived = done + failed + dropped + left + pending, nothing pending at the end"}
	ends, handed := map[int]bool{}, int64(0)
	for i, b := range e.books {
		in := b.Accepted + b.AtStart + b.Arrived
		out := b.Done + b.Failed + b.Dropped + b.Left + b.Pending
		if in != out {
			v.Faults = append(v.Faults, fmt.Sprintf("node %d, boot %d at %s: %d + %d + %d is not %d + %d + %d + %d + %d", b.node, b.Boot,
				clock(b.Time), b.Accepted, b.AtStart, b.Arrived, b.Done, b.Failed, b.Dropped, b.Left, b.Pending))
		}
		if last := i+1 == len(e.books) || e.books[i+1].node != b.node; last && !e.gone(b.node) {
			ends[b.node] = true
			handed += b.Left
			if b.Pending != 0 {
				v.Faults = append(v.Faults, fmt.Sprintf("node %d ended with %d pending", b.node, b.Pending))
			}
		}
	}
	for n := range s.nodes {
		if !ends[n] && !e.gone(n) {
			v.Faults = append(v.Faults, fmt.Sprintf("node %d has no last line", n))
		}
	}
	v.Found = fmt.Sprintf("%d lines, %d URLs handed over in the last lives", len(e.books), handed)
	v.OK = len(v.Faults) == 0 && len(e.books) > 0
	return v
}

// judgeDisks checks that each host has one owner whose disk has all its pages.
func judgeDisks(e *evidence) lab.Verdict {
	v := lab.Verdict{Name: "hosts on the disks", Bound: "each has one owner, and there all pages are done", Faults: slices.Clone(e.unread)}
	hosts := hostsOf(e.pages)
	replicas := 0
	for _, h := range slices.Sorted(maps.Keys(hosts)) {
		var owners []string
		for _, n := range slices.Sorted(maps.Keys(e.disks[h])) {
			d := e.disks[h][n]
			about := fmt.Sprintf("node %d (%d accepted, %d done)", n, d.accepted, d.done)
			switch d.role {
			case frontier.Owned:
				owners = append(owners, about)
				if d.done != d.accepted || d.accepted < uint64(hosts[h]) {
					v.Faults = append(v.Faults, fmt.Sprintf("%s with %d pages at %s", h, hosts[h], about))
				}
			case frontier.Replica:
				replicas++
			default:
				v.Faults = append(v.Faults, fmt.Sprintf("%s is %v at %s", h, d.role, about))
			}
		}
		if len(owners) != 1 {
			v.Faults = append(v.Faults, fmt.Sprintf("%s has %d owners: %s", h, len(owners), strings.Join(owners, ", ")))
		}
	}
	v.Found = fmt.Sprintf("%d hosts, %d replicas", len(hosts), replicas)
	v.OK = len(v.Faults) == 0
	return v
}

func hostsOf(pages []string) map[string]int {
	n := map[string]int{}
	for _, p := range pages {
		host, _, _ := strings.Cut(p, "/")
		n[host]++
	}
	return n
}

// top lists keys by count, the largest first.
func top[K cmp.Ordered](n map[K]int) []K {
	return slices.SortedFunc(maps.Keys(n), func(a, b K) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
}
