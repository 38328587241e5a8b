package ownership

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// newerEpoch tells the epoch of the record in an answer.
func newerEpoch(r *wire.Record) string { return mark(r != nil, fmt.Sprint(", newer ", r.GetEpoch())) }

// The answers of a node to a peer's record of a host, and what it makes of it, for each state of its own record.
func TestWhatAPeerKnowsOfAHost(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		p, own := s.node(1), s.node(1).own
		s.lose(func(letter) bool { return true })
		minority := func(string) { own.views.Now().Majority = false }
		leaving := func(host string) { own.proposals[host] = proposal{next: rec(host, 2, 3)} }
		for i, c := range []struct {
			what       string
			away       bool   // another node is the home
			mine, said [2]int // epoch and owner; node 7 is gone
			set        func(host string)
			want       string
		}{
			{what: "less", mine: [2]int{3, 2}, said: [2]int{2, 3}, want: "unspecified, keeps, newer 3, is 3 of 2"},
			{what: "more", mine: [2]int{1, 2}, said: [2]int{3, 3}, want: "unspecified, keeps, is 3 of 3"},
			{what: "a lower owner of the epoch", mine: [2]int{2, 3}, said: [2]int{2, 2}, want: "unspecified, keeps, newer 2, is 2 of 2"},
			{what: "more, of a host that is not kept", away: true, mine: [2]int{1, 2}, said: [2]int{3, 3}, want: "unspecified, is 3 of 3"},
			{what: "nothing new", away: true, said: [2]int{1, 3}, want: "unspecified, is 1 of 3"},
			{what: "while it is handed over", mine: [2]int{1, 1}, said: [2]int{2, 2}, set: leaving, want: "later, is 1 of 1"},
			{what: "the same, of another home", away: true, mine: [2]int{1, 1}, said: [2]int{4, 3}, set: leaving, want: "later, is 1 of 1, claimed"},
			{what: "another owner", mine: [2]int{1, 1}, said: [2]int{4, 3}, want: "unspecified, is 1 of 1"},
			{what: "another owner, of another home", away: true, mine: [2]int{1, 1}, said: [2]int{4, 7}, want: "unspecified, is 1 of 1, claimed"},
			{what: "another owner that is gone", mine: [2]int{1, 1}, said: [2]int{4, 7}, want: "unspecified, newer 5, is 5 of 1, contested, awaited"},
			{what: "the same of this epoch", mine: [2]int{1, 1}, said: [2]int{1, 7}, want: "unspecified, newer 2, is 2 of 1, contested, awaited"},
			{what: "the same of an earlier epoch", mine: [2]int{2, 1}, said: [2]int{1, 7}, want: "unspecified, newer 2, is 2 of 1"},
			{what: "the same while it is handed over", mine: [2]int{1, 1}, said: [2]int{4, 7}, set: leaving, want: "later, is 1 of 1"},
			{what: "the same in a minority", mine: [2]int{1, 1}, said: [2]int{4, 7}, set: minority, want: "unspecified, is 1 of 1"},
			{what: "the same in the last epoch", mine: [2]int{1, 1}, said: [2]int{maxEpoch, 7}, want: "unspecified, is 1 of 1"},
			{what: "what it has lost", said: [2]int{4, 1}, want: "unspecified, keeps, newer 5, is 5 of 1, urgent"},
			{what: "what it has lost, of another owner", mine: [2]int{2, 2}, said: [2]int{4, 1}, want: "unspecified, newer 5, is 5 of 2, urgent"},
			{what: "what it has lost, of another home", away: true, said: [2]int{4, 1}, want: "refused, is 0 of 0"},
			{what: "what it has lost, in a minority", said: [2]int{4, 1}, set: minority, want: "later, is 0 of 0"},
			{what: "what it has lost, of the last epoch", said: [2]int{maxEpoch, 1}, want: "later, is 0 of 0"},
			{what: "what it has lost, as a new home", said: [2]int{4, 1}, set: func(string) { s.blind(1) }, want: "later, is 0 of 0"},
		} {
			order := []int{1, 2, 3}
			if c.away {
				order = []int{2, 1, 3}
			}
			host := s.hostsOf(i+1, order...)[i]
			record := func(r [2]int) Record { return rec(host, uint64(r[0]), r[1]) }
			if c.mine[0] > 0 {
				p.put(record(c.mine))
			}
			p.with(func() {
				if delete(own.unconfirmed, host); c.set != nil {
					c.set(host)
				}
			})
			unlock := own.locks.lock(host)
			a, err := own.weigh(idOf(2), record(c.said))
			if err != nil {
				t.Fatal(err)
			}
			it, _ := p.queued(host)
			unlock()
			r := p.record(host)
			p.with(func() {
				_, contested := own.contested[host]
				_, awaited := own.awaited[host]
				_, claims := own.unconfirmed[host]
				own.views.Now().Majority = true
				got := word(a.GetStep()) + mark(a.GetKeeps(), ", keeps") + newerEpoch(a.GetNewer()) +
					fmt.Sprintf(", is %d of %d", r.Epoch, numberOf(r.Owner)) +
					mark(contested, ", contested") + mark(awaited, ", awaited") + mark(claims, ", claimed") + mark(it.urgent, ", urgent")
				if got != c.want {
					t.Errorf("%s: %s, want %s", c.what, got, c.want)
				}
			})
		}
	})
}

