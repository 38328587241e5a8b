package ownership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/node/view"
	"proxima/node/wire"
)

// rights are what the homes of this node's hosts have said: without their word no host is crawled. They are used under
// the lock of Ownership.
type rights struct {
	// answered is, by home, when the latest renewals were sent that it agreed to.
	answered map[string][]time.Time
	// unconfirmed are hosts owned here that their home has not confirmed yet.
	unconfirmed map[string]claimed
	// due are the homes that must hear soon what this node owns, if it is only that it owns nothing.
	due map[string]bool
}

// claimed is a host that this node claims.
type claimed struct {
	record Record
	// handed says that its former owner gave it: the home need not wait for that one.
	handed bool
}

func newRights() rights {
	return rights{answered: make(map[string][]time.Time), unconfirmed: make(map[string]claimed), due: make(map[string]bool)}
}

// agreed notes that a home has answered a renewal sent then.
func (g *rights) agreed(home string, sent time.Time, keep time.Duration) {
	times := slices.DeleteFunc(g.answered[home], func(at time.Time) bool { return sent.Sub(at) > keep })
	g.answered[home] = append(times, sent)
}

// claimLocked suspends a host until its home has confirmed this node as the owner.
func (o *Ownership) claimLocked(r Record, handed bool) {
	if v := o.views.Now(); v.Home(r.Host) != v.Self {
		o.rights.unconfirmed[r.Host] = claimed{r, handed}
		signal(o.renew)
	}
	signal(o.check)
}

// suspended says why a host must not be crawled here now, "" if it may.
func (o *Ownership) suspended(host string, r Record, known bool, now time.Time) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	v := o.views.Now()
	_, unconfirmed := o.rights.unconfirmed[host]
	_, leaving := o.proposals[host]
	awaited, waits := o.awaited[host]
	switch home := v.Home(host); {
	case !v.Majority:
		return "this node does not see a majority of the nodes"
	case !known || r.Owner != v.Self:
		return "another node owns it"
	case leaving:
		return "it is being handed over"
	case waits && now.Sub(awaited) < o.cfg.Collect:
		return "it was taken over, and its replica has not come yet"
	case home == v.Self && o.collectingLocked(host, now):
		return "this node, its home, is finding out who owns it"
	case home == v.Self && now.Before(o.census.contested[host]):
		return "its former owner may not know yet that it is no longer"
	case o.silentLocked(v, host, now):
		return "the node that keeps its replica does not answer"
	case home == v.Self:
		return ""
	case !o.answeredLocked(host, now):
		return "its home does not answer"
	case unconfirmed:
		return "its home has not confirmed the owner yet"
	}
	return ""
}

// answeredLocked says whether the home of a host has agreed to a renewal lately. What a former home agreed to holds as
// long as it would have: the next one takes nothing over before that.
func (o *Ownership) answeredLocked(host string, now time.Time) bool {
	return o.views.Ever(now, func(v *view.View, from, until time.Time) bool {
		return slices.ContainsFunc(o.rights.answered[v.Home(host)], func(at time.Time) bool {
			// Only while it was the host's home did it answer for this host.
			return now.Sub(at) <= o.cfg.FenceAfter && !at.Before(from) && !at.After(until)
		})
	})
}

// runChecks tells the frontier which hosts of its workbench may be crawled: after every change, and as time passes.
func (o *Ownership) runChecks(ctx context.Context) error {
	return again(ctx, o.check, o.cfg.SilentAfter/5, func(bool) error { return o.checkHosts(o.deps.Frontier.Active) })
}

// runUnchecked tells the frontier whether hosts that have come onto its workbench may be crawled.
func (o *Ownership) runUnchecked(ctx context.Context) error {
	for {
		hosts, err := o.deps.Frontier.Unchecked(ctx)
		if err != nil {
			return err
		}
		if err := o.checkHosts(func() []string { return hosts }); err != nil {
			return err
		}
	}
}

