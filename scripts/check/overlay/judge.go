package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"proxima/frontier"
)

// Changes of owners, in the words of the member log.
const (
	handedOver = "handed over"
	received   = "received"
	took       = "took"
)

// verdict is a criterion and what came of it.
type verdict struct {
	name, found, bound string
	ok                 bool
	faults             []string // examples, or all
}

// traffic is what the access log says about pages.
type traffic struct {
	given     map[string]int // answers with 200 by page
	downloads int
	strange   []string // not pages of the site, or asked by nobody known
	failed    map[int]int
	early     []string // asked for before the robots.txt of the host
	robots    int
	cut       int            // repeats of what was under way at a kill, or had just ended
	loose     []string       // repeats that no kill explains
	meetings  []string       // two requests to one server at one time
	byNode    map[int]int    // answers by node
	perKill   map[[2]int]int // requests under way at the end of a killed life
	uncopied  map[[2]int]int // pages answered so shortly before it that a second copy may not know of them
}

func readTraffic(s settings, e *evidence) traffic {
	t := traffic{given: map[string]int{}, failed: map[int]int{}, byNode: map[int]int{}, perKill: map[[2]int]int{}, uncopied: map[[2]int]int{}}
	want, robots := map[string]bool{}, map[string]bool{}
	for _, p := range e.pages {
		want[p] = true
	}
	ends := map[[2]int]time.Time{}
	for _, k := range e.kills {
		ends[[2]int{k.node, k.life}] = k.at
	}
	last := map[string]request{}
	busy := map[string]request{} // by server, the request that ends last of those before
	for _, r := range e.requests {
		life := [2]int{r.node, r.life}
		died, killed := ends[life]
		if killed && !r.end.Before(died) {
			t.perKill[life]++
			if r.end.After(died) {
				r.end = died // the node was not there any more
			}
		}
		if b, ok := busy[r.server]; ok && r.start.Before(b.end) {
			t.meetings = append(t.meetings, fmt.Sprintf("%s: node %d.%d asked for %s%s at %s, while node %d.%d was answered %s%s from %s to %s",
				r.server, r.node, r.life, r.host, r.uri, clock(r.start), b.node, b.life, b.host, b.uri, clock(b.start), clock(b.end)))
		}
		if b, ok := busy[r.server]; !ok || r.end.After(b.end) {
			busy[r.server] = r
		}
		if r.uri == "/robots.txt" {
			robots[r.host] = true
			t.robots++
			continue
		}
		if !want[r.page()] || r.node < 0 {
			t.strange = append(t.strange, r.page())
			continue
		}
		if !robots[r.host] {
			t.early = append(t.early, r.page())
		}
		if r.status != 200 {
			t.failed[r.status]++
			continue
		}
		if d := died.Sub(r.end); killed && d > 0 && d <= s.copied {
			t.uncopied[life]++
		}
		t.downloads++
		t.byNode[r.node]++
		t.given[r.page()]++
		if before, again := last[r.page()]; again {
			if killedAfter(e.kills, before.end, s.slack) {
				t.cut++
			} else {
				t.loose = append(t.loose, fmt.Sprintf("%s: by node %d.%d at %s and by node %d.%d at %s", r.page(), before.node, before.life,
					clock(before.end), r.node, r.life, clock(r.end)))
			}
		}
		last[r.page()] = r
	}
	return t
}

// takenOver says that the hosts of a killed node were given to others before it was back.
func (e *evidence) takenOver(kill int) bool {
	k := e.kills[kill]
	until := k.at.Add(k.down + time.Minute)
	for _, later := range e.kills[kill+1:] {
		if later.node == k.node && later.at.Before(until) {
			until = later.at
		}
	}
	return slices.ContainsFunc(e.moves, func(m move) bool {
		owner, ok := e.ids[m.Peer]
		return ok && m.Change == took && owner == k.node && m.Time.After(k.at) && m.Time.Before(until)
	})
}

