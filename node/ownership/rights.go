package ownership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"proxima/node/bell"
	"proxima/node/view"
	"proxima/node/wire"
)

// rights knows which hosts this node may crawl, by what their homes have answered. The lock of the book guards the maps.
type rights struct {
	*book
	census     *census
	replicator *replicator
	// checking is held while the frontier is told, so that it hears of the latest state last.
	checking sync.Mutex

	answered    map[string][]time.Time // by home: when the latest renewals were sent that it agreed to
	unconfirmed map[string]claimed     // hosts owned here that their home has not confirmed yet
	renewing    map[string]bool        // homes with which a renewal is under way
	renewals    sync.WaitGroup         // the goroutines of those
}

// claimed is a host that this node claims.
type claimed struct {
	record Record
	handed bool // by its former owner, so the home need not wait until that one has stopped
}

func newRights(b *book, c *census, rep *replicator) *rights {
	return &rights{book: b, census: c, replicator: rep, answered: make(map[string][]time.Time), unconfirmed: make(map[string]claimed),
		renewing: make(map[string]bool)}
}

// agreedLocked notes that a home has agreed to a renewal. Earlier ones are kept for a while.
func (rg *rights) agreedLocked(home string, sent time.Time) {
	maps.DeleteFunc(rg.answered, func(_ string, at []time.Time) bool { return sent.Sub(at[len(at)-1]) > rg.cfg.SuspendAfter })
	times := slices.DeleteFunc(rg.answered[home], func(at time.Time) bool { return sent.Sub(at) > rg.cfg.SuspendAfter })
	rg.answered[home] = append(times, sent)
}

// claimLocked suspends a host until its home has confirmed this node as the owner.
func (rg *rights) claimLocked(r Record, handed bool) {
	if v := rg.views.Now(); v.Home(r.Host) != v.Self {
		rg.unconfirmed[r.Host] = claimed{r, handed}
		rg.renew.Ring()
	}
	rg.check.Ring()
}

// suspended returns why a host must not be crawled here now, "" if it may.
func (rg *rights) suspended(host string, r Record, now time.Time) string {
	rg.mu.Lock()
	defer rg.mu.Unlock()
	v := rg.views.Now()
	_, unconfirmed := rg.unconfirmed[host]
	_, leaving := rg.proposals[host]
	awaited, waits := rg.awaited[host]
	switch home := v.Home(host); {
	case !v.Majority:
		return "this node does not see a majority of the nodes"
	case r.Owner != v.Self:
		return "another node owns it"
	case leaving:
		return "it is being handed over"
	case waits && now.Sub(awaited) < rg.cfg.Collect:
		return "it was taken over, and its replica has not come yet"
	case home == v.Self && rg.census.collectingLocked(host, now):
		return "this node, its home, is finding out who owns it"
	case home == v.Self && now.Before(rg.census.contested[host]):
		return "its former owner may not know yet that it is no longer the owner"
	case rg.replicator.silentLocked(v, host, now):
		return "the node that keeps its replica does not answer"
	case home == v.Self:
		return ""
	case !rg.answeredLocked(host, now):
		return "its home does not answer"
	case unconfirmed:
		return "its home has not confirmed the owner yet"
	}
	return ""
}

// answeredLocked reports whether the home of a host has agreed to a renewal lately. An answer of a former home counts for as
// long as it would have: the new home takes nothing over before that.
func (rg *rights) answeredLocked(host string, now time.Time) bool {
	return rg.views.Ever(now, func(v *view.View, from, until time.Time) bool {
		return slices.ContainsFunc(rg.answered[v.Home(host)], func(at time.Time) bool {
			// It answered for this host only while it was the host's home.
			return now.Sub(at) <= rg.cfg.SuspendAfter && !at.Before(from) && !at.After(until)
		})
	})
}

// runChecks tells the frontier which hosts of its workbench are suspended, after every change and periodically.
func (rg *rights) runChecks(ctx context.Context) error {
	return bell.Loop(ctx, rg.check, rg.cfg.SilentAfter/5, func(bool) error { return rg.checkHosts(rg.deps.Frontier.Active) })
}

