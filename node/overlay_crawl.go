package node

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/ncoord"
	"proxima/node/crawl"
	"proxima/node/ownership"
	"proxima/node/placement"
	"proxima/node/runlog"
)

// tellLoop connects the crawl loop with the overlay.
func (o *overlay) tellLoop(loop *crawl.Deps) {
	loop.Overlay, loop.Limits = visits{o.owners, o}, o.limits
	loop.Elsewhere = func(host string) bool { return o.whoHasFiles(host) != "" }
}

// visits is the overlay as the crawl loop sees it. The owners route its links.
type visits struct {
	*ownership.Ownership
	overlay *overlay
}

// Begin implements crawl.Overlay.
func (v visits) Begin(task *frontier.Task) (crawl.Visit, bool) {
	o := v.overlay
	if task.IsRemoteFetch() {
		work, ok := o.remote.Start(task.Tag)
		if !ok {
			return crawl.Visit{}, false
		}
		return crawl.Visit{Fresh: work.Fresh, Quiet: work.Quiet, Until: work.Until, MayAsk: work.MayAsk, Label: strings.Join(work.Labels, ","),
			Batch: work.Batch, Home: work.From, Epoch: work.Epoch}, true
	}
	r, _, err := o.owners.Record(task.Host)
	if err != nil {
		o.node.warn(err)
	}
	visit := crawl.Visit{Home: o.owners.HomeOf(task.Host), Epoch: r.Epoch, MayAsk: func() error { return o.holder.MayAsk(task.Server) }}
	if r.Assigned {
		visit.Label = o.node.cfg.Batch.Assigners[0]
	}
	return visit, true
}

// Ended implements crawl.Overlay. Nodes and servers are placed by what is learnt here.
func (v visits) Ended(task *frontier.Task, d crawl.Download) {
	o := v.overlay
	t := assign.Timing{Connect: d.Timing.Connect, TLS: d.Timing.TLS, FirstByte: d.Timing.FirstByte, Total: d.Timing.Total, Bytes: d.Bytes}
	if d.HTML {
		o.placement.Downloaded()
		o.self.downloaded(t.Total)
	}
	if task.IsRemoteFetch() {
		o.remote.Finished(task.Tag, placement.Result{Outcome: d.Outcome, Status: d.Status, Timing: t, HTML: d.HTML})
		if d.HTML {
			o.self.learn(task.Server, t, nil, o.peers()) // only the holder of its lease knows the server
		}
		return
	}
	if !d.HTML || task.Kind != frontier.Page {
		return
	}
	o.holder.Observed(task.Server, o.node.id.Node, o.members.Coordinate(), t)
	o.self.learn(task.Server, t, func() (*assign.Memory, bool) { return o.holder.Memory(task.Server) }, o.peers())
}

// enqueue puts a remote fetch for a peer into the frontier.
func (o *overlay) enqueue(work *placement.Work) bool {
	origin := frontier.Estimate
	if work.Assigned {
		origin = frontier.Assigned
	}
	return o.node.frontier.Enqueue(frontier.RemoteFetch{URL: work.URL, Server: work.Server, Origin: origin, Depth: work.Depth,
		Hops: work.Hops, Attempt: work.Attempt, Tag: work})
}

// mayDial returns why an address must never be dialled.
func (n *Node) mayDial(addr netip.Addr) error {
	class, err := n.client.Check(addr)
	if err != nil {
		return fmt.Errorf("%s: %w", class, err)
	}
	return nil
}

// coordinate returns this node's coordinate for its answers to remote fetches.
func (o *overlay) coordinate() (ncoord.Coordinate, bool) {
	c := o.members.Coordinate()
	return c, c.Check() == nil
}

// place makes the placement, which carries out its decisions by the crawl loop.
func (o *overlay) place(loop *crawl.Loop) {
	n := o.node
	o.placement = placement.New(n.cfg.Batch, placement.Deps{
		Self: n.id.Node, Boot: n.id.Boot, Assign: n.cfg.Assign.Config(), Frontier: n.frontier, Leases: o.holder, Owners: o.owners,
		Crawler: loop, Fetch: o.remote.Do, Locate: n.atlas.locate, JoinEvery: n.cfg.Ownership.RenewEvery,
		LeaseFor: n.cfg.Lease.Window(),
		Assigned: n.runlog.Assign, Placed: o.logProxy,
		LeftOut: func(host, reason string, urls int) {
			n.runlog.Events().Warn(runlog.EventHostLeftOut, runlog.KeyHost, host, runlog.KeyReason, reason, runlog.KeyCount, urls)
		},
		Trouble: n.warn,
	})
}

// meter tells the quota what this node has spent, and carries out what the quota allows.
type meter struct {
	*crawl.Limits
	overlay *overlay
}

// End ends the crawl at this node.
func (m meter) End(limit string) {
	m.overlay.sayOver(limit + " is reached")
	m.Limits.End(limit)
}

// doubtAfter is how long a node without downloads trusts what it has learnt about itself. After that it trusts it less and less.
const doubtAfter = 30 * time.Second

// performance is what this node learns about itself from its downloads.
type performance struct {
	self string

	// mu guards what follows.
	mu     sync.Mutex
	own    *assign.Own
	learnt time.Time     // when own last learnt or was made to doubt
	mean   time.Duration // moving average of the time of a download
}

func newPerformance(self string) *performance {
	return &performance{self: self, own: assign.NewOwn(assign.Factors{})}
}

// downloaded counts a download for the average.
func (p *performance) downloaded(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mean += (took - p.mean) / 16
}

// learn learns from a download. memory returns what is known of the server, or false if that is nothing. It is called only if needed,
// because it copies.
func (p *performance) learn(server netip.Addr, t assign.Timing, memory func() (*assign.Memory, bool), peers assign.View) {
	now := time.Now()
	p.mu.Lock()
	due := p.own.Due(now)
	p.mu.Unlock()
	var m *assign.Memory
	if memory != nil && due {
		var known bool
		if m, known = memory(); !known {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnt = now
	p.own.Observe(p.self, server, t, m, peers, now)
}

// factors returns how this node differs from what its coordinate predicts. Without downloads it becomes less and less sure: a node that
// was slow once would otherwise never be asked again.
func (p *performance) factors(now time.Time) assign.Factors {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.own.Factors()
	if now.Sub(p.learnt) > doubtAfter {
		p.own, p.learnt = assign.NewOwn(f), now
	}
	return f
}

// wait returns how long a new task would wait here: until the fetchers have finished the servers that are ready.
func (p *performance) wait(ready, inFlight, fetchers int) time.Duration {
	if inFlight < fetchers {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(ready+1) * p.mean / time.Duration(fetchers)
}