// killedAfter says that a node was killed within so long of a moment: whoever downloaded it had not recorded it, or not
// told the node for which it was downloaded.
func killedAfter(kills []kill, at time.Time, within time.Duration) bool {
	return slices.ContainsFunc(kills, func(k kill) bool {
		d := k.at.Sub(at)
		return d > -within && d < within
	})
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// judge compares the evidence with what must hold.
func judge(s settings, e *evidence) []verdict {
	t := readTraffic(s, e)
	var missing []string
	for _, p := range e.pages {
		if t.given[p] == 0 {
			missing = append(missing, p)
		}
	}
	distinct := len(t.given)
	repeats := t.downloads - distinct
	inFlight, takenOver, uncopied := 0, 0, 0
	for i, k := range e.kills {
		inFlight += t.perKill[[2]int{k.node, k.life}]
		if e.takenOver(i) {
			takenOver++
			uncopied += t.uncopied[[2]int{k.node, k.life}]
		}
	}
	most := len(e.kills)*s.fetch + uncopied
	overlap := float64(repeats) / float64(max(1, distinct))
	list := []verdict{
		{"coverage", fmt.Sprintf("%.4f (%d of %d pages)", float64(distinct)/float64(max(1, len(e.pages))), distinct, len(e.pages)), "1",
			len(missing) == 0 && distinct == len(e.pages), missing},
		{"kills", fmt.Sprintf("%d", len(e.kills)), fmt.Sprintf("%d", s.kills), len(e.kills) == s.kills, nil},
		{"not of the site", fmt.Sprintf("%d", len(t.strange)), "0", len(t.strange) == 0, t.strange},
		{"pages before robots.txt", fmt.Sprintf("%d", len(t.early)), "0", len(t.early) == 0, t.early},
		{"repeats", fmt.Sprintf("%d: %d at a kill, %d others", repeats, t.cut, len(t.loose)),
			fmt.Sprintf("<= %d kills x %d fetchers (%d were in flight) + %d not copied yet by %d nodes taken over = %d", len(e.kills), s.fetch,
				inFlight, uncopied, takenOver, most), repeats <= most, t.loose},
		{"overlap", fmt.Sprintf("%.2f %%", 100*overlap), "< 2 %", overlap < 0.02, nil},
		{"requests that meet at a server", fmt.Sprintf("%d", len(t.meetings)), "0", len(t.meetings) == 0, t.meetings},
	}
	list = append(list, judgeBooks(e), judgeHandOffs(s, e), judgeOwners(e), judgeDisks(e))
	return list
}

// judgeBooks checks that every node accounts for every URL, in each line of its queue log and at its end.
func judgeBooks(e *evidence) verdict {
	v := verdict{name: "books of the nodes", bound: "accepted + at start + arrived = done + failed + dropped + left + pending, nothing pending at the end"}
	ends, handed := map[int]bool{}, int64(0)
	for _, b := range e.books {
		in := b.Accepted + b.AtStart + b.Arrived
		out := b.Done + b.Failed + b.Dropped + b.Left + b.Pending
		if in != out {
			v.faults = append(v.faults, fmt.Sprintf("node %d, boot %d at %s: %d + %d + %d is not %d + %d + %d + %d + %d", b.node, b.Boot,
				clock(b.Time), b.Accepted, b.AtStart, b.Arrived, b.Done, b.Failed, b.Dropped, b.Left, b.Pending))
		}
		if b.last {
			ends[b.node] = true
			handed += b.Left
			if b.Pending != 0 {
				v.faults = append(v.faults, fmt.Sprintf("node %d ended with %d pending", b.node, b.Pending))
			}
		}
	}
	for _, n := range e.ids {
		if !ends[n] {
			v.faults = append(v.faults, fmt.Sprintf("node %d has no last line", n))
		}
	}
	v.found = fmt.Sprintf("%d lines, %d URLs handed over in the last lives", len(e.books), handed)
	v.ok = len(v.faults) == 0 && len(e.books) > 0
	return v
}

// judgeHandOffs looks for the other half of every hand-off.
func judgeHandOffs(s settings, e *evidence) verdict {
	type half struct {
		host  string
		epoch uint64
		node  int
	}
	taken, given := map[half]bool{}, map[half]bool{}
	for _, m := range e.moves {
		switch m.Change {
		case received:
			taken[half{m.Host, m.Epoch, m.node}] = true
		case handedOver:
			if to, ok := e.ids[m.Peer]; ok {
				given[half{m.Host, m.Epoch, to}] = true
			}
		}
	}
	// A commit is on disk before its line is in the log: a kill between the two loses the line.
	dying := func(node int, at time.Time) bool {
		return slices.ContainsFunc(e.kills, func(k kill) bool {
			d := k.at.Sub(at)
			return k.node == node && d > -s.slack && d < s.slack
		})
	}
	v := verdict{name: "hand-offs", bound: "each received by whom it was handed to, none twice"}
	excused, out, in := 0, 0, 0
	twice := map[half]int{} // by host and epoch, how many received it
	for _, m := range e.moves {
		switch m.Change {
		case handedOver:
			out++
			to, ok := e.ids[m.Peer]
			switch {
			case ok && taken[half{m.Host, m.Epoch, to}]:
			case ok && dying(to, m.Time):
				excused++
			default:
				v.faults = append(v.faults, fmt.Sprintf("%s, epoch %d, by node %d to %.8s at %s: not received", m.Host, m.Epoch, m.node, m.Peer, clock(m.Time)))
			}
		case received:
			in++
			h := half{m.Host, m.Epoch, 0}
			if twice[h]++; twice[h] > 1 {
				v.faults = append(v.faults, fmt.Sprintf("%s, epoch %d, received twice, at last by node %d at %s", m.Host, m.Epoch, m.node, clock(m.Time)))
			}
		}
	}
	kinds := map[string]int{}
	for _, m := range e.moves {
		kinds[m.Change]++
	}
	var others []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		if k != handedOver && k != received {
			others = append(others, fmt.Sprintf("%d %s", kinds[k], k))
		}
	}
	v.found = fmt.Sprintf("%d handed over, %d received, %d lines lost by a kill; %s", out, in, excused, strings.Join(others, ", "))
	v.ok = len(v.faults) == 0
	return v
}

