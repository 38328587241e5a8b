package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"proxima/scripts/lab"
)

// crawl is that of a site on one server of this machine by a node that is killed repeatedly.
type crawl struct {
	settings
	site *lab.Site
	node *lab.Node
}

// subnet is the network of the site's addresses.
const subnet = "127.0.3."

const config = `# Written by a check for one life of the node. The version in the User-Agent identifies the life.
[crawl]
fetchers = %d
patience = "5s"

[scope]
seed_scope = "host"

[politeness]
own = ["127.0.3.0/24"]
own_gap = "0s"
own_parallel = %d

[fetch]
user_agent = "%s"
allow_prefixes = ["127.0.3.0/24"]

%s`

// newCrawl prepares the node, and serves the site.
func newCrawl(s settings) (*crawl, error) {
	l := lab.NewLayout(subnet, s.pages, 1, 1)
	l.Redirects = 25
	site, err := lab.Serve(l, s.think)
	if err != nil {
		return nil, err
	}
	nodes, err := lab.NewCrew(s.Dir, s.Proxima, site.Seeds(), "", "")
	if err != nil {
		return nil, errors.Join(err, site.Close())
	}
	return &crawl{s, site, nodes[0]}, nil
}

// killed is the end of a life. Life i ends with kill i; the last life ends by itself.
type killed struct {
	at       time.Time // just before the signal
	starting bool      // aimed at the start of the node
}

// killing says when a kill comes: a delay after a number of answered paths, or after the start of the life.
type killing struct {
	starting bool
	after    int
	delay    time.Duration
}

// killings draws the kills. One in four is aimed at the start of the node; the others are spread over the crawl, by progress rather than by
// the clock, so that all fit in on a machine of any speed.
func (s settings) killings(paths int) []killing {
	random := rand.New(rand.NewPCG(s.seed, 0))
	list := make([]killing, s.kills)
	for i := range list {
		list[i].after = random.IntN(paths * 19 / 20)
	}
	slices.SortFunc(list, func(a, b killing) int { return a.after - b.after })
	for i := range list {
		if list[i].starting = random.IntN(4) == 0; list[i].starting {
			// Squared, so that most come early, while the node opens its store and reads what is pending.
			r := random.Float64()
			list[i].after, list[i].delay = 0, time.Duration(r*r*float64(200*time.Millisecond))
		} else {
			list[i].delay = time.Duration(random.Int64N(int64(2*s.think) + 1))
		}
	}
	return list
}

// run runs the lives of the node, with sections added to its configuration, and returns the kills. A life that makes no progress is killed
// after a time of at most patience, if that is not 0. watch is called all the time until a kill. The crawl may end before the last kill.
func (c *crawl) run(ctx context.Context, sections string, patience time.Duration, watch func()) (kills []killed, err error) {
	random := rand.New(rand.NewPCG(c.seed, 1))
	for life, plan := range c.killings(len(c.site.Pages())) {
		if err := c.start(ctx, life, sections); err != nil {
			return kills, err
		}
		var late <-chan time.Time
		if patience > 0 {
			late = time.After(time.Duration(random.Int64N(int64(patience))))
		}
		at, err := c.kill(plan, late, watch)
		if err != nil {
			return kills, fmt.Errorf("life %d ended before it was killed, with %d of %d pages answered: %w\n%s", life, c.site.Finished(), c.pages,
				errors.Join(err, ctx.Err()), c.node.Now.Tail())
		}
		if at.IsZero() {
			return kills, nil
		}
		kills = append(kills, killed{at, plan.starting})
		if !lab.Within(ctx, 10*time.Second, func() bool { return c.site.Active() == 0 }) {
			return kills, fmt.Errorf("life %d: the site is still answering it", life)
		}
	}
	if err := c.start(ctx, c.kills, sections); err != nil {
		return kills, err
	}
	if err := c.node.Now.Wait(); err != nil {
		return kills, fmt.Errorf("life %d, which was not killed: %w\n%s", c.kills, errors.Join(err, ctx.Err()), c.node.Now.Tail())
	}
	return kills, nil
}

func (c *crawl) start(ctx context.Context, life int, sections string) error {
	c.node.Life = life
	return c.node.Start(ctx, fmt.Sprintf(config, c.fetchers, c.fetchers, c.node.Agent(), sections), nil, "-quiet")
}

// kill kills the node as planned. It returns the time of the kill; or, if the node ended before, zero and how it ended.
func (c *crawl) kill(plan killing, late <-chan time.Time, watch func()) (time.Time, error) {
	p, waiting := c.node.Now, true
	for waiting && p.Running() && c.site.Finished() < plan.after {
		watch()
		select {
		case <-late:
			waiting = false
		case <-time.After(time.Millisecond):
		}
	}
	select {
	case <-p.Ended():
	case <-time.After(plan.delay):
	}
	at := time.Now()
	if !p.Kill() { // it ended by itself
		return time.Time{}, p.Wait()
	}
	return at, nil
}
