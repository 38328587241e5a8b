package ownership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/view"
	"proxima/node/wire"
)

// A home may assign a host that it owns without an assignment and may crawl.
func TestHostsToAssign(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		own := s.node(1).own
		for what, c := range map[string]struct {
			order  []int
			r      Record
			change func(host string)
			mine   bool
		}{
			"its own":          {[]int{1, 2, 3}, Record{Epoch: 1, Owner: idOf(1)}, func(string) {}, true},
			"an assigned one":  {[]int{1, 2, 3}, Record{Epoch: 1, Owner: idOf(1), Assigned: true}, func(string) {}, false},
			"another's":        {[]int{1, 2, 3}, Record{Epoch: 1, Owner: idOf(2)}, func(string) {}, false},
			"of another home":  {[]int{2, 1, 3}, Record{Epoch: 1, Owner: idOf(1)}, func(string) {}, false},
			"of which none is": {[]int{1, 2, 3}, Record{}, func(string) {}, false},
			"a suspended one":  {[]int{1, 2, 3}, Record{Epoch: 1, Owner: idOf(1)}, func(host string) { own.proposals[host] = proposal{} }, false},
		} {
			c.r.Host = s.hostOf(c.order...)
			s.node(1).put(c.r)
			own.mu.Lock()
			clear(own.unconfirmed)
			c.change(c.r.Host)
			own.mu.Unlock()
			if own.Mine(c.r.Host) != c.mine {
				t.Errorf("%s: it may assign it: %v", what, !c.mine)
			}
			own.mu.Lock()
			delete(own.proposals, c.r.Host)
			own.mu.Unlock()
		}
	})
}

// A wish counts for a host that is owned here, and for a node that is alive.
func TestWishesThatCount(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		own, host := s.node(1).own, s.hostOf(1, 2, 3)
		for what, c := range map[string]struct {
			r      Record
			to     string
			counts bool
		}{
			"an owned host": {Record{Host: host, Epoch: 1, Owner: idOf(1)}, idOf(3), true}, "another's host": {Record{Host: host, Epoch: 1, Owner: idOf(2)}, idOf(3), false},
			"an unknown host": {Record{Host: host}, idOf(3), false}, "for a node that is gone": {Record{Host: host, Epoch: 1, Owner: idOf(1)}, idOf(7), false},
		} {
			s.node(1).put(c.r)
			own.queue.mu.Lock()
			own.queue.items[host] = &item{host: host, busy: true, at: -1} // it is not handed over before the test has seen the wish
			own.queue.mu.Unlock()
			own.Wish(host, c.to, "test")
			own.mu.Lock()
			if w, counts := own.wishes[host]; counts != c.counts || counts && w != (wish{c.to, "test"}) {
				t.Errorf("%s: %+v", what, w)
			}
			delete(own.wishes, host)
			own.mu.Unlock()
			own.queue.mu.Lock()
			if own.queue.items[host].anew != c.counts {
				t.Errorf("%s: it is looked at: %v", what, !c.counts)
			}
			delete(own.queue.items, host)
			own.queue.mu.Unlock()
		}
	})
}

// A node that becomes the home of its own hosts needs nobody to confirm them.
func TestNewHomeConfirmsItself(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		mine, theirs, own := s.hostOf(1, 2, 3), s.hostOf(3, 2, 1), s.node(2).own
		own.mu.Lock()
		own.unconfirmed[mine], own.unconfirmed[theirs] = claimed{}, claimed{}
		own.mu.Unlock()
		s.forget(1)
		own.mu.Lock()
		defer own.mu.Unlock()
		if _, waits := own.unconfirmed[mine]; waits {
			t.Error("it waits for itself")
		}
		if _, waits := own.unconfirmed[theirs]; !waits {
			t.Error("it does not wait for another home")
		}
	})
}