// The answers of a node to a commit.
func TestWhatIsCommitted(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(3), s.hostOf(1, 2, 3)
		own := p.own
		p.halt() // nobody else decides about the host meanwhile
		s.lose(func(letter) bool { return true })
		for _, c := range []struct {
			what    string
			mine    uint64 // its epoch of the host, whose owner is node 2
			to      int
			epoch   uint64
			drained bool
			leaving bool
			other   bool // the giver has something else of the host
			want    string
		}{
			{what: "for another node", mine: 1, to: 2, epoch: 2, want: "refused"},
			{what: "no record", mine: 1, to: 3, want: "refused"},
			{what: "an older record", mine: 3, to: 3, epoch: 2, want: "refused, newer 3"},
			{what: "another record of the epoch", mine: 2, to: 3, epoch: 2, want: "refused, newer 2"},
			{what: "while it is drained", mine: 1, to: 3, epoch: 2, drained: true, want: "refused"},
			{what: "while it gives the host away", mine: 1, to: 3, epoch: 2, leaving: true, want: "later"},
			{what: "something else", mine: 1, to: 3, epoch: 2, other: true, want: "differs"},
			{what: "the next record", mine: 1, to: 3, epoch: 2, want: "committed, received"},
			{what: "once more", to: 3, epoch: 2, want: "committed"},
		} {
			if c.mine > 0 {
				p.put(rec(host, c.mine, 2))
			}
			own.draining.Store(c.drained)
			p.with(func() {
				if delete(own.proposals, host); c.leaving {
					own.proposals[host] = proposal{}
				}
			})
			before := own.Counts().Received
			d, err := p.disk.DigestOf(s.t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			if c.other {
				d.Accepted++
			}
			res, err := own.Commit(s.t.Context(), idOf(2), &wire.CommitRequest{Record: rec(host, c.epoch, c.to).wire(), Digest: digestToWire(d)})
			got := word(res.GetStep()) + mark(own.Counts().Received > before, ", received") + newerEpoch(res.GetNewer())
			if err != nil || got != c.want {
				t.Errorf("%s: %s (%s), %v; want %s", c.what, got, res.GetReason(), err, c.want)
			}
		}
	})
}

// hasty is a Frontier whose caller gives up while it is asked for a digest.
type hasty struct {
	Frontier
	giveUp func()
}

func (f hasty) DigestOf(ctx context.Context, host string) (frontier.Digest, error) {
	f.giveUp()
	return f.Frontier.DigestOf(ctx, host)
}

// A node that commits becomes the owner, even if the former one does not wait for the answer.
func TestCommitOfACallerThatGivesUp(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(3), s.hostOf(1, 2, 3)
		p.halt()
		ctx, cancel := context.WithCancel(s.t.Context())
		p.own.deps.Frontier = hasty{p.disk, cancel}
		_, err := p.own.Commit(ctx, idOf(2), &wire.CommitRequest{Record: rec(host, 2, 3).wire(), Digest: &wire.Digest{}})
		p.mustKnow(host, 2, 3)
		if s.mustOwn(host, 3); err != nil || ctx.Err() == nil {
			t.Error(err)
		}
	})
}

