package ownership

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// A record in the answer to a link counts only if it is newer than the known one. The answer may be late.
func TestAnswerToALinkBringsNewerRecordsOnly(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(2, 1, 2, 3)
		s.hand(host, 1, 2)
		time.Sleep(2 * time.Second)
		own := s.node(1).own // the home, with epoch 2 of node 2
		for _, c := range []struct {
			said Record
			want int
		}{
			{Record{Host: host, Epoch: 1, Owner: idOf(3)}, 2},
			{Record{Host: host, Epoch: 2, Owner: idOf(3)}, 2},
			{Record{Host: host, Epoch: 3, Owner: idOf(1)}, 2}, // what concerns the node itself its home says
			{Record{Host: host, Epoch: 3, Owner: idOf(3)}, 3},
		} {
			if err := own.Moved(c.said.wire()); err != nil {
				t.Fatal(err)
			}
			if r, ok, err := own.Record(host); err != nil || !ok || r.Owner != idOf(c.want) {
				t.Errorf("told %+v, it believes %+v, %v", c.said, r, err)
			}
		}
		owner := s.node(2).own
		if r, _, _ := owner.Record(host); r.Owner != idOf(2) {
			t.Fatalf("%+v", r)
		}
		if err := owner.Moved(Record{Host: host, Epoch: 9, Owner: idOf(3)}.wire()); err != nil {
			t.Fatal(err)
		}
		if r, _, _ := owner.Record(host); r.Owner != idOf(2) {
			t.Errorf("told by a peer, the owner believes %+v", r)
		}
	})
}

// The agreement of a home counts for the time in which it was the home, and no longer than FenceAfter, however often members change.
func TestAnswerOfAFormerHomeCountsForItsTime(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.hostOf(1, 2, 3)
		own := s.node(3).own
		time.Sleep(2 * s.cfg.FenceAfter)
		s.forget(1) // from now on node 2 is the home
		changed := time.Now()
		own.mu.Lock()
		defer own.mu.Unlock()
		for _, c := range []struct {
			home     int
			at, now  time.Duration
			answered bool
		}{
			{1, -time.Second, time.Second, true},
			{1, -time.Second, s.cfg.FenceAfter - time.Second, true},
			{1, -time.Second, s.cfg.FenceAfter, false},
			{1, time.Second, 2 * time.Second, false},
			{2, -time.Second, time.Second, false},
			{2, time.Second, 2 * time.Second, true},
		} {
			own.rights.answered = map[string][]time.Time{idOf(c.home): {changed.Add(c.at)}}
			if got := own.answeredLocked(host, changed.Add(c.now)); got != c.answered {
				t.Errorf("node %d agreed %v after the change; %v after it that counts: %v", c.home, c.at, c.now, got)
			}
		}
		clear(own.rights.answered)
		for _, at := range []time.Duration{-time.Second, s.cfg.FenceAfter - time.Second} {
			own.agreedLocked(idOf(1), changed.Add(at))
		}
		if !own.answeredLocked(host, changed.Add(s.cfg.FenceAfter-time.Second)) {
			t.Error("another answer makes it forget what the home said before the change")
		}
		own.mu.Unlock()
		time.Sleep(s.cfg.FenceAfter - 3*time.Second)
		s.join(4)
		own.mu.Lock()
		own.rights.answered = map[string][]time.Time{idOf(1): {changed.Add(-time.Second)}}
		if !own.answeredLocked(host, changed.Add(s.cfg.FenceAfter-time.Second)) {
			t.Error("another change of members makes it forget that the former home agreed")
		}
	})
}

// A node becomes the owner while it gives away a copy that nobody needs. The copy is not removed.
func TestCopyOfAHostThatComesBackIsNotRemoved(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(3, 1, 2, 3)
		s.hand(host, 1, 3)
		back := Record{Host: host, Epoch: 3, Owner: idOf(2)}
		changed := false
		s.watch(func(l letter) { // the last word before it would be removed
			req, ok := l.req.(*wire.StoreRequest)
			if ok && l.from == 2 && l.to == 1 && req.GetItems()[0].GetRecord().GetEpoch() == 2 && !changed {
				changed = true
				s.fate = func(l letter) bool { return l.res == nil } // nobody can give it anything from now on
				s.node(2).put(back)
			}
		})
		time.Sleep(s.cfg.SweepEvery + time.Minute)
		s.watch(nil)
		if all, _ := s.node(2).has(host); !changed || all != 3 {
			t.Errorf("it became the owner: %v, and has %d URLs", changed, all)
		}
	})
}

