package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"proxima/scripts/lab"
)

// kind is what is done to a node.
type kind string

const (
	kill    kind = "kill"    // ended by SIGKILL, and started again in its data directory
	freeze  kind = "freeze"  // stopped by SIGSTOP, and continued
	erase   kind = "erase"   // ended by SIGKILL, its data directory removed, and started anew
	join    kind = "join"    // not started with the others but later
	isolate kind = "isolate" // cut off from the other nodes, but not from the site, and back
)

// usual is how many faults of each kind there are where the flag gives no number.
var usual = []struct {
	kind  kind
	count int
}{{kill, 6}, {freeze, 4}, {erase, 3}, {join, 1}, {isolate, 3}}

// counts is how many faults of each kind come.
type counts map[kind]int

// parseFaults reads a list such as "kill=10,freeze".
func parseFaults(list string) (counts, error) {
	c := counts{}
	for _, item := range strings.Split(list, ",") {
		name, number, given := strings.Cut(strings.TrimSpace(item), "=")
		if name == "none" {
			continue
		}
		known := false
		for _, u := range usual {
			if known = string(u.kind) == name; known {
				c[u.kind] = u.count
				break
			}
		}
		if !known {
			return nil, fmt.Errorf("faults: %q is none of kill, freeze, erase, join, isolate", name)
		}
		if given {
			n, err := strconv.Atoi(number)
			if err != nil || n < 0 || n > 1000 {
				return nil, fmt.Errorf("faults: %q is no number of faults", number)
			}
			c[kind(name)] = n
		}
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

// plan says when a fault comes, after so many requests and a delay, and how long it lasts.
type plan struct {
	kind         kind
	after        int
	delay, lasts time.Duration
	pick         uint64 // chooses among the nodes alive then
	long         bool   // others may take the node's hosts over meanwhile
}

// fault is a plan that was carried out.
type fault struct {
	kind       kind
	node, life int
	at, until  time.Time // just before the fault, and just after its end
}

// plans draws the moments. The progress and not the clock spaces them, so that all fit on machines of any speed.
func plans(s settings) []plan {
	random := rand.New(rand.NewPCG(s.seed, 0))
	var kinds []kind
	for _, u := range usual {
		for range s.faults[u.kind] {
			kinds = append(kinds, u.kind)
		}
	}
	random.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
	list := make([]plan, len(kinds))
	for i := range list {
		list[i].after = s.pages/20 + random.IntN(max(1, s.pages*13/20))
	}
	slices.SortFunc(list, func(a, b plan) int { return a.after - b.after })
	times := configure(s, &lab.Layout{}, 0, 0)
	takenOver := 8*time.Second + times.Ownership.TakeAfter + times.Member.ForgetAfter // found dead, and taken over by a new home
	seen := counts{}
	for i := range list {
		p := &list[i]
		p.kind, p.pick = kinds[i], random.Uint64()
		p.delay = time.Duration(random.Int64N(int64(500 * time.Millisecond)))
		short := time.Duration(random.Int64N(int64(4 * time.Second)))
		seen[p.kind]++
		switch p.kind {
		case kill:
			// Every fifth node stays dead until others have its hosts.
			p.lasts, p.long = short, seen[kill]%5 == 1
			if p.long {
				p.lasts += takenOver
			}
		case erase:
			// Its node does not come back, another one does: at once or after the hosts were taken over.
			p.lasts, p.long = short, true
			if seen[erase]%2 == 0 {
				p.lasts += takenOver
			}
		case freeze, isolate:
			// Short ones are as likely as long ones: of so many times the shortest.
			p.lasts = time.Duration(float64(s.shortest) * math.Pow(float64(s.longest)/float64(s.shortest), random.Float64()))
			p.long = true
		}
	}
	return list
}

// mended is how long after the end of a long fault all hosts have two copies again.
func (p plan) mended(s settings) time.Duration {
	times := configure(s, &lab.Layout{}, 0, 0)
	d := 3*time.Second + times.Ownership.FenceAfter // copies are tried again that often at least
	if p.long {
		d += times.Member.SettleAfter
	}
	if p.kind == erase {
		d += 8*time.Second + times.Ownership.TakeAfter + times.Member.ForgetAfter
	}
	return d
}
