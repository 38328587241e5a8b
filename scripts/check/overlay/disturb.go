package main

import (
	"context"
	"fmt"
	"time"

	"proxima/node/bell"
	"proxima/scripts/lab"
)

// slower is added to the time of each request while the crawl waits for faults.
const slower = 600 * time.Millisecond

// disturb injects the planned faults. Fewer than half of the nodes are down at a time. A host has two copies, so only one node is down
// for long, and the next long fault waits until the node that came back has settled and all replicas are complete. The site is slow while
// faults wait, so that the crawl does not end before them.
func (c *crew) disturb(ctx context.Context) error {
	list := plans(c.s)
	type end struct {
		node *lab.Node
		plan plan
	}
	back := make(chan end, len(list)) // never blocks
	down, absent, gone := 0, c.s.faults[join], 0
	var alone time.Time // no other long fault may begin before
	for len(list) > 0 || down > 0 {
		alive := c.alive()
		if len(alive) < c.s.nodes-down-absent-gone {
			return fmt.Errorf("a node ended with %d faults left, %d not over, and %d requests made", len(list), down, c.site.Asked())
		}
		after := c.s.pages * 3 / 4
		if len(list) > 0 {
			after = list[0].after
		}
		c.site.Slower.Store(0)
		if c.site.Asked() >= after {
			c.site.Slower.Store(int64(slower))
		}
		if len(list) > 0 && c.site.Asked() >= after && (list[0].kind == join || 2*(down+gone+1) < c.s.nodes) &&
			(!list[0].long || down == 0 && time.Now().After(alone)) {
			p := list[0]
			list = list[1:]
			if err := bell.Sleep(ctx, p.delay); err != nil {
				return err
			}
			var victim *lab.Node
			if p.kind == join {
				victim = c.Nodes[c.s.nodes-absent]
			} else {
				victim = choose(alive, c.busy(), p.pick)
			}
			if err := c.begin(ctx, victim, p.kind); err != nil {
				return err
			}
			if at := time.Now().Add(p.lasts + p.mended(c.s)); at.After(alone) {
				alone = at
			}
			switch p.kind {
			case join:
				absent--
			case lose:
				gone++
			default:
				down++
				time.AfterFunc(p.lasts, func() { back <- end{victim, p} })
			}
			continue
		}
		select {
		case e := <-back:
			down--
			if err := c.finish(ctx, e.node, e.plan.kind); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("%d faults are left: %w", len(list), ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// choose draws a victim. Busy nodes are hit more often, but idle ones can be hit too: they are homes and grantors.
func choose(alive []*lab.Node, busy map[int]int, pick uint64) *lab.Node {
	total := 0
	for _, p := range alive {
		total += busy[p.Index]
	}
	base := 1 + total/(4*len(alive)) // spreads a fifth of the faults evenly
	at := int(pick % uint64(total+base*len(alive)))
	for _, p := range alive {
		if at -= busy[p.Index] + base; at < 0 {
			return p
		}
	}
	return alive[0]
}