// The answer of a home confirms only the epoch that was claimed. The record may have changed while the answer was on its way.
func TestWordAboutAnOlderEpochConfirmsNothing(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.hostOf(1, 2, 3), s.node(2).own
		older, newer := Record{Host: host, Epoch: 1, Owner: idOf(2)}, Record{Host: host, Epoch: 2, Owner: idOf(2)}
		own.mu.Lock()
		own.rights.unconfirmed[host] = claimed{record: newer}
		own.mu.Unlock()
		for _, r := range []Record{older, newer} {
			if _, err := own.claim(s.t.Context(), idOf(1), &wire.ClaimRequest{Records: []*wire.Record{r.wire()}}); err != nil {
				t.Fatal(err)
			}
			own.mu.Lock()
			if _, waits := own.rights.unconfirmed[host]; waits != (r == older) {
				t.Errorf("after the answer about epoch %d it waits for one: %v", r.Epoch, waits)
			}
			own.mu.Unlock()
		}
	})
}

// The reasons why a host is suspended.
func TestWhyAHostWaits(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		away, home, own := s.hostOf(1, 2, 3), s.hostOf(2, 1, 3), s.node(2).own
		time.Sleep(own.cfg.RenewEvery + 2*time.Second) // its home has answered
		for _, c := range []struct {
			host  string
			owner int
			set   func()
			later time.Duration // after that was set
			want  string
		}{
			{away, 2, func() {}, 0, ""},
			{away, 3, func() {}, 0, "another node owns it"},
			{away, 2, func() { own.rights.unconfirmed[away] = claimed{} }, 0, "its home has not confirmed the owner yet"},
			{away, 2, func() { own.proposals[away] = proposal{} }, 0, "it is being handed over"},
			{away, 2, func() { own.awaited[away] = time.Now() }, own.cfg.Collect - 1, "it was taken over, and its replica has not come yet"},
			{away, 2, func() { own.awaited[away] = time.Now().Add(-own.cfg.Collect) }, 0, ""},
			{away, 2, func() {}, own.cfg.FenceAfter + own.cfg.RenewEvery + 2*time.Second, "its home does not answer"},
			{home, 2, func() {}, 0, ""},
			{home, 2, func() { own.rights.unconfirmed[home] = claimed{} }, 0, ""}, // it is its own home
			{home, 2, func() { own.census.contested[home] = time.Now().Add(time.Second) }, 0, "its former owner may not know yet that it is no longer the owner"},
			{home, 2, func() { own.census.contested[home] = time.Now().Add(time.Second) }, time.Second, ""},
			{away, 2, func() { own.census.contested[away] = time.Now().Add(time.Second) }, 0, ""}, // another home decides
			{away, 2, func() { own.silent[idOf(1)] = &silence{since: time.Now()} }, own.cfg.SilentAfter, ""},
			{away, 2, func() { own.silent[idOf(1)] = &silence{since: time.Now()} }, own.cfg.SilentAfter + 1, "the node that keeps its replica does not answer"},
			{home, 2, func() { own.silent[idOf(1)] = &silence{since: time.Now()} }, own.cfg.FenceAfter - 1, "the node that keeps its replica does not answer"},
			{home, 2, func() { own.silent[idOf(1)] = &silence{since: time.Now()} }, own.cfg.FenceAfter, ""}, // one disk must do
			{home, 2, func() {
				own.views.Now().Alive = []string{idOf(2), idOf(3)}
				own.silent[idOf(1)] = &silence{since: time.Now()}
			}, own.cfg.SilentAfter + 1, ""}, // it is known to be gone
			{home, 2, func() { own.silent[idOf(3)] = &silence{since: time.Now()} }, own.cfg.SilentAfter + 1, ""},
			{away, 2, func() { own.views.Now().Majority = false }, 0, "this node does not see a majority of the nodes"},
			{home, 2, func() { s.blind(2) }, 0, "this node, its home, is finding out who owns it"},
			{home, 2, func() { clear(own.census.told); own.views.Begin(time.Now()) }, own.cfg.Collect - 1, "this node, its home, is finding out who owns it"},
			{home, 2, func() {}, own.cfg.Collect, ""},
		} {
			own.mu.Lock()
			c.set()
			own.mu.Unlock()
			r := Record{Host: c.host, Epoch: 1, Owner: idOf(c.owner)}
			if got := own.suspended(c.host, r, time.Now().Add(c.later)); got != c.want {
				t.Errorf("a host of %d waits: %q, want %q", c.owner, got, c.want)
			}
			if c.want == "" && own.suspended(c.host, Record{}, time.Now()) != "another node owns it" {
				t.Error("a host without a record is crawled")
			}
			own.mu.Lock()
			delete(own.rights.unconfirmed, c.host)
			delete(own.proposals, c.host)
			delete(own.awaited, c.host)
			delete(own.census.contested, c.host)
			clear(own.silent)
			own.views.Now().Majority, own.views.Now().Alive = true, own.views.Now().Settled
			own.mu.Unlock()
		}
	})
}

