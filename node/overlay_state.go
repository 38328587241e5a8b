package node

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/node/crawl"
	"proxima/node/member"
	"proxima/node/ownership"
	"proxima/node/peer"
	"proxima/node/placement"
	"proxima/node/runlog"
	"proxima/node/termination"
)

// doubtAfter is how long a node without downloads believes what it has learnt about itself; then it is less and less sure.
const doubtAfter = 30 * time.Second

// publish tells the peers what this node has learnt about itself.
func (o *overlay) publish(ctx context.Context) error {
	return every(ctx, 5*time.Second, func() {
		wait := runlog.Ms(o.queueWait())
		o.members.SetLoad(wait)
		o.mu.Lock()
		f := o.own.Factors()
		if now := time.Now(); now.Sub(o.learnt) > doubtAfter {
			// Nobody would ask a node again that was slow when it was last asked.
			o.own, o.learnt = assign.NewOwn(f), now
		}
		o.mu.Unlock()
		f.QueueMs = wait
		o.members.SetFactors(f)
	})
}

// awaitEnd stops the node when the crawl has ended everywhere.
func (o *overlay) awaitEnd(ctx context.Context, stop func()) error {
	if o.cfg.Crawl.End != crawl.EndIdle || o.cfg.Batch.Mode == placement.ModePersistent {
		return nil
	}
	err := o.rounds.Run(ctx)
	select {
	case <-o.rounds.Over():
		stop()
	default:
	}
	return err
}

// terminationState says whether this node has anything left to do.
func (o *overlay) terminationState() termination.State {
	s := termination.State{}
	o.mu.Lock()
	s.Seeded = o.seeded
	o.mu.Unlock()
	quiet, _ := o.node.frontier.Idle(o.node.live.Load().Crawl.Patience)
	switch {
	case !s.Seeded:
		s.Why = "its seeds are not acknowledged"
	case !quiet:
		s.Why = "it has pages to download"
	case o.outbox.Pending() > 0:
		s.Why = fmt.Sprintf("%d links wait for other nodes", o.outbox.Pending())
	case o.placement.Busy():
		s.Why = "a batch is under way"
	case o.remote.Busy():
		s.Why = "pages are downloaded for other nodes"
	case o.owners.Busy():
		s.Why = "hosts change their owners"
	default:
		s.Idle = true
	}
	f, h, out := o.node.frontier.Status(), o.owners.Counts(), o.outbox.Stats()
	s.Counters = f.Accepted + f.Done + f.Failed + h.HandedOff + h.Received + h.Taken + h.Obeyed + h.LinksRouted + h.LinksDelivered +
		out.Accepted + out.Duplicate + out.Refused
	return s
}

// Logs.

func (o *overlay) memberEvent(e member.Event) {
	j := o.node.runlog
	if e.Kind == member.EventSample {
		j.Coord(runlog.Coord{Peer: e.ID, RTTMs: runlog.Ms(e.RTT), Vector: e.Coord.Vec[:], HeightMs: e.Coord.Height,
			Accuracy: e.Coord.Error, Refused: e.Reason})
		return
	}
	o.mu.Lock()
	settled, majority := len(o.view.Settled), o.view.Majority
	o.mu.Unlock()
	j.Member(runlog.Member{Change: e.Kind, Peer: e.ID, Address: e.Addr, Members: settled, Majority: majority, Reason: e.Reason})
	if e.Kind == member.EventDuplicate || e.Kind == member.EventMinority || e.Kind == member.EventAlone || e.Kind == member.EventTrouble && o.complain(e.Time) {
		o.node.warn(fmt.Errorf("%s: %s", e.Kind, e.Reason))
	}
}

// remindEvery is how often a node in a minority says what it waits for.
const remindEvery = 10 * time.Minute

// remind says again what a minority waits for: the node crawls nothing meanwhile.
func (o *overlay) remind(v member.View, now time.Time) {
	switch {
	case v.Majority || o.reminded.IsZero():
		o.reminded = now
	case now.Sub(o.reminded) >= remindEvery:
		o.reminded = now
		o.node.warn(fmt.Errorf("%s: %s", member.EventMinority, v.Reason))
	}
}

// complain says whether a person should hear of trouble with the gossip again: once a minute.
func (o *overlay) complain(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.grumbled) < time.Minute {
		return false
	}
	o.grumbled = now
	return true
}

func (o *overlay) ownerEvent(e ownership.Event) {
	j := o.node.runlog
	j.Member(runlog.Member{Change: e.Kind.String(), Peer: e.Peer, Host: e.Record.Host, Epoch: e.Record.Epoch, Reason: e.Reason})
	if e.Kind == ownership.Received && e.Record.Assigned {
		// The lease follows when its former owner has let it go: until then the host does not go back for it.
		o.placement.Received(e.Record.Host, o.cfg.Lease.ReleaseAfter()+2*o.cfg.Lease.HeldRetry())
	}
	switch e.Kind {
	case ownership.HandedOff:
		j.Assign(runlog.Assign{Host: e.Record.Host, Owner: e.Record.Owner, Epoch: e.Record.Epoch, Reason: e.Reason})
		o.node.loop.Moved(e.Record.Host)
	case ownership.NoCopy:
		o.node.loop.Forget(e.Record.Host)
	case ownership.Obeyed, ownership.Took, ownership.Received:
		o.node.loop.Moved(e.Record.Host)
	}
}

// proxyMoved logs where a server is and what is expected of each peer, as an assigner knows it, or as its owner does.
func (o *overlay) proxyMoved(label string, addr netip.Addr, m *assign.Memory) {
	line := runlog.Proxy{Label: label, Server: addr.String(), Vector: m.Proxy.Coord.Vec[:], HeightMs: m.Proxy.Coord.Height,
		Accuracy: m.Proxy.Coord.Error, Updates: m.Proxy.Updates, PageBytes: m.PageBytes, PredictedMs: map[string]float64{}}
	if think, _, ok := m.Think(); ok {
		line.ThinkMs = think
	}
	for i, p := range assign.Predictions(m, o.peers()) {
		if i == maxPredictions {
			break
		}
		line.PredictedMs[p.Node] = p.Ms
	}
	o.node.runlog.Proxy(line)
}

// maxPredictions bounds a line of the proxy log: the best nodes.
const maxPredictions = 64

// refused logs what a peer, or somebody else, said that could not be accepted.
func (o *overlay) refused(r peer.Refusal) {
	o.node.runlog.Events().Warn(runlog.EventRefused, runlog.KeyPeer, r.Peer, runlog.KeyKind, r.Kind,
		runlog.KeyReason, fmt.Sprintf("%s %s", r.Procedure, r.Reason), runlog.KeyCount, r.Skipped+1)
}