// A life ended between a new record and the role that follows from it. The next life claims the host, and takes the step.
func TestRolesThatLagBehind(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p := s.node(2)
		own := p.own
		for what, c := range map[string]struct {
			owner  int
			role   frontier.Role
			looked bool
			claims bool
		}{
			"owned":                 {2, frontier.Owned, false, false},
			"owned, and a replica":  {2, frontier.Replica, true, true},
			"leaving":               {2, frontier.Leaving, true, false},
			"another's":             {3, frontier.Replica, false, false},
			"another's, and owned":  {3, frontier.Owned, true, false},
			"another's, on its way": {3, frontier.Leaving, true, false},
		} {
			host := s.hostOf(1, 2, 3)
			p.stop()
			<-p.over
			p.put(Record{Host: host, Epoch: 1, Owner: idOf(c.owner)})
			p.role(host, c.role)
			own.mu.Lock()
			clear(own.unconfirmed)
			own.mu.Unlock()
			own.queue.mu.Lock()
			clear(own.queue.items)
			own.queue.due, own.queue.hurry = nil, 0
			own.queue.mu.Unlock()
			if err := own.recover(context.WithoutCancel(s.t.Context())); err != nil {
				t.Error(err)
			}
			if it := own.queue.items[host]; (it != nil && it.urgent) != c.looked || (it != nil) != c.looked {
				t.Errorf("%s: it is looked at: %+v", what, it)
			}
			if u, claims := own.unconfirmed[host]; claims != c.claims || u.handed {
				t.Errorf("%s: it is claimed: %v, %+v", what, claims, u)
			}
		}
	})
}

// A copy that may not be needed any more is looked at after TakeAfter: when the host has a new owner, which is another node.
func TestWhenACopyIsLookedAt(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(1), s.hostOf(2, 1, 3)
		for what, c := range map[string]struct {
			was, is Record
			looked  bool
		}{
			"another owner":     {Record{Epoch: 1, Owner: idOf(2)}, Record{Epoch: 2, Owner: idOf(3)}, true},
			"the same owner":    {Record{Epoch: 1, Owner: idOf(2)}, Record{Epoch: 2, Owner: idOf(2)}, false},
			"this node":         {Record{Epoch: 1, Owner: idOf(2)}, Record{Epoch: 2, Owner: idOf(1)}, false},
			"after this node":   {Record{Epoch: 1, Owner: idOf(1)}, Record{Epoch: 2, Owner: idOf(2)}, true},
			"nobody":            {Record{Epoch: 1, Owner: idOf(2)}, Record{}, false},
			"the first that is": {Record{}, Record{Epoch: 2, Owner: idOf(2)}, false},
		} {
			c.was.Host, c.is.Host = host, host
			p.put(Record{Host: host})
			p.put(c.was)
			p.own.queue.mu.Lock()
			clear(p.own.queue.items)
			p.own.queue.due = nil
			p.own.queue.mu.Unlock()
			p.put(c.is)
			p.own.queue.mu.Lock()
			if it := p.own.queue.items[host]; (it != nil) != c.looked || it != nil && !it.after.Equal(time.Now().Add(s.cfg.TakeAfter)) {
				t.Errorf("%s: it is looked at: %+v", what, it)
			}
			p.own.queue.mu.Unlock()
		}
		r := Record{Host: s.hostOf(2, 3, 1), Epoch: 1, Owner: idOf(2)} // its replica is at node 3
		if _, err := p.own.Store(s.t.Context(), idOf(2), &wire.StoreRequest{Items: []*wire.StoreItem{{Record: r.wire(), Chunk: &wire.Chunk{}}}}); err != nil {
			t.Fatal(err)
		}
		p.own.queue.mu.Lock()
		defer p.own.queue.mu.Unlock()
		if it := p.own.queue.items[r.Host]; it == nil || !it.after.Equal(time.Now().Add(s.cfg.TakeAfter)) {
			t.Errorf("a copy that is not meant to stay is looked at: %+v", it)
		}
	})
}

// stern is a Frontier that gives links its verdicts. Then it calls then.
type stern struct {
	Frontier
	verdicts []frontier.Verdict
	then     func()
}

func (f stern) Add(context.Context, []frontier.Link) ([]frontier.Verdict, error) {
	f.then()
	return f.verdicts, nil
}

