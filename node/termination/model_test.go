package termination

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var modelSeeds = flag.Uint64("termination.seeds", 150, "seeds of the model test")

// Work moves from node to node, messages are lost, nodes freeze, and the node that asks may die while it tells the end. No node
// ends while there is work, and all end soon after. In some courses one node is lost for good, and newcomers replace the others, one after the other.
func TestModel(t *testing.T) {
	for seed := range *modelSeeds {
		rnd := rand.New(rand.NewPCG(seed, 3))
		n := 3 + rnd.IntN(4)
		withCrew(t, n, n, func(t *testing.T, c *crew) { model(t, c, rnd, seed) })
		if t.Failed() {
			return
		}
	}
}

func model(t *testing.T, c *crew, rnd *rand.Rand, seed uint64) {
	work := make([]int, len(c.mates))
	for i := range work {
		work[i] = rnd.IntN(6)
	}
	show := func() { // under the lock
		for i, m := range c.mates {
			m.state.Idle = work[i] == 0
		}
	}
	crash := rnd.IntN(3) == 0
	c.set(func() {
		c.gossip = true
		show()
		c.lose = func(_ string, end bool) bool {
			if end && crash && rnd.IntN(3) == 0 {
				crash = false
				for _, m := range c.mates {
					if !m.gone && !m.dead {
						m.dead, m.gone = true, true
						break
					}
				}
			}
			return rnd.IntN(8) == 0
		}
	})
	total := func() (sum int) {
		for i, m := range c.mates {
			if !m.dead {
				sum += work[i]
			}
		}
		return sum
	}
	last := time.Now()
	replaced := 0
	if seed%4 == 0 {
		replaced = 15_000
	}
	for step := 0; step < 9000+2*replaced; step++ {
		time.Sleep(100 * time.Millisecond)
		if step > 0 && step < replaced && step%3000 == 0 { // a node is gone for good; the first is not replaced
			id := idOf(step)
			c.set(func() {
				if rnd.IntN(2) == 0 {
					id = fmt.Sprintf("!%031x", replaced-step) // lower than all others
				}
				i := slices.IndexFunc(c.mates, func(m *mate) bool { return !m.dead })
				c.mates[i].dead, c.mates[i].gone = true, true
				work[len(work)-1], work[i] = work[len(work)-1]+work[i], 0
				if step > 3000 {
					work = append(work, 0)
				}
			})
			if step > 3000 {
				c.joinAs(id)
			}
		}
		c.set(func() {
			for i, m := range c.mates {
				if !m.over.IsZero() && !m.dead && total() > 0 {
					t.Fatalf("seed %d: node %d ended, %q, with work %v", seed, i, m.why, work)
				}
				if work[i] == 0 || m.frozen != nil || rnd.IntN(20) > 0 || step < replaced && total() == 1 {
					continue
				}
				work[i]--
				m.state.Counters++
				last = time.Now()
				if j := rnd.IntN(len(work)); rnd.IntN(2) == 0 && !c.mates[j].dead {
					work[j]++ // it found a link
					c.mates[j].state.Counters++
				}
			}
			show()
			if step < 600 && rnd.IntN(150) == 0 || step < replaced && rnd.IntN(1500) == 0 {
				go c.freeze(c.mates[rnd.IntN(len(work))], time.Duration(rnd.IntN(120))*time.Second)
			}
		})
		if len(c.which(func(m *mate) bool { return !m.dead && m.over.IsZero() })) == 0 {
			return
		}
	}
	state := ""
	for i, m := range c.mates {
		state += fmt.Sprintf("\n%d: over %v dead %v frozen %v work %d, %s", i, !m.over.IsZero(), m.dead, m.frozen != nil, work[i], m.rounds.Why())
	}
	t.Fatalf("seed %d: not all have ended %v after the last work:%s", seed, time.Since(last), state)
}
