package ownership

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/node/view"
	"proxima/node/wire"
)

// census is what this node, as a home, knows of the owners of its hosts. The lock of the book guards its fields.
type census struct {
	*book
	heard     map[string]time.Time // by owner: when it renewed last, or was first expected to
	left      map[string]bool      // members that have left in order: their owners have stopped
	contested map[string]time.Time // hosts with a new owner whose former owner may go on until then
	recent    map[string]time.Time // when a record of this home was written: a list sent before cannot have it
	missing   map[string]int       // how many lists in a row of its owner lacked a host
	// told are the members that have told this home of all their hosts since the settled members changed last.
	told map[string]bool
	// lists are, by owner, hashes of the hosts in the list that it is sending.
	lists map[string]map[uint64]struct{}
}

func newCensus(b *book) *census {
	return &census{book: b, heard: make(map[string]time.Time), left: make(map[string]bool),
		contested: make(map[string]time.Time), recent: make(map[string]time.Time), missing: make(map[string]int),
		told: make(map[string]bool), lists: make(map[string]map[uint64]struct{})}
}

// changedLocked notes when a record was written.
func (c *census) changedLocked(_ string, r Record) {
	if r.Owner == "" {
		return
	}
	now := time.Now()
	c.recent[r.Host] = now
	delete(c.missing, r.Host)
	if _, ok := c.heard[r.Owner]; !ok {
		c.heard[r.Owner] = now // from now on it is expected to renew here
	}
}

// expect begins to expect the owners that have hosts of this home.
func (c *census) expect(lent map[string]tally) {
	now := time.Now()
	for owner := range lent {
		if _, ok := c.heard[owner]; !ok {
			c.heard[owner] = now // it has not had a chance to renew here
		}
	}
}

// seen notes in a new view who has left in order: the dead stay settled for a while.
func (c *census) seen(old, v view.View) {
	for _, id := range old.Settled {
		if old.IsAlive(id) && !slices.Contains(v.Settled, id) {
			c.left[id] = true
		}
	}
	for _, id := range v.Alive {
		delete(c.left, id)
	}
}

var errCounting = errors.New("this node counts its hosts anew")

// Renew answers an owner's sign of life.
func (c *census) Renew(_ context.Context, from string, req *wire.RenewRequest) (*wire.RenewResponse, error) {
	if err := c.begun(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tallies.counting {
		return nil, errCounting
	}
	now := time.Now()
	c.heard[from] = now
	if req.GetTell() {
		c.due[from] = true
		signal(c.renew)
	}
	t := c.tallies.lent[from]
	equal := t.count == req.GetCount() && t.digest == req.GetDigest()
	if equal && req.GetMembers() == c.views.Now().Digest() {
		c.toldLocked(from)
	}
	agreed := equal && !c.returningLocked(now)
	return &wire.RenewResponse{Agreed: agreed}, nil
}

// returningLocked says that this node, as a home, may lack what others did in the meantime: it sees no majority or did
// not lately, or it has just started.
func (c *census) returningLocked(now time.Time) bool {
	return c.blindLocked(now, func(v *view.View) bool { return v.Majority })
}

// collectingLocked says that this node, the home of a host, may not know its record yet: another one was its home lately.
func (c *census) collectingLocked(host string, now time.Time) bool {
	return c.blindLocked(now, func(v *view.View) bool { return v.Majority && v.Home(host) == v.Self })
}

// blindLocked says that something may have been decided lately that this node does not know of, as it did not decide itself.
func (c *census) blindLocked(now time.Time, decided func(*view.View) bool) bool {
	return !c.views.Now().Majority || !c.toldAllLocked() && c.views.Blind(now, c.cfg.Collect, decided) > 0
}

// toldLocked notes that a member has told this home of all its hosts.
func (c *census) toldLocked(from string) {
	if !c.told[from] {
		c.told[from] = true
		signal(c.check)
	}
}

// toldAllLocked says that all settled members have: then there is nothing to wait for, as nobody else can own a host.
func (c *census) toldAllLocked() bool {
	for _, id := range c.views.Now().Settled {
		if id != c.views.Now().Self && !c.told[id] {
			return false
		}
	}
	return true
}

// Claim answers an owner that says what it owns.
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
	// What is confirmed here must not be forgotten by a crash.
	if err := c.records.flush(); err != nil {
		return nil, err
	}
	if req.GetLast() {
		c.mu.Lock()
		list := c.lists[from]
		delete(c.lists, from)
		v := *c.views.Now()
		c.mu.Unlock()
		if list != nil && req.GetMembers() == v.Digest() {
			c.mu.Lock()
			c.toldLocked(from)
			c.mu.Unlock()
		}
		if list != nil && v.Majority && req.GetMembers() == v.Digest() {
			return res, c.missed(from, list, v, now)
		}
	}
	return res, nil
}

