package ownership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/wire"
)

// put gives a node a record of a host.
func (p *player) put(r Record) {
	p.t.Helper()
	if _, _, err := p.own.edit(r.Host, func(Record) Record { return r }); err != nil {
		p.t.Fatal(err)
	}
}

// blind has a node seen no majority until now, and not heard from the others since. The caller holds the lock of its book.
func (s *stage) blind(at int) {
	own := s.players[at].own
	clear(own.told)
	v := *own.views.Now()
	for _, v.Majority = range []bool{false, true} {
		own.views.Set(v, time.Now())
	}
}

// A home agrees to a renewal if the owner has exactly the hosts that the home knows of.
func TestHomeAgreesOnWhatItKnows(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		own := s.node(1).own
		s.node(1).put(Record{Host: s.hostOf(1, 2, 3), Epoch: 1, Owner: idOf(2)})
		own.mu.Lock()
		known := own.tallies.byOwner[idOf(2)]
		own.mu.Unlock()
		for _, c := range []struct {
			count  uint64
			digest uint64
			agreed bool
		}{
			{known.count, known.digest, true},
			{known.count + 1, known.digest, false},
			{known.count, known.digest + 1, false},
			{known.count, Record{Host: s.hostOf(1, 2, 3), Epoch: 2, Owner: idOf(2)}.hash(), false},
			{0, 0, false},
		} {
			res, err := own.Renew(s.t.Context(), idOf(2), &wire.RenewRequest{Count: c.count, Digest: c.digest})
			if err != nil || res.GetAgreed() != c.agreed {
				t.Errorf("%d hosts of digest %x, where it knows %+v: it agreed %v, %v", c.count, c.digest, known, res.GetAgreed(), err)
			}
		}
		own.mu.Lock()
		s.blind(1)
		own.mu.Unlock()
		right := &wire.RenewRequest{Count: known.count, Digest: known.digest}
		if res, err := own.Renew(s.t.Context(), idOf(2), right); err != nil || res.GetAgreed() {
			t.Errorf("without a majority a moment ago: it agreed %v, %v", res.GetAgreed(), err)
		}
		own.mu.Lock()
		own.tallies.counting = true
		own.mu.Unlock()
		if _, err := own.Renew(s.t.Context(), idOf(2), right); err == nil {
			t.Error("it agrees before it has counted")
		}
	})
}

// A renewal fails if the home does not answer the claims, or the renewal itself.
func TestRenewalWithoutAnAnswerFails(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		own, host := s.node(2).own, s.hostOf(1, 2, 3)
		for _, open := range []bool{false, true} {
			s.lose(func(l letter) bool {
				return l.from == 2 && (is[*wire.ClaimRequest](l) || is[*wire.RenewRequest](l) && !open)
			})
			own.mu.Lock()
			clear(own.unconfirmed)
			if open {
				own.unconfirmed[host] = claimed{record: Record{Host: host, Epoch: 1, Owner: idOf(2)}}
			}
			own.mu.Unlock()
			if agreed, err := own.renewAt(s.t.Context(), idOf(1)); agreed || err == nil {
				t.Errorf("with an unconfirmed host, %v: it agreed %v, %v", open, agreed, err)
			}
		}
	})
}

