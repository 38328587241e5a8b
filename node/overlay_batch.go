package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	mrand "math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/batch"
	"proxima/node/journal"
	"proxima/node/lease"
	"proxima/node/placement"
)

// batchDeps connects the batches with the rooms that carry them out.
func (o *overlay) batchDeps() batch.Deps {
	n := o.node
	return batch.Deps{
		Self: n.id.Node, Boot: n.id.Boot, Assign: n.cfg.Assign, Frontier: o.reserver, Keeper: o.holder,
		Holder: func(err error) (string, bool) {
			var held *lease.HeldError
			if errors.As(err, &held) {
				return held.Holder, true
			}
			return "", false
		},
		Do:   o.do,
		Mine: o.home.Mine,
		HandOff: func(ctx context.Context, host, to, reason string) error {
			return o.home.HandOff(ctx, host, to, true, reason)
		},
		Crawl:  func(ctx context.Context, task *frontier.Task) error { return n.loop.Do(ctx, task) },
		Refuse: func(task *frontier.Task) (string, error) { return n.loop.Refuse(task) },
		Gap:    n.frontier.Gap,
		Locate: o.atlas.locate,
		Paused: func() string {
			o.mu.Lock()
			defer o.mu.Unlock()
			if !o.view.Majority {
				return o.view.Reason
			}
			return ""
		},
		Assigned: o.assigned,
		LeftOut: func(host, reason string, urls int) {
			n.journal.Events().Warn(journal.EventHostLeftOut, journal.KeyHost, host, journal.KeyReason, reason, journal.KeyCount, urls)
		},
		Own:     n.frontier.OwnServer,
		Trickle: n.frontier.SetPace,
		Trouble: n.warn,
	}
}

// do lets a node download a page for a batch.
func (o *overlay) do(ctx context.Context, to string, e batch.Errand) (batch.Result, error) {
	r, _, err := o.home.Record(e.URL.Host)
	if err != nil {
		return batch.Result{}, err
	}
	x := placement.RemoteFetch(e)
	x.Epoch = r.Epoch
	res, err := o.remote.Do(ctx, to, x)
	return batch.Result(res), err
}

// assigned logs what an assigner decided.
func (o *overlay) assigned(d batch.Decision) {
	o.node.journal.Assign(journal.Assign{Decided: true, Batch: d.Batch, Label: d.Label, Host: d.Host, Server: d.Server.String(),
		Owner: d.Node, URLs: d.URLs, PredictedMs: d.PredictedMs, Estimates: d.Estimates, Accuracy: d.Error, Seconds: d.Seconds, Reason: d.Reason})
}

// exploreShare is the share of a node's own downloads that others make, so that one that recovered is noticed.
const exploreShare = batch.ExploreShare

// betterFor is how long others must be better before a server moves, to the best of them then: of two that are equally
// good now this one is the best, now that one.
const betterFor = 30 * time.Second

// reconsider looks from time to time whether another node should have the servers that this node has.
func (o *overlay) reconsider(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		o.mu.Lock()
		maps.DeleteFunc(o.held, func(_ string, at time.Time) bool { return time.Since(at) > time.Minute })
		o.mu.Unlock()
		if o.cfg.Batch.Mode == batch.ModeCrawl || o.cfg.Batch.Mode == batch.ModePersistent || len(o.cfg.Batch.Assigners) > 1 ||
			o.cfg.Batch.Assigners[0] != assignNearest {
			continue // the other assigners have no way back
		}
		held := o.holder.Held()
		o.mu.Lock()
		maps.DeleteFunc(o.meant, func(addr netip.Addr, _ time.Time) bool { return !slices.Contains(held, addr) })
		o.mu.Unlock()
		for _, addr := range held {
			o.reconsiderServer(addr, time.Now())
		}
		o.explore(ctx)
	}
}

