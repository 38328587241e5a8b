package ownership

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// census is what this node, as a home, knows of the owners of its hosts. The lock of the book guards its fields.
type census struct {
	*book
	heard     map[string]time.Time // by owner: when it last renewed, or was first expected to
	said      map[string]tally     // by owner: what it said when it last renewed
	left      map[string]time.Time // when members left in order, so that they crawl nothing any more
	contested map[string]time.Time // hosts with a new owner whose former owner may still crawl until then
	recent    map[string]time.Time // hosts whose record changed lately: an owner's list may be older
	missing   map[string]int       // by host: how many lists in a row of its owner lacked it
	told      map[string]bool      // members that have told this home all their hosts since the settled members changed
	// lists are, by owner, the hashes of the hosts in the list that it is sending.
	lists map[string]map[uint64]struct{}
}

// listsMissed is how many lists of its owner must lack a host before it counts as lost.
const listsMissed = 2

func newCensus(b *book) *census {
	return &census{book: b, heard: make(map[string]time.Time), said: make(map[string]tally), left: make(map[string]time.Time),
		contested: make(map[string]time.Time), recent: make(map[string]time.Time), missing: make(map[string]int),
		told: make(map[string]bool), lists: make(map[string]map[uint64]struct{})}
}

// expectLocked expects an owner to renew here from now on.
func (c *census) expectLocked(owner string, now time.Time) {
	if _, ok := c.heard[owner]; !ok {
		c.heard[owner] = now
	}
}

// excuseLocked takes owners as heard at a time if they were heard before: they could not renew here. Nor could copies come that are awaited.
func (c *census) excuseLocked(at time.Time) {
	for host, since := range c.awaited {
		if since.Before(at) {
			c.awaited[host] = at
		}
	}
	for owner, last := range c.heard {
		if last.Before(at) {
			c.heard[owner] = at
		}
	}
}

// noteLeftLocked notes which members have left in order since the old view: they were alive, and are settled no more. A member that died stays
// settled for a while.
func (c *census) noteLeftLocked(old, v view.View) {
	for _, id := range old.Settled {
		if old.IsAlive(id) && !slices.Contains(v.Settled, id) {
			c.left[id] = time.Now()
		}
	}
	for _, id := range v.Alive {
		delete(c.left, id)
	}
}