// The answers of a node to a peer's record of a host, and what it makes of it, for each state of its own record.
func TestWhatAPeerKnowsOfAHost(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		own := s.node(1).own
		s.lose(func(letter) bool { return true })
		minority := func(string) { own.views.Now().Majority = false }
		for i, c := range []struct {
			what       string
			away       bool   // another node is the home
			mine, said [2]int // epoch and owner; node 7 is gone
			set        func(host string)
			want       string
		}{
			{what: "less", mine: [2]int{3, 2}, said: [2]int{2, 3}, want: "unspecified, keeps, newer 3, is 3 of 2"},
			{what: "more", mine: [2]int{1, 2}, said: [2]int{3, 3}, want: "unspecified, keeps, is 3 of 3"},
			{what: "a lower owner of the epoch", mine: [2]int{2, 3}, said: [2]int{2, 2}, want: "unspecified, keeps, is 2 of 2"},
			{what: "more, of a host that is not kept", away: true, mine: [2]int{1, 2}, said: [2]int{3, 3}, want: "unspecified, is 3 of 3"},
			{what: "nothing new", away: true, said: [2]int{1, 3}, want: "unspecified, is 1 of 3"},
			{what: "while it is handed over", mine: [2]int{1, 1}, said: [2]int{2, 2},
				set: func(host string) { own.proposals[host] = proposal{next: Record{Host: host, Epoch: 2, Owner: idOf(3)}} }, want: "later, is 1 of 1"},
			{what: "the same, of another home", away: true, mine: [2]int{1, 1}, said: [2]int{4, 3},
				set: func(host string) { own.proposals[host] = proposal{next: Record{Host: host, Epoch: 2, Owner: idOf(3)}} }, want: "later, is 1 of 1, claimed"},
			{what: "another owner", mine: [2]int{1, 1}, said: [2]int{4, 3}, want: "unspecified, is 1 of 1"},
			{what: "another owner, of another home", away: true, mine: [2]int{1, 1}, said: [2]int{4, 7}, want: "unspecified, is 1 of 1, claimed"},
			{what: "another owner that is gone", mine: [2]int{1, 1}, said: [2]int{4, 7}, want: "unspecified, newer 5, is 5 of 1, contested"},
			{what: "the same in a minority", mine: [2]int{1, 1}, said: [2]int{4, 7}, set: minority, want: "unspecified, is 1 of 1"},
			{what: "the same in the last epoch", mine: [2]int{1, 1}, said: [2]int{maxEpoch, 7}, want: "unspecified, is 1 of 1"},
			{what: "what it has lost", said: [2]int{4, 1}, want: "unspecified, keeps, newer 5, is 5 of 1, urgent"},
			{what: "what it has lost, of another owner", mine: [2]int{2, 2}, said: [2]int{4, 1}, want: "unspecified, newer 5, is 5 of 2, urgent"},
			{what: "what it has lost, of another home", away: true, said: [2]int{4, 1}, want: "refused, is 0 of 0"},
			{what: "what it has lost, in a minority", said: [2]int{4, 1}, set: minority, want: "later, is 0 of 0"},
			{what: "what it has lost, of the last epoch", said: [2]int{maxEpoch, 1}, want: "later, is 0 of 0"},
			{what: "what it has lost, as a new home", said: [2]int{4, 1}, set: func(string) { s.blind(1) }, want: "later, is 0 of 0"},
		} {
			host := s.hostsOf(i+1, 1, 2, 3)[i]
			if c.away {
				host = s.hostsOf(i+1, 2, 1, 3)[i]
			}
			record := func(r [2]int) Record { return Record{Host: host, Epoch: uint64(r[0]), Owner: idOf(r[1])} }
			if c.mine[0] > 0 {
				s.node(1).put(record(c.mine))
			}
			own.mu.Lock()
			if delete(own.unconfirmed, host); c.set != nil {
				c.set(host)
			}
			own.mu.Unlock()
			unlock := own.locks.lock(host)
			a, err := own.weigh(idOf(2), record(c.said))
			if err != nil {
				t.Fatal(err)
			}
			own.queue.mu.Lock()
			it := own.queue.items[host]
			urgent := it != nil && it.urgent
			own.queue.mu.Unlock()
			unlock()
			r, _, _ := own.Record(host) //nolint:errcheck // it is in memory
			own.mu.Lock()
			_, contested := own.contested[host]
			_, claims := own.unconfirmed[host]
			own.views.Now().Majority = true
			own.mu.Unlock()
			got := word(a.GetStep()) + mark(a.GetKeeps(), ", keeps") + mark(a.GetNewer() != nil, fmt.Sprint(", newer ", a.GetNewer().GetEpoch())) +
				fmt.Sprintf(", is %d of %d", r.Epoch, numberOf(r.Owner)) + mark(contested, ", contested") + mark(claims, ", claimed") + mark(urgent, ", urgent")
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.what, got, c.want)
			}
		}
	})
}