// reconsiderServer has the hosts of a server moved if another node has been the better one for long enough.
func (o *overlay) reconsiderServer(addr netip.Addr, now time.Time) {
	m, ok := o.holder.Memory(addr)
	if !ok {
		return
	}
	node, gain, ok := o.better(m)
	o.mu.Lock()
	was, meant := o.meant[addr]
	switch {
	case !ok:
		delete(o.meant, addr)
	case !meant:
		o.meant[addr] = now
	}
	o.mu.Unlock()
	if !ok || !meant || now.Sub(was) < betterFor {
		return
	}
	for _, host := range o.node.frontier.HostsAt(addr) {
		if r, ok, err := o.home.Record(host); err == nil && ok && r.Assigned {
			o.home.WishMove(host, node, fmt.Sprintf("%.0f ms faster there", gain))
		}
	}
}

// leasedElsewhere hears that a server wanted here is another node's: its hosts join that node.
func (o *overlay) leasedElsewhere(addr netip.Addr, holder string) {
	if holder == "" || holder == o.node.id.Node || !o.alive(holder) {
		return
	}
	now := time.Now()
	for _, host := range o.node.frontier.HostsAt(addr) {
		o.mu.Lock()
		again := now.Sub(o.held[host]) < o.cfg.Home.RenewEvery
		if !again {
			o.held[host] = now
		}
		o.mu.Unlock()
		if !again {
			o.home.WishMove(host, holder, "its server is leased to that node")
		}
	}
}

// explorations is how many are to be made now; what is left of the share counts the next time.
func (o *overlay) explorations() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := int(o.due)
	o.due -= float64(n)
	return n
}

// explore lets others make a small share of this node's downloads. What cannot be made now is not made up for.
func (o *overlay) explore(ctx context.Context) {
	n := o.explorations()
	servers := o.holder.Held()
	for i := 0; i < len(servers) && n > 0; i++ { // Held is in no order
		if o.exploreServer(ctx, servers[i]) {
			n--
		}
	}
}

// exploreServer lets the node that would tell most download one page of a server; false if there is none.
func (o *overlay) exploreServer(ctx context.Context, addr netip.Addr) bool {
	m, ok := o.holder.Memory(addr)
	hosts := o.node.frontier.HostsAt(addr)
	if !ok || len(hosts) == 0 {
		return false
	}
	node, ok := assign.Explorer(o.cfg.Assign, m, o.peers(), o.node.id.Node, mrand.Float64)
	if r, had, err := o.home.Record(hosts[0]); !ok || err != nil || !had || !r.Assigned {
		return false
	}
	o.reserver.Reserve(addr, true)
	defer o.reserver.Reserve(addr, false)
	short, cancel := context.WithTimeout(ctx, 5*time.Second)
	task, err := o.node.frontier.TakeFrom(short, hosts[0], addr)
	cancel()
	if err != nil {
		return false
	}
	if task.Kind != frontier.Page {
		if err := o.node.loop.Do(ctx, task); err != nil && ctx.Err() == nil {
			o.node.warn(err)
		}
		return false
	}
	out := frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted}
	if reason, err := o.node.loop.Refuse(task); err != nil {
		o.node.warn(fmt.Errorf("explore %s: judge %s: %w", addr, task.URL, err))
	} else if reason != "" {
		out = frontier.Outcome{Ending: frontier.Dropped, Reason: reason}
	} else {
		e := batch.Errand{URL: task.URL, Server: addr, Labels: []string{assignNearest}, Assigned: true, Fresh: true,
			Depth: task.Depth, Hops: task.Hops, Attempt: task.Attempt}
		r, err := o.do(ctx, node, e)
		out = batch.Outcome(o.node.id.Node, node, r, err)
		if err == nil && !r.Unmade && r.HTML && r.Placed {
			o.holder.Observed(addr, node, r.Coord, r.Timing)
		}
	}
	if _, err := o.node.frontier.Finish(context.WithoutCancel(ctx), task, out); err != nil && ctx.Err() == nil {
		o.node.warn(err)
	}
	return true
}
