package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"proxima/node/bell"
	"proxima/node/crawl"
	"proxima/node/ownership"
	"proxima/node/peer"
	"proxima/node/placement"
	"proxima/node/runlog"
	"proxima/node/termination"
)

// publish tells the peers what this node has learnt about itself, again and again.
func (o *overlay) publish(ctx context.Context) error {
	return bell.Every(ctx, 5*time.Second, func() {
		s, f := o.node.frontier.Status(), o.self.factors(time.Now())
		f.QueueMs = runlog.Ms(o.self.wait(s.Ready, s.InFlight, o.node.operator.live.Load().Crawl.Fetchers))
		o.members.SetFactors(f)
	})
}

// fallSilent lets the others take this node for dead while its disk does not answer. It can take nothing from them, but would still answer
// their probes: its hosts would stay with it, and the crawl could not end.
func (o *overlay) fallSilent(ctx context.Context) error {
	silent := false
	return bell.Every(ctx, time.Second, func() {
		hung := o.node.frontier.Hung()
		if hung == silent {
			return
		}
		silent = hung
		o.members.Silence(silent)
		log := o.node.runlog.Events() // the line waits for the disk, too
		if silent {
			log.Warn(runlog.EventOwnTrouble, runlog.KeyReason, "the disk does not answer: this node is silent until it does, so that others go on without it")
		} else {
			log.Info(runlog.EventOwnTroubleOver, runlog.KeyReason, "the disk answers again")
		}
	})
}

const (
	// refuseAfter is how long a node waits for the web before it refuses hosts of others. Nodes that lose it together refuse before one evacuates.
	refuseAfter = 5 * time.Minute
	// evacuateAfter is how long it waits before it hands its own hosts to others. Most outages are shorter.
	evacuateAfter = 10 * time.Minute
)

// evacuate hands the hosts of this node to others while it has been without the web for long: they may have it. A host that comes to it
// meanwhile is tried, so that it finds out when it has the web again, and handed over, too. What its operator has paused stays here.
func (o *overlay) evacuate(ctx context.Context) error {
	without := func() bool { return o.node.frontier.Troubled() && !o.node.told.paused() }
	var since time.Time
	return bell.Every(ctx, time.Minute, func() {
		switch now := time.Now(); {
		case !without():
			since = time.Time{}
			o.owners.Refuse(false)
		case since.IsZero():
			since = now
		case now.Sub(since) >= evacuateAfter:
			if err := o.owners.Evacuate(ctx, "this node is without the web", without); err != nil && ctx.Err() == nil {
				since = now // it does not try again soon
				o.node.warn(err)
			}
		case now.Sub(since) >= refuseAfter:
			o.owners.Refuse(true)
		}
	})
}

// sendStranded hands hosts that this node cannot reach to others, which may.
func (o *overlay) sendStranded(ctx context.Context) error {
	f := o.node.frontier
	return bell.Every(ctx, 10*time.Second, func() {
		bell.Each(8, f.Stranded(), func(host string) {
			taken, err := false, f.CannotReach(ctx, host, false)
			if err == nil {
				taken, err = o.owners.Offer(ctx, host, "this node cannot reach it")
			}
			if err != nil || taken {
				return // if it cannot leave now, it is stranded again when it fails next, or when the crawl would end
			}
			if err := f.CannotReach(ctx, host, true); err != nil && ctx.Err() == nil {
				o.node.warn(err)
			}
		})
	})
}

// sayOver tells the peers that the crawl is over, so that they do not take over this node's hosts when it leaves.
func (o *overlay) sayOver(why string) {
	o.node.runlog.Events().Info(runlog.EventOver, runlog.KeyReason, why)
	if err := o.members.Over(); err != nil {
		o.node.warn(err)
	}
}

// endless says why the crawl does not end by itself as long as this node is there, "" if it may. One such node is enough: the others would leave
// it without a majority.
func (o *overlay) endless() string {
	switch c := o.node.cfg; {
	case c.Crawl.End != crawl.EndIdle:
		return fmt.Sprintf("its crawl.end is %q", c.Crawl.End)
	case c.Batch.Mode == placement.ModePersistent:
		return fmt.Sprintf("its batch.mode is %q", c.Batch.Mode)
	case c.Recrawl.Enabled && !c.Recrawl.Once():
		return "it visits pages again (recrawl.enabled)"
	}
	return ""
}

// terminationState says whether this node has anything left to do.
func (o *overlay) terminationState() termination.State {
	var s termination.State
	quiet := o.node.frontier.Idle(o.node.operator.live.Load().Crawl.Patience)
	f, h, out := o.node.frontier.Status(), o.owners.Counts(), o.outbox.Stats()
	switch endless := o.endless(); {
	case endless != "":
		s.Why = endless
	case !o.seeded.Load():
		s.Why = "its seeds are not acknowledged"
	case !quiet && f.Paused != "":
		s.Why = "it downloads no page now: " + f.Paused
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
	s.Counters = f.Accepted + f.Done + f.Failed + h.HandedOff + h.Received + h.Taken + h.Obeyed + h.LinksRouted + h.LinksDelivered +
		out.Accepted + out.Duplicate + out.Refused
	return s
}

// ownerEvent logs a change of an owner, and tells those who remember something of the host.
func (o *overlay) ownerEvent(e ownership.Event) {
	j := o.node.runlog
	j.Member(runlog.Member{Change: string(e.Kind), Peer: e.Peer, Host: e.Record.Host, Epoch: e.Record.Epoch, Reason: e.Reason})
	if e.Kind == ownership.Received && e.Record.Assigned {
		// The lease comes once the former owner has released it. Until then the host is not sent back for want of it.
		o.placement.Received(e.Record.Host, o.node.cfg.Lease.ReleaseAfter()+2*o.node.cfg.Lease.HeldRetry())
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

// followSecret changes to the secret in the file, if it is another one. If the file cannot be read or followed, the secret stays.
func (o *overlay) followSecret() error {
	path := o.node.cfg.Peer.Secret
	next, err := peer.Load(path)
	if err != nil {
		return fmt.Errorf("the secret stays as it was: %w", err)
	}
	now := o.secret.Load()
	if now.Equal(next) {
		return nil
	}
	if err := now.Follow(next); err != nil {
		return fmt.Errorf("the secret stays as it was: %s: %w; proxima keygen -rotate has the steps, and a restart takes the file as it is", path, err)
	}
	if err := errors.Join(o.members.Rekey(next.GossipKeys()), o.server.Rekey(next), o.client.Rekey(next), o.node.client.SetKey(next.SiteKeys()[0])); err != nil {
		return err
	}
	o.secret.Store(next)
	o.node.runlog.Events().Info(runlog.EventSecret, runlog.KeyReason, next.Describe())
	return nil
}