// The answers of a node to a commit.
func TestWhatIsCommitted(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		own, host := s.node(3).own, s.hostOf(1, 2, 3)
		s.lose(func(letter) bool { return true }) // nobody else decides about the host meanwhile
		const committed, refused, later, differs = wire.Step_STEP_COMMITTED, wire.Step_STEP_REFUSED, wire.Step_STEP_LATER, wire.Step_STEP_DIFFERS
		for _, c := range []struct {
			what     string
			mine     uint64 // its epoch of the host, whose owner is node 2
			to       int
			epoch    uint64
			drained  bool
			leaving  bool
			other    bool // the giver has something else of the host
			want     wire.Step
			received bool
			newer    uint64 // the epoch of the record in the answer
		}{
			{what: "for another node", mine: 1, to: 2, epoch: 2, want: refused},
			{what: "no record", mine: 1, to: 3, want: refused},
			{what: "an older record", mine: 3, to: 3, epoch: 2, want: refused, newer: 3},
			{what: "another record of the epoch", mine: 2, to: 3, epoch: 2, want: refused, newer: 2},
			{what: "while it is drained", mine: 1, to: 3, epoch: 2, drained: true, want: refused},
			{what: "while it gives the host away", mine: 1, to: 3, epoch: 2, leaving: true, want: later},
			{what: "something else", mine: 1, to: 3, epoch: 2, other: true, want: differs},
			{what: "the next record", mine: 1, to: 3, epoch: 2, want: committed, received: true},
			{what: "once more", to: 3, epoch: 2, want: committed},
		} {
			if c.mine > 0 {
				s.node(3).put(Record{Host: host, Epoch: c.mine, Owner: idOf(2)})
			}
			own.draining.Store(c.drained)
			own.mu.Lock()
			if delete(own.proposals, host); c.leaving {
				own.proposals[host] = proposal{}
			}
			before := own.counts.Received
			own.mu.Unlock()
			d, err := s.node(3).front.DigestOf(s.t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			if c.other {
				d.Accepted++
			}
			r := Record{Host: host, Epoch: c.epoch, Owner: idOf(c.to)}
			res, err := own.Commit(s.t.Context(), idOf(2), &wire.CommitRequest{Record: r.wire(), Digest: digestToWire(d)})
			for try := 0; try < 10 && strings.HasPrefix(res.GetReason(), "it is busy"); try++ { // it looks for a node for its replica, in vain
				res, err = own.Commit(s.t.Context(), idOf(2), &wire.CommitRequest{Record: r.wire(), Digest: digestToWire(d)})
			}
			own.mu.Lock()
			received := own.counts.Received > before
			delete(own.proposals, host)
			own.mu.Unlock()
			own.draining.Store(false)
			if err != nil || res.GetStep() != c.want || received != c.received || res.GetNewer().GetEpoch() != c.newer {
				t.Errorf("%s: %v (%s), received %v, newer %v, %v; want %v", c.what, res.GetStep(), res.GetReason(), received, res.GetNewer(), err, c.want)
			}
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
		if err == nil || err.Error() != "the node is starting" {
			t.Errorf("%s is answered: %v", what, err)
		}
	}
	own.Flush(t.Context()) // returns, though nobody sends
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
		own, host := s.node(1).own, s.hostOf(1, 2)
		bad := &wire.Link{Url: "nothing"}
		good := LinkToWire(link(host, 1))
		for _, forward := range []bool{false, true} {
			res, err := own.Deliver(s.t.Context(), idOf(2), &wire.DeliverRequest{Links: []*wire.Link{bad, good}, Keep: forward})
			if a := res.GetAnswers(); err != nil || len(a) != 2 || a[0].GetVerdict() != wire.Verdict_VERDICT_REFUSED ||
				a[1].GetVerdict() == wire.Verdict_VERDICT_REFUSED {
				t.Errorf("to keep %v: %v, %v", forward, res, err)
			}
		}
		res, err := own.Store(s.t.Context(), idOf(2), &wire.StoreRequest{Items: []*wire.StoreItem{{Record: &wire.Record{Host: host, Owner: "x"}},
			{Record: Record{Host: host, Epoch: 1, Owner: idOf(2)}.wire(), Chunk: &wire.Chunk{Done: []byte("odd")}}}})
		if a := res.GetAnswers(); err != nil || len(a) != 2 || a[0].GetStep() != wire.Step_STEP_REFUSED || a[1].GetStep() != wire.Step_STEP_REFUSED {
			t.Errorf("%v, %v", res, err)
		}
		about := &wire.StoreItem{Record: Record{Host: s.hostOf(2, 1), Epoch: 1, Owner: idOf(1)}.wire()}
		if _, err := own.readAnswer(idOf(2), about, &wire.StoreAnswer{Newer: Record{Host: host, Epoch: 9, Owner: idOf(2)}.wire()}); err == nil {
			t.Error("an answer without a step counts")
		}
		if r, known, err := own.Record(host); err != nil || known && r.Epoch == 9 {
			t.Errorf("an answer about one host brings the record of another: %+v, %v", r, err)
		}
		if _, err := own.Load(s.t.Context(), idOf(2), &wire.LoadRequest{Host: "no host"}); err == nil {
			t.Error("what is no host was loaded")
		}
		if _, err := own.Load(s.t.Context(), idOf(2), &wire.LoadRequest{Host: host, Cursor: []byte{9}}); err == nil {
			t.Error("from no place a host was loaded")
		}
	})
}

// A host is neither handed over nor taken back if its epoch could overflow.
func TestEpochsHaveAnEnd(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(2), s.hostOf(1, 2, 3)
		for _, c := range []struct {
			epoch uint64
			ends  bool
		}{{maxEpoch - 3, false}, {maxEpoch - 2, true}, {maxEpoch, true}} {
			r := Record{Host: host, Epoch: c.epoch, Owner: idOf(2), Assigned: true}
			p.put(r)
			if err := p.own.HandOff(s.t.Context(), host, idOf(2), false, "test"); (err != nil) != c.ends {
				t.Errorf("given in epoch %d: %v", c.epoch, err)
			}
			p.put(r)
			if err := p.own.settle(s.t.Context(), r, p.own.view()); (err != nil) != c.ends {
				t.Errorf("taken back in epoch %d: %v", c.epoch, err)
			}
			if now, _, err := p.own.Record(host); err != nil || (now == r) != c.ends {
				t.Errorf("of epoch %d it has %+v, %v", c.epoch, now, err)
			}
		}
	})
}