// A host that its home calls contested is suspended until the home confirms it. A host of another node is left alone.
func TestContestedHostWaits(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		mine, theirs, own := s.hostOf(1, 2, 3), s.hostOf(1, 3, 2), s.node(2).own
		other := s.hostOf(3, 2, 1)
		records := map[string]Record{mine: {Host: mine, Epoch: 1, Owner: idOf(2)}, theirs: {Host: theirs, Epoch: 1, Owner: idOf(3)}}
		req := &wire.ClaimRequest{}
		for host, r := range records {
			s.node(2).put(r)
			own.mu.Lock()
			delete(own.rights.unconfirmed, host)
			own.mu.Unlock()
			req.Records = append(req.Records, r.wire())
		}
		s.watch(func(l letter) {
			if res, ok := l.res.(*wire.ClaimResponse); ok && res != nil {
				res.Contested = []string{mine, theirs}
				res.Newer = []*wire.Record{Record{Host: other, Epoch: 9, Owner: idOf(3)}.wire()}
			}
		})
		if all, err := own.claim(s.t.Context(), idOf(1), req); err != nil || !all {
			t.Fatal(all, err)
		}
		if _, known, err := own.Record(other); known || err != nil {
			t.Errorf("the answer brings the record of a host that was not claimed: %v", err)
		}
		own.mu.Lock()
		defer own.mu.Unlock()
		if u, waits := own.rights.unconfirmed[mine]; !waits || u.record != records[mine] || u.handed {
			t.Errorf("the contested host waits: %t, for %+v", waits, u)
		}
		if _, waits := own.rights.unconfirmed[theirs]; waits {
			t.Error("another node's host waits")
		}
	})
}

// After a hand-off the node with the replica has the same data, but would not keep it, because it sees other members. The former owner
// keeps its copy until that node keeps the replica.
func TestFormerOwnerKeepsItsCopyUntilAnotherDoes(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.hostOf(5, 2, 4, 1, 3)
		s.node(2).find(links(host, 0, 3)...)
		time.Sleep(2 * time.Second)
		s.hand(host, 2, 1)
		time.Sleep(2 * time.Second)
		v := s.node(2).own.view()
		v.Settled = append(slices.Clone(v.Settled), idOf(5)) // would be the home
		s.node(2).own.SetView(v)
		s.hand(host, 1, 3)
		time.Sleep(5 * time.Second)
		if all, _ := s.node(1).has(host); all != 3 {
			t.Errorf("the former owner has %d of 3 URLs", all)
		}
		s.see()
		time.Sleep(3 * s.cfg.TakeAfter)
		s.mustHave(host, 3, 3, 2)
	})
}