// runUnchecked tells the frontier whether hosts that are new on its workbench are suspended.
func (rg *rights) runUnchecked(ctx context.Context) error {
	for {
		hosts, err := rg.deps.Frontier.Unchecked(ctx)
		if err != nil {
			return err
		}
		if err := rg.checkHosts(func() []string { return hosts }); err != nil {
			return err
		}
	}
}

// checkHosts tells the frontier whether hosts are suspended, and why. It asks which hosts only when it is its turn.
func (rg *rights) checkHosts(hosts func() []string) error {
	rg.checking.Lock()
	defer rg.checking.Unlock()
	now := time.Now()
	reasons := make(map[string]string)
	for _, host := range hosts() {
		r, err := rg.records.get(host)
		if err != nil {
			return err
		}
		reasons[host] = rg.suspended(host, r, now)
	}
	if len(reasons) > 0 {
		rg.deps.Frontier.Suspend(reasons)
	}
	return nil
}

// retryRenewal is the pause after the first failed renewal. It doubles with each failure.
const retryRenewal = 500 * time.Millisecond

// runRenewals renews with all homes periodically, and with some as soon as they must hear something.
func (rg *rights) runRenewals(ctx context.Context) error {
	defer rg.renewals.Wait()
	tick := time.NewTicker(rg.cfg.RenewEvery)
	defer tick.Stop()
	pause := retryRenewal
	for all := true; ; {
		var retry <-chan time.Time
		if !rg.renewAll(ctx, all) {
			retry = time.After(pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-rg.renew:
			all, pause = false, retryRenewal
		case <-retry:
			all, pause = false, 2*pause // in the end the tick comes sooner
		case <-tick.C:
			all = true
		}
	}
}

// renewAll renews with all homes, or with those where it is urgent. It reports whether none of them needs to be tried again. It does not
// wait for longer than RenewEvery: a home with a slow disk may need minutes to hear of all its hosts.
func (rg *rights) renewAll(ctx context.Context, all bool) bool {
	rg.mu.Lock()
	if rg.tallies.counting {
		rg.mu.Unlock()
		return true // the end of the count wakes runRenewals
	}
	v := *rg.views.Now()
	homes := rg.dueLocked()
	if all {
		for home := range rg.tallies.byHome {
			homes[home] = true
		}
	}
	maps.DeleteFunc(homes, func(home string, _ bool) bool { return rg.renewing[home] })
	maps.Copy(rg.renewing, homes)
	rg.mu.Unlock()
	short, cancel := context.WithTimeout(ctx, rg.cfg.RenewEvery)
	defer cancel()
	bell.Each(16, slices.Collect(maps.Keys(homes)), func(home string) {
		// A renewal that takes longer than RenewEvery goes on by itself. Until it ends, renewing keeps others from this home.
		over := make(chan struct{})
		rg.renewals.Go(func() {
			defer close(over)
			rg.renewOne(ctx, home, v)
		})
		select {
		case <-over:
		case <-short.Done():
		}
	})
	rg.mu.Lock()
	defer rg.mu.Unlock()
	return len(rg.dueLocked()) == 0
}

// renewOne renews with one home, and notes whether that must be tried again.
func (rg *rights) renewOne(ctx context.Context, home string, v view.View) {
	agreed, err := rg.renewAt(ctx, home)
	rg.mu.Lock()
	if rg.due[home] = !agreed; agreed {
		delete(rg.due, home)
	}
	delete(rg.renewing, home)
	rg.mu.Unlock()
	if err != nil && ctx.Err() == nil && v.IsAlive(home) {
		rg.deps.Warn(fmt.Errorf("renew at %s: %w", home, err))
	}
	rg.check.Ring()
}

// dueLocked returns the members to renew with soon: those that have not heard from this node in this view, homes that have not
// confirmed a host, and members that have not told this home their hosts yet, to ask them.
func (rg *rights) dueLocked() map[string]bool {
	v := rg.views.Now()
	due := maps.Clone(rg.due)
	for host := range rg.unconfirmed {
		due[v.Home(host)] = true
	}
	for _, id := range v.Settled {
		if !rg.census.told[id] {
			due[id] = true
		}
	}
	maps.DeleteFunc(due, func(id string, _ bool) bool {
		return id == v.Self || !v.IsAlive(id) || !slices.Contains(v.Settled, id)
	})
	return due
}

// renewAt renews with one home: it claims unconfirmed hosts, compares tallies, and claims all hosts if those differ. It reports
// whether the home agreed.
func (rg *rights) renewAt(ctx context.Context, home string) (agreed bool, err error) {
	if err := rg.confirm(ctx, home); err != nil {
		return false, err
	}
	rg.mu.Lock()
	t := rg.tallies.byHome[home]
	req := &wire.RenewRequest{Count: t.count, Digest: t.digest, Members: rg.views.Now().Digest(), Tell: !rg.census.told[home]}
	rg.mu.Unlock()
	sent := time.Now()
	res, err := rg.deps.Peers.Renew(ctx, home, req)
	if err != nil {
		return false, err
	}
	if !res.GetAgreed() {
		sent = time.Now()
		if all, err := rg.claimAll(ctx, home); err != nil || !all {
			return false, err
		}
	}
	rg.mu.Lock()
	rg.agreedLocked(home, sent)
	rg.mu.Unlock()
	return true, nil
}

// claimsPerMessage bounds the claims in one message.
const claimsPerMessage = 1000

// confirm claims the unconfirmed hosts of a home.
func (rg *rights) confirm(ctx context.Context, home string) error {
	req := &wire.ClaimRequest{}
	rg.mu.Lock()
	for host, c := range rg.unconfirmed {
		if rg.views.Now().Home(host) == home && len(req.Records) < claimsPerMessage {
			req.Records = append(req.Records, c.record.wire())
			req.Handed = append(req.Handed, c.handed)
		}
	}
	rg.mu.Unlock()
	if len(req.Records) == 0 {
		return nil
	}
	_, err := rg.claim(ctx, home, req)
	return err
}

// claimAll claims all hosts of a home that are owned here. It reports whether the home knew about all of them.
func (rg *rights) claimAll(ctx context.Context, home string) (all bool, err error) {
	all = true
	v := rg.view()
	req := &wire.ClaimRequest{First: true}
	send := func() error {
		done, err := rg.claim(ctx, home, req)
		all = all && done
		req = &wire.ClaimRequest{}
		return err
	}
	err = rg.records.visit(func(r Record) error {
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
	req.Last, req.Members = true, v.Digest()
	err = send()
	return all, err
}

// claim sends one message of claims and applies the answer. all is false if the home put some of them off.
func (rg *rights) claim(ctx context.Context, home string, req *wire.ClaimRequest) (all bool, err error) {
	res, err := rg.deps.Peers.Claim(ctx, home, req)
	if err != nil {
		return false, fmt.Errorf("claim %d hosts: %w", len(req.GetRecords()), err)
	}
	asked, not := make(map[string]bool), make(map[string]bool)
	for _, w := range req.GetRecords() {
		asked[w.GetHost()] = true
	}
	for _, w := range res.GetNewer() {
		if r, ok := fromWire(w); ok && asked[r.Host] {
			if err := rg.census.obey(r); err != nil {
				return false, err
			}
		}
	}
	for _, host := range res.GetLater() {
		not[host] = true
	}
	for _, host := range res.GetContested() {
		not[host] = true
		if _, _, err := rg.edit(host, func(r Record) Record {
			if _, claims := rg.unconfirmed[host]; r.Owner == rg.views.Now().Self && !claims {
				rg.unconfirmed[host] = claimed{record: r}
			}
			return r
		}); err != nil {
			return false, err
		}
	}
	rg.mu.Lock()
	defer rg.mu.Unlock()
	for _, w := range req.GetRecords() {
		if u, ok := rg.unconfirmed[w.GetHost()]; ok && u.record.Epoch == w.GetEpoch() && !not[w.GetHost()] {
			delete(rg.unconfirmed, w.GetHost())
			rg.check.Ring()
		}
	}
	return len(res.GetLater()) == 0, nil
}