// A sweep ends when the node stops.
func TestLookAtAllEndsWithTheNode(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		s.node(1).put(Record{Host: s.hostOf(1, 2, 3), Epoch: 1, Owner: idOf(1)})
		if err := s.node(1).own.sweepAll(s.t.Context(), false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(s.t.Context())
		cancel()
		if err := s.node(1).own.sweepAll(ctx, false); !errors.Is(err, context.Canceled) {
			t.Errorf("it went on: %v", err)
		}
	})
}

// A node is busy as long as one thing is left to do with the owners of hosts.
func TestBusy(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		own, host := s.node(1).own, s.hostOf(2, 1, 3)
		for what, set := range map[string]func(){
			"nothing":                func() {},
			"an owner that is alive": func() { own.tallies.byOwner = map[string]tally{idOf(2): {count: 1}} },
			"an owner that is gone":  func() { own.tallies.byOwner = map[string]tally{idOf(2): {}, idOf(7): {}} },
			"a hand-off":             func() { own.proposals[host] = proposal{} },
			"a claim":                func() { own.unconfirmed[host] = claimed{} },
			"a count":                func() { own.tallies.counting = true },
		} {
			own.mu.Lock()
			set()
			own.mu.Unlock()
			if busy := own.Busy(); busy != (what != "nothing" && what != "an owner that is alive") {
				t.Errorf("%s is left, and it is busy: %v", what, busy)
			}
			own.mu.Lock()
			own.tallies.byOwner, own.tallies.counting = map[string]tally{}, false
			delete(own.proposals, host)
			delete(own.unconfirmed, host)
			own.mu.Unlock()
		}
	})
}

// A newer record counts. Only if it names another owner, this node stops at once, and is busy until its data is there.
func TestWhatANewerRecordDoes(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.found(2, 1, 2, 3), s.node(1).own
		defer own.locks.lock(host)() // nobody looks at it
		s.node(1).find(link(host, 2))
		for owner, ends := range []bool{1: false, 2: true} {
			if owner == 0 {
				continue
			}
			if err := own.obey(Record{Host: host, Epoch: uint64(1 + owner), Owner: idOf(owner)}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if ends == s.node(1).mayCrawl(host) || own.queue.urgent() != ends || own.Counts().Obeyed > 0 != ends {
				t.Errorf("owned by %d it is crawled: %v, urgent: %v, obeyed: %d", owner, !ends, own.queue.urgent(), own.Counts().Obeyed)
			}
		}
		time.Sleep(2 * time.Second)
		own.stream.mu.Lock()
		defer own.stream.mu.Unlock()
		if !own.stream.storedLocked(time.Now(), time.Time{}) {
			t.Error("its last changes are waited for")
		}
	})
}

// A new record ends what was planned for the host by an older one, unless this node goes on as the owner.
func TestWhatANewRecordEnds(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(1), s.hostOf(2, 1, 3)
		own := p.own
		p.put(Record{Host: host, Epoch: 1, Owner: idOf(1)})
		for _, c := range []struct {
			next Record
			left string
		}{
			{Record{Host: host, Epoch: 2, Owner: idOf(1), Assigned: true}, "wish hand-off awaited claim of 2"},
			{Record{Host: host, Epoch: 3, Owner: idOf(2)}, ""},
		} {
			own.mu.Lock()
			own.wishes[host], own.proposals[host], own.awaited[host] = wish{}, proposal{}, time.Now()
			own.unconfirmed[host], own.rumours[host], own.missing[host] = claimed{}, Record{Host: host}, 1
			own.mu.Unlock()
			p.put(c.next)
			own.mu.Lock()
			var left []string
			for _, plan := range []struct {
				name string
				is   bool
			}{
				{"wish", len(own.wishes) > 0}, {"hand-off", len(own.proposals) > 0},
				{"awaited", len(own.awaited) > 0}, {fmt.Sprint("claim of ", own.unconfirmed[host].record.Epoch), len(own.unconfirmed) > 0},
				{"rumour", len(own.rumours) > 0}, {"missing", len(own.missing) > 0},
			} {
				if plan.is {
					left = append(left, plan.name)
				}
			}
			delete(own.proposals, host)
			own.mu.Unlock()
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("after %+v there is left %q, want %q", c.next, got, c.left)
			}
		}
	})
}
