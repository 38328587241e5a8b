package simulate

import (
	"context"
	"slices"
	"time"

	"proxima/assign"
)

// change is what happens to a node.
type change struct {
	name string
	// by multiplies the node's load and bandwidth.
	load, bandwidth float64
}

const (
	// Every server is downloaded from that often. Nodes publish after passEvery, and look that often whether their servers
	// would be better off elsewhere, as nodes do.
	passEvery = pingEvery
	pageEvery = 2 * passEvery
	lookEvery = 2 * passEvery
	// exploreEvery is one in how many of an owner's downloads another node makes, as nodes do it.
	exploreEvery = 67
	// doubtAfter is how long a node without downloads believes what it has learnt of itself, as nodes do.
	doubtAfter = 30 * time.Second
	// A node that is never asked again would be waited for forever.
	recoverMost = 5 * time.Minute
)

// recovery is what became of the choices after a change.
type recovery struct {
	// at is the choice ratio, of the servers that the change concerns, just after it; after that once the node has made the
	// downloads.
	at, after float64
	// whole is the choice ratio of all servers then.
	whole float64
	// servers is how many it concerns, moved how many of all have changed hands since.
	servers, moved int
	// needed is how many of its downloads it took until the ratio was under the limit for good; the bound if it never was.
	needed int
}

// crawl goes on after a decision: owners download, learn, and give servers up that are better off elsewhere.
type crawl struct {
	world    *World
	overlay  *overlay
	cfg      assign.Config
	owner    []int
	memory   []assign.Memory
	made     map[[2]int]int
	last     []time.Time // of each node's downloads
	explored int
	count    []int // downloads by node
}

func newCrawl(ctx context.Context, w *World) (*crawl, error) {
	d, err := decide(ctx, w, assign.Nearest)
	if err != nil {
		return nil, err
	}
	c := &crawl{world: w, overlay: d.overlay, cfg: w.cfg.budgeted(), owner: slices.Clone(d.nodes), made: map[[2]int]int{},
		last: make([]time.Time, len(w.nodes)), count: make([]int, len(w.nodes))}
	for j, s := range w.servers {
		c.memory = append(c.memory, d.memory(s.addr))
		for _, i := range d.estimates[j] {
			c.made[[2]int{i, j}]++
		}
	}
	for i := range c.last {
		c.last[i] = c.overlay.now
	}
	return c, nil
}

// ratio is the choice ratio of some servers as things are, 1 for none.
func (c *crawl) ratio(servers []int) float64 {
	var sum, best float64
	for _, j := range servers {
		sum += c.world.Expected(c.owner[j], j)
		best += c.world.Expected(c.world.best(j), j)
	}
	if len(servers) == 0 {
		return 1
	}
	return sum / best
}

// concerned are the servers that a change of a node makes a difference to: those that it has, and those that it should have
// before or after.
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

// download is one download by a node.
func (c *crawl) download(node, server int) {
	w, o := c.world, c.overlay
	t := w.download(node, server, c.made[[2]int{node, server}])
	c.made[[2]int{node, server}]++
	c.count[node]++
	c.last[node] = o.now
	m := &c.memory[server]
	m.Observe(w.nodes[node].id, o.coords[node].Coordinate(), t, o.now)
	if c.owner[server] != node {
		m = nil // who does not have the lease does not have the memory
	}
	o.learn(node, server, t, m)
}

// pass is passEvery of crawling; stop ends it at once. Whether they are better off elsewhere is asked of some servers only: it
// takes the most time.
func (c *crawl) pass(look []int, stop func() bool) {
	w, o := c.world, c.overlay
	o.ping()
	const turns = int(pageEvery / passEvery)
	turn := int(o.now.Unix()/int64(passEvery/time.Second)) % turns
	for j := range w.servers {
		if j%turns != turn {
			continue
		}
		node := c.owner[j]
		if c.explored++; c.explored%exploreEvery == 0 {
			if id, ok := assign.Scout(c.cfg, &c.memory[j], o.viewOf(node), w.nodes[node].id); ok {
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

// look gives servers to better nodes.
func (c *crawl) look(servers []int) {
	for _, j := range servers {
		owner := c.owner[j]
		if id, _, ok := assign.Better(c.cfg, &c.memory[j], c.overlay.viewOf(owner), c.world.nodes[owner].id); ok {
			c.owner[j] = c.world.index[id]
		}
	}
}

// recover changes a node and looks how the choices of the servers that it concerns are once the node has made so many
// downloads.
func (c *crawl) recover(ctx context.Context, node int, what change, downloads int, limit float64) (r recovery, err error) {
	owners := slices.Clone(c.owner)
	servers := c.concerned(node, what)
	r.at = c.ratio(servers)
	begun, end := c.count[node], c.overlay.now.Add(recoverMost)
	made := func() int { return c.count[node] - begun }
	enough := func() bool { return made() >= downloads }
	under := r.at < limit
	for !enough() && c.overlay.now.Before(end) {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		c.pass(servers, enough)
		if is := c.ratio(servers) < limit; is != under {
			if under = is; is {
				r.needed = made()
			}
		}
	}
	// What the last downloads showed counts: the nodes publish it, and look once more.
	c.overlay.publish()
	c.look(servers)
	r.after = c.ratio(servers)
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
	r.servers, r.whole = len(servers), c.ratio(c.all())
	return r, nil
}

// hardest is the node that loses the most time, over all servers, by a change: with the node that has the most servers, mostly
// fast ones, hardly anything happens.
func (c *crawl) hardest(what change) int {
	worst, most := 0, -1.0
	for i := range c.world.nodes {
		was := c.world.nodes[i]
		c.change(i, what)
		lost := 0.0
		for j, owner := range c.owner {
			if owner == i {
				lost += c.world.Expected(i, j) - c.world.Expected(c.world.best(j), j)
			}
		}
		c.world.nodes[i] = was
		if lost > most {
			worst, most = i, lost
		}
	}
	return worst
}

// all are all servers.
func (c *crawl) all() []int {
	all := make([]int, len(c.owner))
	for j := range all {
		all[j] = j
	}
	return all
}

// settle crawls for a while, so that what happened before is over.
func (c *crawl) settle(ctx context.Context, passes int) error {
	all := c.all()
	for range passes {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.pass(all, func() bool { return false })
	}
	return nil
}