// The answers to links that are delivered, by what the frontier says of them, and by the rules of this node.
func TestAnswersToLinks(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.hostOf(1, 2, 3), s.node(1).own
		s.node(1).find(link(host, 0))
		time.Sleep(2 * time.Second)
		s.node(1).stop() // the test changes what it depends on
		<-s.node(1).over
		const late, full = "later: its replica does not have it yet", frontier.HostFull
		behind := func() {
			own.stream.take(map[string]*frontier.Change{host: {Added: []frontier.PendingURL{{Path: "/1"}}}}, time.Now())
		}
		for _, c := range []struct {
			admit   string
			verdict frontier.Verdict // of the second link; the host is full for the first
			then    func()
			want    string
		}{
			{"", frontier.Accepted, func() {}, "accepted"}, {"", frontier.Duplicate, func() {}, "duplicate"}, {"", frontier.NotOwned, func() {}, "later: the host is on its way"},
			{"", full, func() {}, "refused: " + full.String()}, {"blocked", frontier.Accepted, func() {}, "refused: blocked"},
			{"", frontier.Accepted, behind, late}, {"", frontier.Duplicate, behind, late},
			{"", frontier.Accepted, func() { s.node(1).put(Record{Host: host, Epoch: 2, Owner: idOf(2)}) }, late}, // it moves
		} {
			s.node(1).put(Record{Host: host, Epoch: 1, Owner: idOf(1)})
			own.stream.stored(slices.Collect(maps.Keys(own.stream.next()))...)
			own.deps.Admit, own.deps.Frontier = func(frontier.Link) string { return c.admit }, stern{s.node(1).disk, []frontier.Verdict{full, c.verdict}, c.then}
			before := own.Counts().LinksDelivered
			res, err := own.Deliver(s.t.Context(), idOf(2), &wire.DeliverRequest{Links: []*wire.Link{LinkToWire(link(host, 1)), LinkToWire(link(host, 2))}})
			if err != nil || len(res.GetAnswers()) != 2 || own.Counts().LinksDelivered-before != map[bool]uint64{true: 2}[c.admit == ""] {
				t.Fatal(res, err)
			}
			if got := (&scene{}).delivered(res.GetAnswers()[1]); got != c.want {
				t.Errorf("%v, %q: %s, want %s", c.verdict, c.admit, got, c.want)
			}
		}
		own.deps.Admit, own.deps.Frontier = func(frontier.Link) string { return "" }, s.node(1).disk
		for assigned, origin := range map[bool]frontier.Origin{false: frontier.Discovered, true: frontier.Assigned} {
			s.node(1).put(Record{Host: host, Epoch: 1, Owner: idOf(1), Assigned: assigned})
			mine, err := own.Route(s.t.Context(), links(host, 2, 3))
			delivered, _, err2 := own.judge(LinkToWire(link(host, 2)))
			if err != nil || err2 != nil || mine[0].Origin != origin || delivered.Origin != origin {
				t.Errorf("assigned, %v: links join the queue of %v and %v", assigned, mine, delivered)
			}
			own.mu.Lock()
			own.proposals[host] = proposal{}
			own.mu.Unlock()
			if mine, err := own.Route(s.t.Context(), links(host, 2, 3)); err != nil || len(mine) > 0 {
				t.Errorf("assigned, %v: links to a host that leaves are kept: %v, %v", assigned, mine, err)
			}
			own.mu.Lock()
			delete(own.proposals, host)
			own.mu.Unlock()
		}
		// A home relies on claims, and not on what others say of owners.
		if err := own.Moved(Record{Host: s.hostOf(1, 3, 2), Epoch: 1, Owner: idOf(3)}.wire()); err != nil {
			t.Error(err)
		}
		own.mu.Lock()
		if len(own.rumours) > 0 {
			t.Errorf("the home believes %v", own.rumours)
		}
		own.mu.Unlock()
		if to := own.Destination(&wire.Link{Url: "nothing"}); to != idOf(1) {
			t.Errorf("what is no link goes to %s", to)
		}
		own.mu.Lock()
		own.views.Set(view.View{Self: idOf(1)}, time.Now())
		own.mu.Unlock()
		if to := own.Destination(LinkToWire(link(s.hostOf(2, 1, 3), 0))); to != idOf(1) {
			t.Errorf("without members a link goes to %q", to)
		}
	})
}

