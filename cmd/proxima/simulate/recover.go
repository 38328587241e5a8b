package simulate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"proxima/assign"
)

const (
	// Every server is downloaded from once in pageEvery. Nodes publish every passEvery and, like real nodes, look every pageEvery
	// whether another node is better for their servers.
	passEvery = pingEvery
	pageEvery = 2 * passEvery
	// Like real nodes, one in exploreEvery of an owner's downloads is made by another node.
	exploreEvery = 67
	// Like a real node, one that downloads nothing for doubtAfter stops believing what it has learnt about itself.
	doubtAfter = 30 * time.Second
	// recoverMost ends the wait for a node that gets no more servers.
	recoverMost = 5 * time.Minute
	// The crawl runs for quietPasses before each change.
	quietPasses = 16
	// The goal: within that many downloads, the choice ratio is below the limit again.
	recoverDownloads, recoverLimit = 30, 1.10
)

// change is what happens to a node: its load and its bandwidth are multiplied.
type change struct {
	name            string
	load, bandwidth float64
}

// recovery is what became of the choices after a change.
type recovery struct {
	// at is the choice ratio of the servers concerned just after the change; after is that once the node has made the downloads,
	// and whole that of all servers then.
	at, after, whole float64
	// servers is how many are concerned, moved how many of all have another owner now.
	servers, moved int
	// needed is after how many of the node's downloads the ratio stayed below the limit; one too many if it never did.
	needed int
}

// measureRecovery changes the node for which it matters most, and changes it back.
func measureRecovery(ctx context.Context, cfg Config) (rows []Goal, err error) {
	for _, kind := range [][]change{
		{{"a node's load × 5", 5, 1}, {"its load back", 0.2, 1}},
		{{"a node's bandwidth ÷ 5", 1, 0.2}, {"its bandwidth back", 1, 5}},
	} {
		all, err := perSeed(ctx, cfg, func(w *World) ([]recovery, error) {
			c, err := newCrawl(ctx, w)
			if err != nil {
				return nil, err
			}
			var list []recovery
			node := -1
			for _, what := range kind {
				if err := c.settle(ctx, quietPasses); err != nil {
					return nil, err
				}
				if node < 0 {
					node = c.hardest(what)
				}
				r, err := c.recover(ctx, node, what, recoverDownloads, recoverLimit)
				if err != nil {
					return nil, err
				}
				list = append(list, r)
			}
			return list, nil
		})
		if err != nil {
			return nil, err
		}
		for k, what := range kind {
			of := func(figure func(r recovery) float64) Spread {
				return spread(all, func(list []recovery) float64 { return figure(list[k]) })
			}
			needed := of(func(r recovery) float64 { return float64(r.needed) })
			note := fmt.Sprintf("%.0f servers, %.3f at once; below %.2f for good after %.0f downloads (p90 %.0f; %d means never); "+
				"%.0f servers moved; all %d servers: %.3f",
				of(func(r recovery) float64 { return float64(r.servers) }).Median, of(func(r recovery) float64 { return r.at }).Median,
				recoverLimit, needed.Median, needed.P90, recoverDownloads+1,
				of(func(r recovery) float64 { return float64(r.moved) }).Median, cfg.Servers, of(func(r recovery) float64 { return r.whole }).Median)
			rows = append(rows, Goal{What: fmt.Sprintf("choice ratio of the servers concerned, %d downloads after %s", recoverDownloads, what.name),
				Most: recoverLimit, Measured: of(func(r recovery) float64 { return r.after }), Note: note})
		}
	}
	return rows, nil
}

// crawl goes on after a decision: owners download, learn, and give up servers for which another node is better.
type crawl struct {
	world    *World
	overlay  *overlay
	cfg      assign.Config
	owner    []int
	all      []int // the servers
	memory   []assign.Memory
	made     made
	last     []time.Time // latest download of each node
	explored int
	count    []int // downloads by node
}

func newCrawl(ctx context.Context, w *World) (*crawl, error) {
	d, err := decide(ctx, w, assign.Nearest)
	if err != nil {
		return nil, err
	}
	c := &crawl{world: w, overlay: d.overlay, cfg: w.cfg.budgeted(), owner: slices.Clone(d.nodes), made: made{},
		last: slices.Repeat([]time.Time{d.overlay.now}, len(w.nodes)), count: make([]int, len(w.nodes))}
	for j, s := range w.servers {
		c.all, c.memory = append(c.all, j), append(c.memory, d.memory(s.addr))
		for _, i := range d.estimates[j] {
			c.made[[2]int{i, j}]++
		}
	}
	return c, nil
}