// hear weighs a claim against what this home has, and adds to the answer.
func (c *census) hear(r Record, handed bool, now time.Time, res *wire.ClaimResponse) error {
	obey := false
	_, _, err := c.edit(r.Host, func(mine Record, ok bool) (Record, bool) {
		v := c.views.Now()
		c.list(r.Owner, r.Host)
		if p, leaving := c.proposals[r.Host]; v.Home(r.Host) != v.Self || !v.Majority || leaving && p.next.Owner != r.Owner {
			res.Later = append(res.Later, r.Host)
			return mine, false
		}
		if c.collectingLocked(r.Host, now) {
			res.Later = append(res.Later, r.Host) // somebody may have a newer record; what this one says is heard
		}
		switch {
		case ok && mine.Newer(r):
			res.Newer = append(res.Newer, mine.wire())
			return mine, false
		case !ok || mine == r:
		case mine.Owner == v.Self && r.Owner != v.Self:
			if p, leaving := c.proposals[r.Host]; leaving && p.next == r {
				break // the hand-off that is under way here has been committed there
			}
			obey = true
			return mine, false
		case r.Owner != mine.Owner && !handed:
			// Its former owner did not give it, and may go on until it suspends it: this home has answered that one.
			if until := c.heard[mine.Owner].Add(c.cfg.FenceAfter); until.After(now) {
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
		return r, true
	})
	if err == nil && obey {
		err = c.obey(r)
	}
	return err
}

// maxListed bounds the hosts in the lists of all owners that are under way, some 20 bytes each.
const maxListed = 1 << 20

// list notes a host in the list that an owner is sending. A list for which there is no room is given up: nobody is said
// to have lost a host by what is not known to be whole.
func (c *census) list(from, host string) {
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

// missed takes over the hosts that an owner did not name in two whole lists in a row: it has lost its disk.
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
		if mine, ok, loaded := c.records.peek(r.Host); loaded && (!ok || mine != r) {
			return nil // it has changed since it was read
		}
		if now.Sub(c.recent[r.Host]) < 2*c.cfg.RenewEvery {
			return nil
		}
		if c.missing[r.Host]++; c.missing[r.Host] >= 2 {
			c.queue.add(r.Host, true)
		}
		return nil
	})
}

// runCensus looks for owners that are gone, and has their hosts taken over.
func (c *census) runCensus(ctx context.Context) error {
	return again(ctx, nil, max(c.cfg.RenewEvery/3, time.Second), func(bool) error {
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

// missReplicas gives up waiting for the replicas of hosts that were taken over without one, and says so.
func (c *census) missReplicas(now time.Time) {
	c.mu.Lock()
	var lost []string
	for host, since := range c.awaited {
		if now.Sub(since) > 2*c.cfg.TakeAfter {
			lost = append(lost, host)
			delete(c.awaited, host)
		}
	}
	c.mu.Unlock()
	for _, host := range lost {
		if r, ok, err := c.records.get(host); err == nil && ok {
			c.deps.Event(Event{Kind: Lost, Record: r, Reason: "its owner is gone, and no other node has given a copy of it"})
		}
	}
}

// isMissing says that a host's owner lives and has lost it.
func (c *census) isMissing(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.missing[host] >= 2
}

// goneOwners are those of hosts whose home this node is, in a view.
func (c *census) goneOwners(now time.Time) (gone map[string]bool, v view.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v = *c.views.Now()
	for host, at := range c.recent {
		if now.Sub(at) > 2*c.cfg.RenewEvery {
			delete(c.recent, host)
		}
	}
	for host, until := range c.contested {
		if now.After(until) {
			delete(c.contested, host)
			signal(c.check)
		}
	}
	if !v.Majority || c.tallies.counting {
		return nil, v
	}
	gone = make(map[string]bool)
	for owner := range c.tallies.lent {
		if c.goneLocked(owner, now) {
			gone[owner] = true
		}
	}
	for owner := range c.heard {
		if _, ok := c.tallies.lent[owner]; !ok && !v.IsAlive(owner) {
			delete(c.heard, owner)
			delete(c.lists, owner)
		}
	}
	return gone, v
}

// goneLocked says that an owner has left, or has been silent for so long that it has suspended its hosts. An owner that
// still renews is there, whatever the gossip says.
func (c *census) goneLocked(owner string, now time.Time) bool {
	heard, ok := c.heard[owner]
	if !ok {
		c.heard[owner] = now
		return false
	}
	return c.left[owner] && !c.views.Now().IsAlive(owner) || now.Sub(heard) > c.cfg.TakeAfter
}