// Links that come with a copy join the queue that the record names, at the owner and at the node with the replica.
func TestQueueOfACopy(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.found(3, 1, 2, 3), s.node(1).own
		for assigned, want := range map[bool]frontier.Origin{true: frontier.Assigned, false: frontier.Discovered} {
			if err := own.HandOff(s.t.Context(), host, idOf(1), assigned, "test"); err != nil {
				t.Fatal(err)
			}
			r, _, err := own.Record(host)
			if _, err2 := own.push(s.t.Context(), idOf(2), r, true); err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			s.node(2).spoil(host, 1)
			if _, err := own.push(s.t.Context(), idOf(2), r, true); err != nil || s.node(2).disk.origin != want {
				t.Errorf("assigned, %v: at the replica links join queue %v, %v", assigned, s.node(2).disk.origin, err)
			}
			if err := own.pull(s.t.Context(), idOf(2), r); err != nil || s.node(1).disk.origin != want {
				t.Errorf("assigned, %v: at the owner links join queue %v, %v", assigned, s.node(1).disk.origin, err)
			}
		}
	})
}

// Whatever changes why a host is suspended wakes runChecks, and what other nodes must hear or ask wakes runRenewals and runSweeps.
func TestWhoIsWoken(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, home, away := s.node(2), s.hostOf(2, 1, 3), s.hostOf(1, 2, 3)
		own, ctx := p.own, s.t.Context()
		p.stop() // nothing else wakes or is woken
		<-p.over
		mine := Record{Host: away, Epoch: 1, Owner: idOf(2)}
		locked := func(f func()) func() error {
			return func() error { own.mu.Lock(); defer own.mu.Unlock(); f(); return nil }
		}
		seen := func(change func(v *view.View)) func() error {
			return func() error {
				v := own.view()
				change(&v)
				own.SetView(v)
				return nil
			}
		}
		for _, c := range []struct {
			what string
			do   func() error
			want string
		}{
			{"nothing", locked(func() {}), ""},
			{"a claim at another home", locked(func() { own.claimLocked(mine, false) }), "check renew "},
			{"the home agrees", func() error {
				return second(own.claim(ctx, idOf(1), &wire.ClaimRequest{Records: []*wire.Record{mine.wire()}}))
			}, "check "},
			{"a claim at this home", locked(func() { own.claimLocked(Record{Host: home}, false) }), "check "},
			{"the home waits for a replica", locked(func() { own.awaited[away] = time.Now() }), ""},
			{"it has come", func() error { own.found(away); return nil }, "check "},
			{"a hand-off has failed", func() error { return own.thaw(ctx, away) }, "check "},
			{"a host is taken back", func() error { p.put(mine); return own.settle(ctx, mine, own.view()) }, "check renew "},
			{"a member must tell again", locked(func() { delete(own.told, idOf(3)) }), ""},
			{"it has told", locked(func() { own.toldLocked(idOf(3)) }), "check "},
			{"one that has not told asks", func() error {
				delete(own.told, idOf(3))
				if _, err := own.Renew(ctx, idOf(3), &wire.RenewRequest{Tell: true}); err != nil || !own.due[idOf(3)] {
					return fmt.Errorf("it is told: %v, %w", own.due[idOf(3)], err)
				}
				return nil
			}, "renew "},
			{"all are renewed with", func() error { own.renewAll(ctx, true); return nil }, "check "},
			{"this node was stopped", func() error { own.Stopped(); return nil }, "check renew "},
			{"a member is gone", seen(func(v *view.View) { v.Alive = v.Alive[:2] }), "check "},
			{"it is back", seen(func(v *view.View) { v.Alive = v.Settled }), "check renew sweep "},
			{"the majority is lost", seen(func(v *view.View) { v.Majority = false }), "check "},
			{"it is back, too", seen(func(v *view.View) { v.Majority = true }), "check sweep "},
			{"there are other homes", seen(func(v *view.View) { v.Settled = v.Settled[:2] }), "check sweep "},
		} {
			if err := c.do(); err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
			got := ""
			for _, w := range []struct {
				name string
				wake chan struct{}
			}{{"check ", own.check}, {"renew ", own.renew}, {"sweep ", own.sweep}} {
				select {
				case <-w.wake:
					got += w.name
				default:
				}
			}
			if got != c.want && c.what != "nothing" {
				t.Errorf("%s: it wakes %q, not %q", c.what, got, c.want)
			}
		}
	})
}
