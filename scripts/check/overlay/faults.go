package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"proxima/node"
	"proxima/scripts/lab"
)

type kind string

const (
	kill    kind = "kill"    // SIGKILL, then a restart in the same data directory
	freeze  kind = "freeze"  // SIGSTOP, then SIGCONT
	erase   kind = "erase"   // SIGKILL, then a restart without the data directory
	lose    kind = "lose"    // SIGKILL for good: node and disk are gone
	join    kind = "join"    // started later than the others
	isolate kind = "isolate" // for a time without the other nodes, but with the site
	path    kind = "path"    // for a time without one of the other nodes
	mute    kind = "mute"    // for a time without streams to and from the other nodes, though its packets arrive
	restore kind = "restore" // SIGKILL and a restart, then SIGKILL again and a restart with the data directory as it was at the first
)

// faults is how many faults of a kind there are.
type faults struct {
	kind  kind
	count int
}

// usual is the number of faults of each kind if the flag gives none.
var usual = []faults{{kill, 6}, {freeze, 4}, {erase, 3}, {lose, 1}, {join, 1}, {isolate, 3}, {restore, 1}, {path, 1}, {mute, 1}}

type counts map[kind]int

// parseFaults reads a list such as "kill=10,freeze".
func parseFaults(list string) (counts, error) {
	c := counts{}
	for _, item := range strings.Split(list, ",") {
		name, number, given := strings.Cut(strings.TrimSpace(item), "=")
		if name == "none" {
			continue
		}
		i := slices.IndexFunc(usual, func(u faults) bool { return string(u.kind) == name })
		if i < 0 {
			return nil, fmt.Errorf("faults: %q is none of kill, freeze, erase, lose, join, isolate, restore, path, mute", name)
		}
		n, err := usual[i].count, error(nil)
		if given {
			if n, err = strconv.Atoi(number); err != nil || n < 0 || n > 1000 {
				return nil, fmt.Errorf("faults: %q is no number of faults", number)
			}
		}
		c[kind(name)] = n
	}
	return c, nil
}

func (c counts) total() int {
	n := 0
	for _, k := range c {
		n += k
	}
	return n
}

// plan says when a fault begins, after a number of requests and a delay, and how long it lasts.
type plan struct {
	kind         kind
	after        int
	delay, lasts time.Duration
	pick         uint64 // chooses the victim among the nodes alive then
	long         bool   // others may take over the node's hosts meanwhile
}

type fault struct {
	kind       kind
	node, life int
	at, until  time.Time // just before it began, and just after it ended
	again      time.Time // just before the second SIGKILL of restore
}

// plans draws the faults. They are spaced by progress, not by the clock, so that all fit into the crawl on a machine of any speed.
func plans(s settings) []plan {
	random := rand.New(rand.NewPCG(s.seed, 0))
	var kinds []kind
	for _, u := range usual {
		for range s.faults[u.kind] {
			kinds = append(kinds, u.kind)
		}
	}
	random.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
	// The crawl waits until all nodes have been there once, so the late ones join before any is lost.
	joined := 0
	for i, k := range kinds {
		if k != join && k != lose {
			continue
		}
		if kinds[i] = lose; joined < s.faults[join] {
			kinds[i], joined = join, joined+1
		}
	}
	list := make([]plan, len(kinds))
	for i := range list {
		list[i].after = s.pages/20 + random.IntN(max(1, s.pages*13/20))
	}
	slices.SortFunc(list, func(a, b plan) int { return a.after - b.after })
	gone := takenOver(configure(s, &lab.Layout{}, &lab.Node{}))
	seen := counts{}
	for i := range list {
		p := &list[i]
		p.kind, p.pick = kinds[i], random.Uint64()
		p.delay = time.Duration(random.Int64N(int64(500 * time.Millisecond)))
		short := time.Duration(random.Int64N(int64(4 * time.Second)))
		seen[p.kind]++
		switch p.kind {
		case kill:
			// Every fifth stays dead until others have its hosts.
			p.lasts, p.long = short, seen[kill]%5 == 1
			if p.long {
				p.lasts += gone
			}
		case erase:
			// A node with an empty disk comes back, at once or after the hosts were taken over.
			p.lasts, p.long = short, true
			if seen[erase]%2 == 0 {
				p.lasts += gone
			}
		case lose:
			p.long = true
		case restore:
			p.lasts, p.long = s.shortest+short, true
		case freeze, isolate, path, mute:
			// Log-uniform, so that short times are as likely as long ones.
			p.lasts = time.Duration(float64(s.shortest) * math.Pow(float64(s.longest)/float64(s.shortest), random.Float64()))
			p.long = true
		}
	}
	return list
}

// mended is how long after the end of a fault it takes until all hosts have two copies again.
func (p plan) mended(s settings) time.Duration {
	times := configure(s, &lab.Layout{}, &lab.Node{})
	d := 3*time.Second + times.Ownership.SuspendAfter // replicas are retried at least that often
	if p.long || p.kind == join {
		d += times.Member.SettleAfter
	}
	if p.kind == erase || p.kind == lose {
		d += takenOver(times)
	}
	return d
}

// takenOver is how long it takes until a node is found dead and a new home takes over.
func takenOver(c node.Config) time.Duration {
	return 8*time.Second + c.Ownership.TakeAfter + c.Member.ForgetAfter
}