func (o *Ownership) checkHosts(hosts func() []string) error {
	o.checking.Lock()
	defer o.checking.Unlock()
	now := time.Now()
	reasons := make(map[string]string)
	for _, host := range hosts() {
		r, ok, err := o.records.get(host)
		if err != nil {
			return err
		}
		reasons[host] = o.suspended(host, r, ok, now)
	}
	if len(reasons) > 0 {
		o.deps.Frontier.Suspend(reasons)
	}
	return nil
}

// retryRenewal is the pause after the first renewal that a home did not agree to; it doubles.
const retryRenewal = 500 * time.Millisecond

// runRenewals keeps the homes of this node's hosts informed: all of them now and then, and some at once.
func (o *Ownership) runRenewals(ctx context.Context) error {
	tick := time.NewTicker(o.cfg.RenewEvery)
	defer tick.Stop()
	retry := time.NewTimer(o.cfg.RenewEvery)
	defer retry.Stop()
	pause := retryRenewal
	for all := true; ; {
		if o.renewAll(ctx, all) {
			retry.Stop()
		} else {
			retry.Reset(pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.renew:
			all, pause = false, retryRenewal
		case <-retry.C:
			all, pause = false, min(2*pause, o.cfg.RenewEvery)
		case <-tick.C:
			all = true
		}
	}
}

// renewAll shows homes that this node lives: all, or those that have to hear of it soon. It says whether there is
// nothing to be repeated soon.
func (o *Ownership) renewAll(ctx context.Context, all bool) bool {
	o.mu.Lock()
	if o.tallies.counting {
		o.mu.Unlock()
		return true // who has counted renews
	}
	v := *o.views.Now()
	homes := o.dueLocked()
	if all {
		for home := range o.tallies.owned {
			homes[home] = true
		}
	}
	o.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(16)
	for home := range homes {
		g.Go(func() error {
			agreed, err := o.renewAt(ctx, home)
			o.mu.Lock()
			if o.rights.due[home] = !agreed; agreed {
				delete(o.rights.due, home)
			}
			o.mu.Unlock()
			if err != nil && ctx.Err() == nil && v.IsAlive(home) {
				o.warn(fmt.Errorf("renew at %s: %w", home, err))
			}
			return nil
		})
	}
	_ = g.Wait()
	signal(o.check)
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.dueLocked()) == 0
}

// dueLocked are the homes to renew with soon: those that have not heard from this node in this view, and those of hosts
// that they have not confirmed; and members of which this node, as a home, has not heard yet, so that they tell it.
func (o *Ownership) dueLocked() map[string]bool {
	v := o.views.Now()
	due := make(map[string]bool)
	for home := range o.rights.due {
		due[home] = true
	}
	for host := range o.rights.unconfirmed {
		due[v.Home(host)] = true
	}
	for _, id := range v.Settled {
		if !o.census.told[id] {
			due[id] = true
		}
	}
	maps.DeleteFunc(due, func(id string, _ bool) bool {
		return id == v.Self || !v.IsAlive(id) || !slices.Contains(v.Settled, id)
	})
	return due
}

// renewAt renews with one home: unconfirmed hosts are claimed one by one, then the tallies compared, and where they differ
// all hosts are claimed. It says whether the home agreed.
func (o *Ownership) renewAt(ctx context.Context, home string) (agreed bool, err error) {
	if err := o.confirm(ctx, home); err != nil {
		return false, err
	}
	o.mu.Lock()
	t := o.tallies.owned[home]
	req := &wire.RenewRequest{Count: t.count, Digest: t.digest, Members: view.Digest(o.views.Now().Settled), Tell: !o.census.told[home]}
	o.mu.Unlock()
	sent := time.Now()
	res, err := o.deps.Peers.Renew(ctx, home, req)
	if err != nil {
		return false, err
	}
	if !res.GetAgreed() {
		sent = time.Now()
		if all, err := o.claimAll(ctx, home); err != nil || !all {
			return false, err
		}
	}
	o.mu.Lock()
	o.rights.agreed(home, sent, o.cfg.FenceAfter)
	o.mu.Unlock()
	return true, nil
}