// judgeOwners looks at where the hosts are after the end.
func judgeOwners(e *evidence) verdict {
	v := verdict{name: "owners at the end", bound: "one for each host"}
	hosts := hostsOf(e.pages)
	copies := 0
	for _, h := range slices.Sorted(maps.Keys(hosts)) {
		var owners []string
		for _, n := range slices.Sorted(maps.Keys(e.disks[h])) {
			switch d := e.disks[h][n]; d.hold {
			case frontier.Own:
				owners = append(owners, fmt.Sprintf("node %d (%d accepted, %d done)", n, d.accepted, d.done))
			case frontier.Backup:
				copies++
			default:
				v.faults = append(v.faults, fmt.Sprintf("%s is %v at node %d", h, d.hold, n))
			}
		}
		if len(owners) != 1 {
			v.faults = append(v.faults, fmt.Sprintf("%s has %d owners: %s", h, len(owners), strings.Join(owners, ", ")))
		}
	}
	v.found = fmt.Sprintf("%d hosts, %d second copies", len(hosts), copies)
	v.ok = len(v.faults) == 0
	return v
}

// judgeDisks compares what the owners' disks say with the list of pages.
func judgeDisks(e *evidence) verdict {
	v := verdict{name: "URLs on the owners' disks", bound: "all pages, all of them done"}
	var accepted, done uint64
	for host, pages := range hostsOf(e.pages) {
		for n, d := range e.disks[host] {
			if d.hold != frontier.Own {
				continue
			}
			accepted, done = accepted+d.accepted, done+d.done
			if d.done != d.accepted || d.accepted < uint64(pages) {
				v.faults = append(v.faults, fmt.Sprintf("%s at node %d: %d accepted, %d done, %d pages", host, n, d.accepted, d.done, pages))
			}
		}
	}
	slices.Sort(v.faults)
	v.found = fmt.Sprintf("%d accepted, %d done", accepted, done)
	v.ok = len(v.faults) == 0
	return v
}

// hostsOf counts the pages of each host.
func hostsOf(pages []string) map[string]int {
	n := map[string]int{}
	for _, p := range pages {
		host, _, _ := strings.Cut(p, "/")
		n[host]++
	}
	return n
}

// top lists the largest counts first.
func top[K cmp.Ordered](n map[K]int) []K {
	return slices.SortedFunc(maps.Keys(n), func(a, b K) int { return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b)) })
}