// The owner has its replica at a node that does not see yet that a member is gone, and so does not see itself as the one to keep the
// replica. It keeps what it has all the same.
func TestReplicaStaysAtANodeThatSeesItLate(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.found(3, 1, 4, 2, 3)
		see := func(at int) {
			v := s.node(at).own.view()
			v.Settled = slices.DeleteFunc(slices.Clone(v.Settled), func(id string) bool { return id == idOf(4) })
			v.Alive = v.Settled
			s.node(at).own.SetView(v)
		}
		see(1)
		time.Sleep(10 * time.Second)
		s.node(2).own.queue.add(host, false)
		time.Sleep(time.Minute)
		see(2)
		time.Sleep(time.Minute)
		if all, _ := s.node(2).has(host); all != 3 {
			t.Errorf("the replica has %d of 3 URLs", all)
		}
	})
}

// A replica is lost while a hand-off to its node is open. It is made again when the owner has taken the host back.
func TestReplicaIsMendedAfterAHandOff(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		host := s.found(3, 1, 2)
		s.lose(is[*wire.CommitRequest])
		if s.node(1).own.HandOff(s.t.Context(), host, idOf(2), true, "test") == nil {
			t.Fatal("it was handed over")
		}
		time.Sleep(20 * time.Second) // the last try to have it committed is over
		if err := s.node(2).disk.Remove(s.t.Context(), host); err != nil {
			t.Fatal(err)
		}
		s.node(1).own.queue.add(host, false) // as a comparison does
		time.Sleep(time.Minute)
		s.mustHave(host, 3, 1, 2)
	})
}

// A hand-off is committed, the answer is lost, and the next owner is cut off. The former owner takes the host back with an epoch above
// that of the other, whichever id is lower; or the home takes the host over.
func TestHostTakenBackHasTheHigherEpoch(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(3, 2, 3, 1)
		s.hand(host, 2, 3)
		time.Sleep(5 * time.Second)
		s.lose(func(l letter) bool { return is[*wire.CommitRequest](l) && l.res != nil })
		if s.node(3).own.HandOff(s.t.Context(), host, idOf(1), true, "test") == nil {
			t.Fatal("it was handed over")
		}
		s.mu.Lock()
		for _, at := range []int{2, 3} {
			s.cut[[2]int{1, at}], s.cut[[2]int{at, 1}] = true, true
		}
		s.mu.Unlock()
		s.see()
		time.Sleep(5 * time.Minute)
		back, _, err := s.node(3).own.Record(host)
		committed, _, err2 := s.node(1).own.Record(host)
		if err != nil || err2 != nil || back.Owner == idOf(1) || committed.Owner != idOf(1) || !back.Newer(committed) {
			t.Errorf("taken back: %+v, committed: %+v; %v, %v", back, committed, err, err2)
		}
	})
}

// The stream knows that URLs found during a message are not at the replica when that message is answered.
func TestStreamKnowsWhatIsNotAtTheReplica(t *testing.T) {
	s, now := newStream(time.Now()), time.Now()
	found := func(path string) map[string]*frontier.Change {
		return map[string]*frontier.Change{"h": {Added: []frontier.PendingURL{{Path: path}}}}
	}
	s.take(found("/1"), now)
	s.next() // it is on its way
	s.take(found("/2"), now)
	s.stored("h")
	if s.storedLocked(time.Now(), time.Time{}) {
		t.Error("what was found meanwhile counts as stored")
	}
	s.next()
	s.stored("h")
	if !s.storedLocked(time.Now(), time.Time{}) {
		t.Error("all was stored, and does not count")
	}
	s.take(found("/3"), now)
	s.next()
	s.bytes = maxStream + 1
	if s.take(found("/4"), now.Add(time.Second)); s.storedLocked(now, time.Time{}) {
		t.Error("what was on its way when changes were dropped counts as stored")
	}
}

// After a failed mending, the replica must still be mended. Later changes wait and go out afterwards.
func TestMendingThatFails(t *testing.T) {
	for _, failure := range []error{nil, errors.New("no answer")} {
		s, now := newStream(time.Now()), time.Now()
		s.take(map[string]*frontier.Change{"h": {Lost: true}}, now)
		over := s.mend("h")
		s.take(map[string]*frontier.Change{"h": {Added: []frontier.PendingURL{{Path: "/1"}}}}, now)
		if out := s.next(); len(out) > 0 {
			t.Errorf("%v was sent while it was mended", out)
		}
		over(failure)
		if c := s.next()["h"]; c == nil || c.Lost != (failure != nil) || len(c.Added) != 1 && !c.Lost {
			t.Errorf("after %v there waits %+v", failure, c)
		}
		if s.stored("h"); !s.storedLocked(time.Now(), time.Time{}) {
			t.Errorf("after %v something is left", failure)
		}
	}
}