// Until a node has taken up the state of its earlier life it answers no peer, because it may say what is no longer so.
func TestNoAnswerBeforeTheStateIsTakenUp(t *testing.T) {
	own := New(Default(), Deps{})
	for what, err := range map[string]error{
		"renew":   second(own.Renew(t.Context(), idOf(2), &wire.RenewRequest{})),
		"claim":   second(own.Claim(t.Context(), idOf(2), &wire.ClaimRequest{})),
		"store":   second(own.Store(t.Context(), idOf(2), &wire.StoreRequest{})),
		"load":    second(own.Load(t.Context(), idOf(2), &wire.LoadRequest{Host: "http://a.test"})),
		"commit":  second(own.Commit(t.Context(), idOf(2), &wire.CommitRequest{})),
		"deliver": second(own.Deliver(t.Context(), idOf(2), &wire.DeliverRequest{})),
	} {
		if err == nil || err.Error() != "the node is starting" || !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("%s is answered: %v", what, err)
		}
	}
	own.Flush(t.Context()) // returns, though nobody sends
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := own.Route(gone, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a link found here does not wait: %v", err)
	}
}

// Malformed links, records and hosts are refused, and leave nothing behind.
func TestMalformedMessages(t *testing.T) {
	for _, c := range []struct {
		link *wire.Link
		ok   bool
	}{
		{&wire.Link{Url: "http://h.test/"}, true},
		{&wire.Link{Url: "http://h.test/", Depth: 255, Hops: 255, Sitemap: true}, true},
		{&wire.Link{Url: "http://h.test/", Depth: 3, Hops: 5}, true},
		{&wire.Link{Url: "http://h.test/", Depth: 256}, false},
		{&wire.Link{Url: "http://h.test/", Hops: 256}, false},
		{&wire.Link{Url: "h.test"}, false},
	} {
		l, ok := LinkOf(c.link)
		if ok != c.ok || ok && LinkToWire(l).String() != c.link.String() {
			t.Errorf("%v became %+v, %v", c.link, l, ok)
		}
	}
	onStage(t, []int{1, 2}, func(s *stage) {
		p, ctx, host := s.node(1), s.t.Context(), s.hostOf(1, 2)
		for _, keep := range []bool{false, true} {
			links := []*wire.Link{{Url: "nothing"}, LinkToWire(link(host, 1))}
			res, err := p.own.Deliver(ctx, idOf(2), &wire.DeliverRequest{Links: links, Keep: keep})
			if a := res.GetAnswers(); err != nil || len(a) != 2 || word(a[0].GetVerdict()) != "refused" || word(a[1].GetVerdict()) == "refused" {
				t.Errorf("to keep %v: %v, %v", keep, res, err)
			}
		}
		res, err := p.own.Store(ctx, idOf(2), &wire.StoreRequest{Items: []*wire.StoreItem{{Record: &wire.Record{Host: host, Owner: "x"}},
			{Record: rec(host, 1, 2).wire(), Chunk: &wire.Chunk{Done: []byte("odd")}}}})
		if a := res.GetAnswers(); err != nil || len(a) != 2 || word(a[0].GetStep()) != "refused" || word(a[1].GetStep()) != "refused" {
			t.Errorf("%v, %v", res, err)
		}
		about := &wire.StoreItem{Record: rec(s.hostOf(2, 1), 1, 1).wire()}
		if _, err := p.own.readAnswer(idOf(2), about, &wire.StoreAnswer{Newer: rec(host, 9, 2).wire()}); err == nil {
			t.Error("an answer without a step counts")
		}
		p.mustKnow(host, 1, 1) // an answer about one host brings no record of another
		for _, req := range []*wire.LoadRequest{{Host: "no host"}, {Host: host, Cursor: []byte{9}}} {
			if _, err := p.own.Load(ctx, idOf(2), req); !errors.Is(err, peer.ErrMalformed) {
				t.Errorf("%v was loaded: %v", req, err)
			}
		}
	})
}