// concerned changes a node. It returns the servers for which that makes a difference: those that the node owns, and those for which it
// is the best before or after.
func (c *crawl) concerned(node int, what change) (servers []int) {
	before := make([]int, len(c.owner))
	for j := range before {
		before[j] = c.world.best(j)
	}
	c.change(node, what)
	for j, owner := range c.owner {
		if owner == node || before[j] == node || c.world.best(j) == node {
			servers = append(servers, j)
		}
	}
	return servers
}

func (c *crawl) change(node int, what change) {
	c.world.nodes[node].loadMs *= what.load
	c.world.nodes[node].bytesPerMs *= what.bandwidth
}

func (c *crawl) download(node, server int) {
	w, o := c.world, c.overlay
	t := c.made.next(w, node, server)
	c.count[node]++
	c.last[node] = o.now
	m := &c.memory[server]
	m.Observe(w.nodes[node].id, o.coords[node].Coordinate(), t, o.now)
	if c.owner[server] != node {
		m = nil // only the holder of the lease has the memory
	}
	o.learn(node, server, t, m)
}

// pass crawls for passEvery, unless stop ends it earlier. Only the servers in look may change their owner: that takes the most time.
func (c *crawl) pass(look []int, stop func() bool) {
	w, o := c.world, c.overlay
	o.ping()
	const turns = int(pageEvery / passEvery)
	turn := int(o.now.Unix()/int64(passEvery/time.Second)) % turns
	for j := turn; j < len(w.servers); j += turns {
		node := c.owner[j]
		if c.explored++; c.explored%exploreEvery == 0 {
			if id, ok := assign.Scout(c.cfg, &c.memory[j], o.view, w.nodes[node].id); ok {
				node = w.index[id]
			}
		}
		c.download(node, j)
		if stop() {
			return
		}
	}
	for i := range o.own {
		if o.now.Sub(c.last[i]) > doubtAfter {
			o.own[i], c.last[i] = assign.NewOwn(o.own[i].Factors()), o.now
			o.stale[i] = true
		}
	}
	o.publish()
	if turn == 0 {
		c.look(look)
	}
}

func (c *crawl) look(servers []int) {
	for _, j := range servers {
		owner := c.owner[j]
		if id, _, ok := assign.Better(c.cfg, &c.memory[j], c.overlay.view, c.world.nodes[owner].id); ok {
			c.owner[j] = c.world.index[id]
		}
	}
}

// recover changes a node, and watches the choices until the node has made so many downloads.
func (c *crawl) recover(ctx context.Context, node int, what change, downloads int, limit float64) (r recovery, err error) {
	owners := slices.Clone(c.owner)
	servers := c.concerned(node, what)
	r.at = c.world.ratio(c.owner, servers)
	begun, end := c.count[node], c.overlay.now.Add(recoverMost)
	made := func() int { return c.count[node] - begun }
	enough := func() bool { return made() >= downloads }
	under := r.at < limit
	for !enough() && c.overlay.now.Before(end) {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		c.pass(servers, enough)
		if is := c.world.ratio(c.owner, servers) < limit; is != under {
			if under = is; is {
				r.needed = made()
			}
		}
	}
	// What the last downloads showed counts, too: publish it and look once more.
	c.overlay.publish()
	c.look(servers)
	r.after = c.world.ratio(c.owner, servers)
	switch {
	case r.after >= limit:
		r.needed = downloads + 1
	case !under:
		r.needed = made()
	}
	for j := range c.owner {
		if c.owner[j] != owners[j] {
			r.moved++
		}
	}
	r.servers, r.whole = len(servers), c.world.ratio(c.owner, c.all)
	return r, nil
}

// hardest is the node for which a change costs the most time over all servers. For the node with the most servers, which are mostly
// fast, hardly anything changes.
func (c *crawl) hardest(what change) int {
	worst, most := 0, -1.0
	for i := range c.world.nodes {
		was := c.world.nodes[i]
		c.change(i, what)
		lost := 0.0
		for j, owner := range c.owner {
			if owner == i {
				lost += c.world.expected(i, j) - c.world.expected(c.world.best(j), j)
			}
		}
		c.world.nodes[i] = was
		if lost > most {
			worst, most = i, lost
		}
	}
	return worst
}

// settle crawls for a while, until what happened before no longer matters.
func (c *crawl) settle(ctx context.Context, passes int) error {
	for range passes {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.pass(c.all, func() bool { return false })
	}
	return nil
}