// claimsPerMessage bounds one message of claims.
const claimsPerMessage = 1000

// confirm claims the hosts that came here lately, so that they can be crawled before the next renewal.
func (o *Ownership) confirm(ctx context.Context, home string) error {
	req := &wire.ClaimRequest{}
	o.mu.Lock()
	for host, c := range o.rights.unconfirmed {
		if o.views.Now().Home(host) == home && len(req.Records) < claimsPerMessage {
			req.Records = append(req.Records, c.record.wire())
			req.Handed = append(req.Handed, c.handed)
		}
	}
	o.mu.Unlock()
	if len(req.Records) == 0 {
		return nil
	}
	_, err := o.claim(ctx, home, req)
	return err
}

// claimAll tells a home of all its hosts that are owned here. It reports whether the home knew them all as its own.
func (o *Ownership) claimAll(ctx context.Context, home string) (all bool, err error) {
	all = true
	v := o.view()
	req := &wire.ClaimRequest{First: true}
	send := func() error {
		done, err := o.claim(ctx, home, req)
		all = all && done
		req = &wire.ClaimRequest{}
		return err
	}
	err = o.records.visit(func(r Record) error {
		if r.Owner != v.Self || v.Home(r.Host) != home {
			return nil
		}
		req.Records = append(req.Records, r.wire())
		if len(req.Records) == claimsPerMessage {
			return send()
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	req.Last, req.Members = true, view.Digest(v.Settled)
	return all, send()
}

// claim sends one message and does what the answer says.
func (o *Ownership) claim(ctx context.Context, home string, req *wire.ClaimRequest) (all bool, err error) {
	res, err := o.deps.Peers.Claim(ctx, home, req)
	if err != nil {
		return false, fmt.Errorf("claim %d hosts: %w", len(req.GetRecords()), err)
	}
	asked, not := make(map[string]bool), make(map[string]bool)
	for _, w := range req.GetRecords() {
		asked[w.GetHost()] = true
	}
	for _, w := range res.GetNewer() {
		if r, ok := fromWire(w); ok && asked[r.Host] {
			not[r.Host] = true
			if err := o.obey(r); err != nil {
				return false, err
			}
		}
	}
	for _, host := range res.GetLater() {
		not[host] = true
	}
	for _, host := range res.GetContested() {
		not[host] = true
		if _, _, err := o.edit(host, func(r Record, ok bool) (Record, bool) {
			if _, claims := o.rights.unconfirmed[host]; ok && r.Owner == o.views.Now().Self && !claims {
				o.rights.unconfirmed[host] = claimed{record: r} // this host waits, the others go on
			}
			return r, false
		}); err != nil {
			return false, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range req.GetRecords() {
		if u, ok := o.rights.unconfirmed[w.GetHost()]; ok && u.record.Epoch == w.GetEpoch() && !not[w.GetHost()] {
			delete(o.rights.unconfirmed, w.GetHost())
			signal(o.check)
		}
	}
	return len(res.GetLater()) == 0, nil
}

// obey takes a newer record over. If the host was owned here it is suspended at once, and what is here goes to its owner.
func (o *Ownership) obey(newer Record) error {
	lost := false
	_, changed, err := o.edit(newer.Host, func(r Record, ok bool) (Record, bool) {
		if ok && !newer.Newer(r) {
			return r, false
		}
		if lost = ok && r.Owner == o.views.Now().Self && newer.Owner != r.Owner; lost {
			o.counts.Obeyed++
		}
		return newer, true
	})
	if err != nil || !changed {
		return err
	}
	if lost {
		o.deps.Event(Event{Kind: Obeyed, Record: newer, Peer: newer.Owner})
		signal(o.check)
	}
	o.queue.add(newer.Host, lost)
	return nil
}