// A node is busy as long as one thing is left to do with the owners of hosts.
func TestBusy(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, own, host := s.node(1), s.node(1).own, s.hostOf(2, 1, 3)
		for what, set := range map[string]func(){
			"": func() {},
			"an owner that is alive": func() {
				own.tallies.byOwner, own.said[idOf(2)] = map[string]tally{idOf(2): {count: 1}}, tally{count: 1}
			},
			"an owner that said it has less": func() {
				own.tallies.byOwner, own.said[idOf(2)] = map[string]tally{idOf(2): {count: 2}}, tally{count: 1}
			},
			"an owner that has said nothing": func() { own.tallies.byOwner = map[string]tally{idOf(2): {count: 1}} },
			"an owner that is gone":          func() { own.tallies.byOwner = map[string]tally{idOf(2): {}, idOf(7): {}} },
			"a hand-off":                     func() { own.proposals[host] = proposal{} },
			"a claim":                        func() { own.unconfirmed[host] = claimed{} },
			"a count":                        func() { own.tallies.counting = true },
		} {
			p.with(func() {
				own.tallies.byOwner, own.tallies.counting = map[string]tally{}, false
				clear(own.said)
				clear(own.proposals)
				clear(own.unconfirmed)
				set()
			})
			if busy := own.Busy(); busy != (what != "" && what != "an owner that is alive") {
				t.Errorf("left is %q, and it is busy: %v", what, busy)
			}
		}
	})
}

// A newer record counts. Only if it names another owner, this node stops at once, and is busy until its data is there.
func TestWhatANewerRecordDoes(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, p, own := s.found(2, 1, 2, 3), s.node(1), s.node(1).own
		defer own.locks.lock(host)() // nobody looks at it
		p.find(link(host, 2))
		for _, owner := range []int{1, 2} {
			if err := own.obey(rec(host, uint64(1+owner), owner)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if ends := owner == 2; ends == p.mayCrawl(host) || own.queue.anyUrgent() != ends || own.Counts().Obeyed > 0 != ends {
				t.Errorf("owned by %d it is crawled: %v, urgent: %v, obeyed: %d", owner, p.mayCrawl(host), own.queue.anyUrgent(), own.Counts().Obeyed)
			}
		}
		time.Sleep(2 * time.Second)
		if p.behind() {
			t.Error("its last changes are waited for")
		}
	})
}

// A new record ends what was planned for the host by an older one, unless this node goes on as the owner.
func TestWhatANewRecordEnds(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, own, host := s.node(1), s.node(1).own, s.hostOf(2, 1, 3)
		p.put(rec(host, 1, 1))
		for _, c := range []struct {
			next Record
			left string
		}{
			{Record{Host: host, Epoch: 2, Owner: idOf(1), Assigned: true}, "wish hand-off awaited claim of 2 "},
			{rec(host, 3, 2), ""},
			{Record{}, ""}, // it does not concern this node any more
		} {
			p.with(func() {
				own.wishes[host], own.proposals[host], own.awaited[host] = wish{}, proposal{}, time.Now()
				own.unconfirmed[host], own.rumours[host], own.missing[host] = claimed{}, Record{Host: host}, 1
			})
			if _, _, err := own.edit(host, func(Record) Record { return c.next }); err != nil {
				t.Fatal(err)
			}
			p.with(func() {
				left := mark(len(own.wishes) > 0, "wish ") + mark(len(own.proposals) > 0, "hand-off ") + mark(len(own.awaited) > 0, "awaited ") +
					mark(len(own.unconfirmed) > 0, fmt.Sprintf("claim of %d ", own.unconfirmed[host].record.Epoch)) +
					mark(len(own.rumours) > 0, "rumour ") + mark(len(own.missing) > 0, "missing ")
				if left != c.left {
					t.Errorf("after %+v there is left %q, want %q", c.next, left, c.left)
				}
				delete(own.proposals, host)
			})
		}
	})
}