// A peer answers only some items of a message: changes, comparisons or data. The others are sent again.
func TestPeerThatAnswersLess(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.hostOf(1, 2, 3), s.node(1).own
		s.node(1).find(links(host, 0, 8)...)
		time.Sleep(2 * time.Second)
		asked := 0
		s.watch(func(l letter) {
			if res, ok := l.res.(*wire.StoreResponse); ok && l.to != 1 {
				res.Answers = res.GetAnswers()[1:]
				asked++
			}
		})
		s.node(1).find(link(host, 8))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if waits := !own.stream.storedLocked(time.Now(), time.Time{}); !waits || asked < 15 {
			t.Errorf("asked %d times; the change waits: %v", asked, waits)
		}
		if err := own.HandOff(t.Context(), host, idOf(2), true, "test"); err == nil {
			t.Error("it was handed over to a node that does not answer")
		}
		if v, err := own.replicator.compareWith(t.Context(), idOf(2), Record{Host: host, Epoch: 1, Owner: idOf(1)}, true); err == nil {
			t.Errorf("a comparison without an answer ends with %+v", v)
		}
		own.compareNow(s.t.Context(), comparison{idOf(2): {{Record: Record{Host: host, Epoch: 1, Owner: idOf(1)}.wire(), Digest: &wire.Digest{}}}}, idOf(2))
		s.node(2).spoil(host, 4)
		time.Sleep(s.cfg.SweepEvery + time.Second) // compared
		s.watch(nil)
		s.lose(func(letter) bool { return true })
		unlock := own.locks.lock(host)
		own.compareNow(s.t.Context(), comparison{idOf(2): {{Record: Record{Host: host, Epoch: 1, Owner: idOf(1)}.wire()}}}, idOf(2))
		own.queue.mu.Lock()
		if own.queue.items[host] == nil {
			t.Error("nobody looks at a host after a comparison without an answer")
		}
		own.queue.mu.Unlock()
		unlock()
		s.lose(nil)
		time.Sleep(2 * time.Minute)
		s.mustHave(host, 9, 1, 2)
	})
}

// The log says once a minute that links are on one disk only.
func TestComplaintsAreRare(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		for i, k := range []struct {
			after time.Duration
			heard bool
		}{{0, true}, {time.Second, false}, {time.Minute - time.Second - 1, false}, {1, true}, {time.Second, false}} {
			time.Sleep(k.after)
			if s.node(1).own.complain() != k.heard {
				t.Errorf("complaint %d is heard: %v", i, !k.heard)
			}
		}
	})
}

// Of members that have left for good nothing is remembered in the end, neither as owners nor as homes.
func TestMembersThatLeftAreForgotten(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		s.hand(s.found(9, 3, 2, 4, 1), 3, 2) // so that node 2 renews
		own := s.node(2).own
		own.mu.Lock()
		own.due[idOf(1)] = true // it could not be told in time
		own.silent[idOf(1)] = &silence{since: time.Now()}
		own.mu.Unlock()
		s.forget(1)
		s.node(1).kill(false)
		left := func() (what []string) {
			own.mu.Lock()
			defer own.mu.Unlock()
			for name, ids := range map[string][]string{
				"left": slices.Collect(maps.Keys(own.census.left)), "due": slices.Collect(maps.Keys(own.due)),
				"heard": slices.Collect(maps.Keys(own.heard)), "answered": slices.Collect(maps.Keys(own.answered)),
				"silent": slices.Collect(maps.Keys(own.silent)),
			} {
				if slices.Contains(ids, idOf(1)) {
					what = append(what, name)
				}
			}
			return what
		}
		if what := left(); !slices.Contains(what, "left") {
			t.Errorf("only %v are left of a member that has just left", what)
		}
		time.Sleep(s.cfg.SweepEvery + s.cfg.FenceAfter)
		if what := left(); len(what) > 0 {
			t.Errorf("%v are left of a member that left long ago", what)
		}
	})
}