// Renew answers the renewal of an owner.
func (c *census) Renew(_ context.Context, from string, req *wire.RenewRequest) (*wire.RenewResponse, error) {
	if err := c.begun(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.heard[from] = now // it is there, whatever it is told
	said := tally{req.GetCount(), req.GetDigest()}
	c.said[from] = said
	if c.tallies.counting {
		return nil, peer.Later("this node counts its hosts anew")
	}
	if req.GetTell() {
		c.due[from] = true
		c.renew.Ring()
	}
	equal := c.tallies.byOwner[from] == said
	if equal && req.GetMembers() == c.views.Now().Digest() {
		c.toldLocked(from)
	}
	return &wire.RenewResponse{Agreed: equal && !c.returningLocked(now)}, nil
}

// returningLocked reports whether this home may have missed decisions of others: it sees no majority, saw none lately, or has
// just started.
func (c *census) returningLocked(now time.Time) bool {
	return c.blindLocked(now, func(v *view.View) bool { return v.Majority })
}

// collectingLocked reports whether this home may not know the record of a host yet, because another node was the home lately.
func (c *census) collectingLocked(host string, now time.Time) bool {
	return c.blindLocked(now, func(v *view.View) bool { return v.Majority && v.Home(host) == v.Self })
}

// blindLocked reports whether another node may have decided something lately that this node has not heard of. decided tells
// whether this node was the one to decide in a view.
func (c *census) blindLocked(now time.Time, decided func(*view.View) bool) bool {
	return !c.views.Now().Majority || !c.toldAllLocked() && c.views.Blind(now, c.cfg.Collect, decided) > 0
}

// toldLocked notes that a member has told this home all its hosts.
func (c *census) toldLocked(from string) {
	if !c.told[from] {
		c.told[from] = true
		c.check.Ring()
	}
}

// toldAllLocked reports whether all settled members have told their hosts. Then there is nobody left to wait for.
func (c *census) toldAllLocked() bool {
	v := c.views.Now()
	return !slices.ContainsFunc(v.Settled, func(id string) bool { return id != v.Self && !c.told[id] })
}

// Claim answers an owner that names hosts it owns.
func (c *census) Claim(_ context.Context, from string, req *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	if err := c.begun(); err != nil {
		return nil, err
	}
	now := time.Now()
	c.mu.Lock()
	c.heard[from] = now
	if req.GetFirst() {
		c.lists[from] = make(map[uint64]struct{})
	}
	c.mu.Unlock()
	res := &wire.ClaimResponse{}
	for i, w := range req.GetRecords() {
		if r, ok := fromWire(w); ok && r.Owner == from {
			handed := i < len(req.GetHanded()) && req.GetHanded()[i]
			if err := c.hear(r, handed, now, res); err != nil {
				return nil, err
			}
		}
	}
	// A crash must not forget what is confirmed here.
	if err := c.records.flush(); err != nil || !req.GetLast() {
		return res, err
	}
	c.mu.Lock()
	list := c.lists[from]
	delete(c.lists, from)
	v := *c.views.Now()
	whole := list != nil && req.GetMembers() == v.Digest()
	if whole {
		c.toldLocked(from)
	}
	c.mu.Unlock()
	if whole && v.Majority {
		return res, c.missed(from, list, v, now)
	}
	return res, nil
}

// hear weighs a claim against the record of this home, and adds what comes of it to the answer: the host is put off (Later), has a newer record
// (Newer) or a former owner that may still crawl it (Contested), or is confirmed. handed says that the former owner gave it away.
func (c *census) hear(r Record, handed bool, now time.Time, res *wire.ClaimResponse) error {
	obey := false
	_, _, err := c.edit(r.Host, func(mine Record) Record {
		v := c.views.Now()
		c.listLocked(r.Owner, r.Host)
		if p, leaving := c.proposals[r.Host]; v.Home(r.Host) != v.Self || !v.Majority || leaving && p.next.Owner != r.Owner {
			res.Later = append(res.Later, r.Host)
			return mine
		}
		if c.collectingLocked(r.Host, now) {
			res.Later = append(res.Later, r.Host) // another owner may have a newer record; the claim counts nevertheless
		}
		switch {
		case mine.Newer(r):
			res.Newer = append(res.Newer, mine.wire())
			return mine
		case mine.Owner == "":
		case mine.Owner == v.Self && r.Owner != v.Self:
			if p, leaving := c.proposals[r.Host]; leaving && p.next == r {
				break // the next owner has committed a hand-off from here
			}
			if next, ok := c.outbidLocked(mine, r); ok {
				res.Newer = append(res.Newer, next.wire())
				return next
			}
			obey = true
			return mine
		case r.Owner != mine.Owner && !handed:
			// The former owner did not give the host away, and may go on until its right from this home's last answer ends.
			if until := c.heard[mine.Owner].Add(c.cfg.SuspendAfter); until.After(now) {
				c.contested[r.Host] = until
			}
		case handed:
			delete(c.contested, r.Host)
		}
		if until, ok := c.contested[r.Host]; ok && now.Before(until) {
			res.Contested = append(res.Contested, r.Host)
		} else {
			delete(c.contested, r.Host)
		}
		return r
	})
	if err == nil && obey {
		err = c.obey(r)
	}
	return err
}

// outbidLocked returns the record with which this home goes on as the owner of a host although a peer names another owner. That one is gone,
// and this home did not know of it when it took the host for new. The home then awaits what the other owner had. ok is false in all other cases.
func (c *census) outbidLocked(mine, r Record) (next Record, ok bool) {
	v := c.views.Now()
	_, leaving := c.proposals[mine.Host]
	if mine.Owner != v.Self || r.Owner == v.Self || r.Epoch < mine.Epoch || r.Epoch >= maxEpoch || leaving ||
		v.Home(mine.Host) != v.Self || !v.Majority || v.IsAlive(r.Owner) {
		return mine, false
	}
	now := time.Now()
	c.contested[mine.Host] = now.Add(c.cfg.SuspendAfter)
	c.awaited[mine.Host] = now
	mine.Epoch = r.Epoch + 1
	return mine, true
}

// obey adopts a record if it is newer. If the host was owned here it is suspended at once, and its data goes to the new owner.
func (c *census) obey(newer Record) error {
	lost := false
	_, changed, err := c.edit(newer.Host, func(r Record) Record {
		if next, ok := c.outbidLocked(r, newer); ok {
			return next
		}
		if !newer.Newer(r) {
			return r
		}
		if lost = r.Owner == c.views.Now().Self && newer.Owner != r.Owner; lost {
			c.counts.Obeyed++
		}
		return newer
	})
	if err != nil || !changed {
		return err
	}
	if lost {
		c.deps.Event(Event{Kind: Obeyed, Record: newer, Peer: newer.Owner})
		c.check.Ring()
	}
	c.queue.add(newer.Host, lost)
	return nil
}

// maxListed bounds the hosts in all unfinished lists, about 20 bytes each.
const maxListed = 1 << 20

// listLocked notes a host of the list that an owner is sending. If there is no room the whole list is given up: an incomplete list
// must not make hosts count as lost.
func (c *census) listLocked(from, host string) {
	seen, all := c.lists[from], 0
	if seen == nil {
		return
	}
	for _, hosts := range c.lists {
		all += len(hosts)
	}
	if all >= maxListed {
		delete(c.lists, from)
		return
	}
	seen[xxhash.Sum64String(host)] = struct{}{}
}

// missed queues hosts that an owner left out of its lists repeatedly: it has lost its disk, and this home takes them over.
func (c *census) missed(from string, list map[uint64]struct{}, v view.View, now time.Time) error {
	return c.records.visit(func(r Record) error {
		if r.Owner != from || v.Home(r.Host) != v.Self {
			return nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, listed := list[xxhash.Sum64String(r.Host)]; listed {
			delete(c.missing, r.Host)
			return nil
		}
		if now.Sub(c.recent[r.Host]) < 2*c.cfg.RenewEvery {
			return nil
		}
		c.missing[r.Host]++
		if c.missingLocked(r.Host) {
			c.queue.add(r.Host, true)
		} else {
			delete(c.told, from) // so this home asks it for the next list, which it may owe to nobody if it has lost all
		}
		return nil
	})
}

// missingLocked reports whether the owner of a host is alive and has lost it.
func (c *census) missingLocked(host string) bool { return c.missing[host] >= listsMissed }

// lost reports whether this home is to take a host over: its owner is gone, whatever gossip says, or has lost it. While hosts are counted
// anew, renewals are refused, and silence means nothing.
func (c *census) lost(r Record) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.missingLocked(r.Host) || !c.tallies.counting && c.goneLocked(r.Owner, time.Now())
}

// runCensus looks for owners that are gone, and queues their hosts to be taken over.
func (c *census) runCensus(ctx context.Context) error {
	return bell.Loop(ctx, nil, max(c.cfg.RenewEvery/3, time.Second), func(bool) error {
		c.missReplicas(time.Now())
		gone, v := c.goneOwners(time.Now())
		if len(gone) == 0 {
			return nil
		}
		return c.records.visit(func(r Record) error {
			if gone[r.Owner] && v.Home(r.Host) == v.Self {
				c.queue.add(r.Host, true)
			}
			return nil
		})
	})
}

// missReplicas reports hosts as lost that were taken over long ago and of which no replica has come.
func (c *census) missReplicas(now time.Time) {
	c.mu.Lock()
	var lost []string
	majority := c.views.Now().Majority // otherwise no copy can come
	for host, since := range c.awaited {
		if majority && now.Sub(since) > 2*c.cfg.TakeAfter {
			lost = append(lost, host)
			delete(c.awaited, host)
		}
	}
	c.mu.Unlock()
	for _, host := range lost {
		if r, err := c.records.get(host); err == nil {
			c.deps.Event(Event{Kind: Lost, Record: r, Reason: "its owner is gone, and no other node has given a copy of it"})
		}
	}
}

// goneOwners returns the owners that are gone, by the view that it returns. It also drops what the census need not remember.
func (c *census) goneOwners(now time.Time) (gone map[string]bool, v view.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v = *c.views.Now()
	c.forgetTimesLocked(now)
	if !v.Majority || c.tallies.counting {
		return nil, v
	}
	gone = make(map[string]bool)
	for owner := range c.tallies.byOwner {
		if c.goneLocked(owner, now) {
			gone[owner] = true
		}
	}
	c.forgetOwnersLocked(now, v)
	return gone, v
}

// forgetTimesLocked drops the times of hosts that mean nothing any more.
func (c *census) forgetTimesLocked(now time.Time) {
	maps.DeleteFunc(c.recent, func(_ string, at time.Time) bool { return now.Sub(at) > 2*c.cfg.RenewEvery })
	maps.DeleteFunc(c.contested, func(_ string, until time.Time) bool { return now.After(until) })
}

// forgetOwnersLocked drops what is known of owners that have no host here.
func (c *census) forgetOwnersLocked(now time.Time, v view.View) {
	owns := func(id string) bool { return c.tallies.byOwner[id].count > 0 }
	// Who has left is remembered until other nodes have told in their sweeps which hosts it had.
	maps.DeleteFunc(c.left, func(id string, at time.Time) bool { return !owns(id) && now.Sub(at) > c.cfg.SweepEvery })
	// One that owns a host here later is expected to renew from then on.
	maps.DeleteFunc(c.heard, func(id string, _ time.Time) bool { return !owns(id) })
	maps.DeleteFunc(c.said, func(id string, _ tally) bool { return !owns(id) })
	maps.DeleteFunc(c.lists, func(id string, _ map[uint64]struct{}) bool { return !owns(id) && !v.IsAlive(id) })
}

// goneLocked reports whether an owner has left, or was silent for so long that it has suspended its hosts. An owner that still
// renews is there, whatever gossip says.
func (c *census) goneLocked(owner string, now time.Time) bool {
	if _, left := c.left[owner]; left {
		return true
	}
	c.expectLocked(owner, now)
	return now.Sub(c.heard[owner]) > c.cfg.TakeAfter
}