// A life ended between a new record and the role that follows from it. The next life claims the host, and takes the step.
func TestRolesThatLagBehind(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(2), s.hostOf(1, 2, 3)
		p.halt()
		for _, c := range []struct {
			owner          int
			role           frontier.Role
			looked, claims bool
		}{
			{2, frontier.Owned, false, false},
			{2, frontier.Replica, true, true},
			{2, frontier.Leaving, true, false},
			{3, frontier.Replica, false, false},
			{3, frontier.Owned, true, false},
			{3, frontier.Leaving, true, false},
		} {
			p.put(rec(host, 1, c.owner))
			p.role(host, c.role)
			p.with(func() { clear(p.own.unconfirmed) })
			p.idle()
			if err := p.own.recover(s.t.Context()); err != nil {
				t.Error(err)
			}
			if it, looked := p.queued(host); looked != c.looked || it.urgent != c.looked {
				t.Errorf("owned by %d, and %v: it is looked at: %v, %+v", c.owner, c.role, looked, it)
			}
			if u, claims := p.own.unconfirmed[host]; claims != c.claims || u.handed {
				t.Errorf("owned by %d, and %v: it is claimed: %v, %+v", c.owner, c.role, claims, u)
			}
		}
		// One without a record was crawled before the node had peers.
		p.put(Record{Host: host})
		p.role(host, frontier.Owned)
		if err := p.own.recover(s.t.Context()); err != nil || p.record(host) != rec(host, 1, 2) || p.disk.now.shelf[host] == "" { // memory may have no room for all
			t.Errorf("of a host without a record it knows %+v, on disk %q, %v", p.record(host), p.disk.now.shelf[host], err)
		}
		gone, cancel := context.WithCancel(s.t.Context())
		cancel()
		p.put(rec(host, 1, 2))
		if err := p.own.sweepAll(gone, false); !errors.Is(err, context.Canceled) {
			t.Errorf("a sweep goes on when the node stops: %v", err)
		}
	})
}

// A copy that may not be needed any more is looked at after TakeAfter: when the host has a new owner, which is another node.
func TestWhenACopyIsLookedAt(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(1), s.hostOf(2, 1, 3)
		looked := func(what, host string, want bool) {
			t.Helper()
			if it, is := p.queued(host); is != want || is && !it.after.Equal(time.Now().Add(s.cfg.TakeAfter)) {
				t.Errorf("%s: it is looked at: %v, %+v", what, is, it)
			}
		}
		for _, c := range []struct {
			what    string
			was, is Record
			looked  bool
		}{
			{"another owner", rec(host, 1, 2), rec(host, 2, 3), true},
			{"the same owner", rec(host, 1, 2), rec(host, 2, 2), false},
			{"this node", rec(host, 1, 2), rec(host, 2, 1), false},
			{"after this node", rec(host, 1, 1), rec(host, 2, 2), true},
			{"nobody", rec(host, 1, 2), Record{Host: host}, false},
			{"the first that is", Record{Host: host}, rec(host, 2, 2), false},
		} {
			p.put(Record{Host: host})
			p.put(c.was)
			p.idle()
			p.put(c.is)
			looked(c.what, host, c.looked)
		}
		r := rec(s.hostOf(2, 3, 1), 1, 2) // its replica is at node 3
		item := &wire.StoreItem{Record: r.wire(), Chunk: &wire.Chunk{}}
		if _, err := p.own.Store(s.t.Context(), idOf(2), &wire.StoreRequest{Items: []*wire.StoreItem{item}}); err != nil {
			t.Fatal(err)
		}
		looked("a copy that is not meant to stay", r.Host, true)
	})
}

// Whatever changes why a host is suspended wakes runChecks, and what other nodes must hear or ask wakes runRenewals and runSweeps.
func TestWhoIsWoken(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, home, away := s.node(2), s.hostOf(2, 1, 3), s.hostOf(1, 2, 3)
		own, ctx := p.own, s.t.Context()
		p.halt() // nothing else wakes or is woken
		mine := rec(away, 1, 2)
		locked := func(f func()) func() error { return func() error { p.with(f); return nil } }
		seen := func(change func(v *view.View)) func() error {
			return func() error {
				v := own.view()
				change(&v)
				own.SetView(v)
				return nil
			}
		}
		for i, c := range []struct {
			what string
			do   func() error
			want string
		}{
			{"what was woken before", locked(func() {}), ""},
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
			woken := func(wake chan struct{}, name string) string {
				select {
				case <-wake:
					return name
				default:
					return ""
				}
			}
			if got := woken(own.check, "check ") + woken(own.renew, "renew ") + woken(own.sweep, "sweep "); got != c.want && i > 0 {
				t.Errorf("%s: it wakes %q, not %q", c.what, got, c.want)
			}
		}
	})
}
