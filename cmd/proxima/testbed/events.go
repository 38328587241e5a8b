package testbed

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"proxima/cmd/proxima/rundir"
)

// applyDueEvents applies the events that are due. It records each in the world with the actual time.
func (r *run) applyDueEvents(ctx context.Context, since time.Duration) error {
	for len(r.events) > 0 && r.events[0].At <= since {
		e := r.events[0]
		r.events = r.events[1:]
		done, err := r.applyEvent(ctx, e)
		if err != nil {
			return fmt.Errorf("event %s at %v: %w", e.Kind, e.At, err)
		}
		done.Kind, done.AtS = e.Kind, time.Since(r.world.Started).Seconds()
		r.world.Events = append(r.world.Events, done)
		what, target, _ := done.Words()
		r.out.Say("%s  %s: %s", clock(time.Since(r.world.Started)), cmp.Or(e.Server, target, "all nodes"), what)
	}
	return nil
}

// applyEvent applies an event and returns it as the world records it.
func (r *run) applyEvent(ctx context.Context, e Event) (rundir.Event, error) {
	i := -1
	if e.Node != "" || e.BusiestOf != "" {
		i = r.target(ctx, e)
	}
	var done rundir.Event
	if i >= 0 {
		done.Node = r.plan.Nodes[i].Name
	}
	switch e.Kind {
	case rundir.EventBandwidth:
		done.Factor = e.Factor
		n := r.plan.Nodes[i]
		return done, r.platform.SetBandwidth(n.Addr, n.Up*e.Factor, n.Down*e.Factor)
	case rundir.EventCPU:
		share := e.Factor * r.plan.Nodes[i].CPU
		done.Factor, done.AddMs = e.Factor, micro(loadMs(share)-r.plan.Nodes[i].LoadMs)
		r.shares[i] = share
		if l := r.running[i]; l != nil {
			l.setShare(share)
		}
	case rundir.EventSlow:
		k := slices.IndexFunc(r.plan.Servers, func(s PlannedServer) bool { return s.Name == e.Server })
		done.Server, done.AddMs = r.plan.Servers[k].Addr, e.AddMs
		return done, r.platform.Slow(done.Server, ms(e.AddMs))
	case rundir.EventKill:
		if l := r.running[i]; l != nil {
			l.kill()
			<-l.done()
			r.recordEnd(i)
		}
	case rundir.EventRestart:
		if r.running[i] != nil {
			return done, fmt.Errorf("%s is running", done.Node)
		}
		return done, r.start(ctx, i)
	case rundir.EventPartition, rundir.EventHeal:
		if e.Kind == rundir.EventPartition { // none is cut off otherwise
			done.Nodes = e.Nodes
		}
		var some, others []netip.Addr
		for _, n := range r.plan.Nodes {
			if slices.Contains(done.Nodes, n.Name) {
				some = append(some, n.Addr)
			} else {
				others = append(others, n.Addr)
			}
		}
		return done, r.platform.Partition(some, others)
	}
	return done, nil
}

// target returns the index of the node that an event applies to.
func (r *run) target(ctx context.Context, e Event) int {
	if e.Node != "" {
		return slices.IndexFunc(r.plan.Nodes, func(n PlannedNode) bool { return n.Name == e.Node })
	}
	if i, ok := r.busiest[e.BusiestOf]; ok {
		return i
	}
	best, most := -1, int64(-1)
	for i, n := range r.plan.Nodes {
		if n.Group != e.BusiestOf || r.running[i] == nil {
			continue
		}
		pages := int64(0)
		if s, err := r.running[i].status(ctx); err == nil {
			pages = s.Crawl.Pages
		}
		if pages > most {
			best, most = i, pages
		}
	}
	if best < 0 { // all are down
		best = slices.IndexFunc(r.plan.Nodes, func(n PlannedNode) bool { return n.Group == e.BusiestOf })
	}
	r.busiest[e.BusiestOf] = best
	return best
}
