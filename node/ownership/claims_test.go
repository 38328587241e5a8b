package ownership

import (
	"slices"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// The answers of a home to a claim, for each state of its own record.
func TestClaimAtTheHome(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		c, self := s.node(1).own.census, s.node(1).own
		fence := s.cfg.FenceAfter
		const newer, later, contested = "newer", "later", "contested"
		for _, k := range []struct {
			what           string
			mine           [2]int // epoch and owner, of epoch 0 nothing
			claim          [2]int
			handed         bool
			heard          time.Duration // since the former owner renewed
			until          time.Duration // from now on, while the host is contested already
			leaving        [2]int        // what it is being handed over to
			answer         string
			believes, none bool // the claim afterwards, or nothing
		}{
			{what: "a host that is not known", claim: [2]int{1, 2}, believes: true},
			{what: "what it has", mine: [2]int{1, 2}, claim: [2]int{1, 2}, believes: true},
			{what: "less than it has", mine: [2]int{3, 3}, claim: [2]int{2, 2}, answer: newer},
			{what: "a host that it owned", mine: [2]int{1, 1}, claim: [2]int{2, 2}, handed: true, believes: true},
			{what: "a host that it has just been given", mine: [2]int{1, 2}, claim: [2]int{2, 3}, handed: true, believes: true},
			{what: "a host that was not given", mine: [2]int{1, 2}, claim: [2]int{2, 3}, answer: contested, believes: true},
			{what: "while the former owner may go on", mine: [2]int{1, 2}, claim: [2]int{2, 3}, heard: fence - 1, answer: contested, believes: true},
			{what: "when it has stopped", mine: [2]int{1, 2}, claim: [2]int{2, 3}, heard: fence, believes: true},
			{what: "a newer record of the same owner", mine: [2]int{1, 2}, claim: [2]int{2, 2}, believes: true},
			{what: "a contested one once more", mine: [2]int{2, 3}, claim: [2]int{2, 3}, until: 1, answer: contested, believes: true},
			{what: "when that is over", mine: [2]int{2, 3}, claim: [2]int{2, 3}, until: 0, believes: true},
			{what: "a contested one that was given in the end", mine: [2]int{1, 2}, claim: [2]int{2, 3}, handed: true, until: time.Hour, believes: true},
			{what: "a host on its way to another", mine: [2]int{1, 1}, claim: [2]int{2, 2}, leaving: [2]int{2, 3}, answer: later},
			{what: "one on its way there", mine: [2]int{1, 1}, claim: [2]int{2, 2}, leaving: [2]int{2, 2}, believes: true},
			{what: "one on its way there by an older record", mine: [2]int{1, 1}, claim: [2]int{3, 2}, leaving: [2]int{2, 2}, believes: true},
		} {
			host, now := s.hostOf(1, 2, 3), time.Now()
			record := func(r [2]int) Record { return Record{Host: host, Epoch: uint64(r[0]), Owner: idOf(r[1])} }
			if s.node(1).put(Record{Host: host}); k.mine[0] > 0 {
				s.node(1).put(record(k.mine))
			}
			self.mu.Lock()
			clear(c.contested)
			if c.heard[idOf(2)] = now.Add(-k.heard); k.until != 0 || k.answer == "" && k.mine == k.claim {
				c.contested[host] = now.Add(k.until)
			}
			if delete(self.proposals, host); k.leaving[0] > 0 {
				self.proposals[host] = proposal{next: record(k.leaving)}
			}
			self.mu.Unlock()
			res := &wire.ClaimResponse{}
			if err := c.hear(record(k.claim), k.handed, now, res); err != nil {
				t.Fatal(err)
			}
			want := &wire.ClaimResponse{}
			switch k.answer {
			case newer:
				want.Newer = append(want.Newer, record(k.mine).wire())
			case later:
				want.Later = append(want.Later, host)
			case contested:
				want.Contested = append(want.Contested, host)
			}
			if res.String() != want.String() {
				t.Errorf("%s: it answers %v, not %v", k.what, res, want)
			}
			if r, _, err := self.Record(host); err != nil || (r == record(k.claim)) != k.believes {
				t.Errorf("%s: it believes %+v, %v", k.what, r, err)
			}
			self.mu.Lock()
			if _, still := c.contested[host]; still != (k.answer == contested) {
				t.Errorf("%s: it is contested: %v", k.what, still)
			}
			delete(self.proposals, host)
			self.mu.Unlock()
		}
	})
}

// A home that does not see a majority of the nodes believes no claim, since another node may be the home by now.
func TestHomeInAMinorityBelievesNoClaim(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		s.node(2).kill(false)
		s.node(3).kill(false)
		own, host := s.node(1).own, s.hostOf(1, 2, 3)
		res := &wire.ClaimResponse{}
		if err := own.census.hear(Record{Host: host, Epoch: 1, Owner: idOf(2)}, false, time.Now(), res); err != nil {
			t.Fatal(err)
		}
		if r, known, err := own.Record(host); err != nil || known || !slices.Equal(res.GetLater(), []string{host}) {
			t.Errorf("it answers %v, and believes %+v, %v", res, r, err)
		}
	})
}

// An owner has lost a host if two complete lists in a row lack it, unless the record is too young to be in them.
func TestHostThatIsInNoList(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		hosts, own := s.hostsOf(4, 1, 2, 3), s.node(1).own
		named, lost, young, other := hosts[0], hosts[1], hosts[2], hosts[3]
		own.queue.mu.Lock()
		own.queue.items[lost] = &item{host: lost, busy: true, at: -1} // else it is taken over before the test has seen it missing
		own.queue.mu.Unlock()
		for host, owner := range map[string]int{named: 2, lost: 2, young: 2, other: 3} {
			s.node(1).put(Record{Host: host, Epoch: 1, Owner: idOf(owner)})
		}
		now := time.Now().Add(2 * s.cfg.RenewEvery)
		list := func(hosts ...string) {
			t.Helper()
			own.mu.Lock()
			own.census.recent[young] = now.Add(1 - 2*s.cfg.RenewEvery)
			own.census.lists[idOf(2)] = map[uint64]struct{}{}
			for _, host := range hosts {
				own.census.list(idOf(2), host)
			}
			seen := own.census.lists[idOf(2)]
			own.mu.Unlock()
			if err := own.census.missed(idOf(2), seen, own.view(), now); err != nil {
				t.Fatal(err)
			}
		}
		missing := func(want ...string) {
			t.Helper()
			for _, host := range hosts {
				if own.isMissing(host) != slices.Contains(want, host) {
					t.Errorf("%s is missing: %v", host, own.isMissing(host))
				}
			}
		}
		list(named)
		missing()
		list(named, lost) // it was but late
		list(named)
		missing()
		list(named)
		missing(lost)
		list(named, lost)
		missing()
	})
}

// A node that hands a host to itself becomes its assigned owner, with one new record.
func TestHandOffToItself(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.hostOf(1, 2, 3), s.node(1).own
		s.node(1).find(links(host, 0, 3)...)
		for _, k := range []struct {
			assigned bool
			epoch    uint64
		}{{false, 1}, {true, 2}, {true, 2}, {false, 3}} {
			if err := own.HandOff(t.Context(), host, idOf(1), k.assigned, "test"); err != nil {
				t.Fatal(err)
			}
			want := Record{Host: host, Epoch: k.epoch, Owner: idOf(1), Assigned: k.assigned}
			if r, _, err := own.Record(host); err != nil || r != want {
				t.Errorf("kept as assigned, %v: %+v, %v", k.assigned, r, err)
			}
		}
	})
}

// A host that is taken back after an unanswered commit is suspended while its home calls it contested.
func TestHostThatIsTakenBackContested(t *testing.T) {
	for _, contested := range []bool{false, true} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			host, p := s.hostOf(1, 2, 3), s.node(2)
			r := Record{Host: host, Epoch: 1, Owner: idOf(2), Assigned: true}
			p.put(r)
			if err := p.front.SetRole(t.Context(), host, frontier.Leaving); err != nil {
				t.Fatal(err)
			}
			s.watch(func(l letter) {
				if res, ok := l.res.(*wire.ClaimResponse); ok && contested && l.from == 2 {
					res.Contested = []string{host}
				}
			})
			if err := p.own.settle(t.Context(), r, p.own.view()); err != nil {
				t.Fatal(err)
			}
			back := Record{Host: host, Epoch: 3, Owner: idOf(2), Assigned: true}
			if now, _, err := p.own.Record(host); err != nil || now != back {
				t.Errorf("taken back: %+v, %v", now, err)
			}
			p.own.mu.Lock()
			defer p.own.mu.Unlock()
			if _, waits := p.own.rights.unconfirmed[host]; waits != contested {
				t.Errorf("contested %v, and it waits: %v", contested, waits)
			}
		})
	}
}

// If the owner in a record or rumour says that it does not know the host, the record or rumour is dropped. It stays if another node
// says so.
func TestOwnerThatKnowsNothing(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4, 5}, func(s *stage) {
		host, own := s.hostOf(1, 2, 3, 4, 5), s.node(5).own
		for _, k := range []struct {
			rumour bool
			who    int
			stays  bool
		}{{true, 3, false}, {true, 2, true}, {false, 3, false}, {false, 2, true}} {
			r := Record{Host: host, Epoch: 1, Owner: idOf(3)}
			if s.node(5).put(r); k.rumour {
				s.node(5).put(Record{Host: host})
				own.mu.Lock()
				own.rumours[host] = r
				own.mu.Unlock()
			}
			if err := own.Moved(&wire.Record{Host: host, Home: idOf(k.who)}); err != nil {
				t.Fatal(err)
			}
			want := idOf(1)
			if k.stays {
				want = idOf(3)
			}
			if p, err := own.whereTo(host); err != nil || p.to != want {
				t.Errorf("a rumour %v, node %d knows nothing: links go to %v, %v", k.rumour, k.who, p.to, err)
			}
		}
	})
}

// Rumours, cached records and waiting changes are bounded.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		const limit = 16
		own := s.node(3).own
		own.cfg.CachedRecords = limit
		records := newRecords(newDisk(s.names), limit)
		for _, host := range s.hostsOf(3*limit, 1, 2, 3) {
			r := Record{Host: host, Epoch: 1, Owner: idOf(2)}
			if err := own.Moved(r.wire()); err != nil {
				t.Fatal(err)
			}
			records.put(host, r)
			if err := records.flush(); err != nil {
				t.Fatal(err)
			}
			own.mu.Lock()
			if rumours := len(own.rumours); own.rumours[host] != r || rumours > limit || records.cache.Len() > limit {
				t.Errorf("%d rumours, %d records; the last: %+v", rumours, records.cache.Len(), own.rumours[host])
			}
			own.mu.Unlock()
		}
		stream, now := newStream(time.Now()), time.Now()
		stream.cleared = true
		for k, host := range []string{"a", "b", "c"} { // the third finds no room
			stream.bytes = maxStream + k/2
			stream.take(map[string]*frontier.Change{host: {Added: []frontier.PendingURL{{Path: "/1"}}, Done: []uint64{1}}}, now)
			if full := k == 2; stream.cleared == full {
				t.Errorf("%d bytes wait, and changes were lost: %v", stream.bytes, !full)
			}
		}
		if out := stream.next(); !out["a"].Lost || !out["b"].Lost || out["c"].Lost || len(stream.held) != 1 || stream.hosts["a"].held > 0 {
			t.Errorf("%+v waited", out)
		}
	})
}

// If no replica comes for two TakeAfter after a take-over, one event says that the host is lost.
func TestReplicaThatDoesNotCome(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		host, own := s.hostOf(1, 2), s.node(1).own
		s.node(1).find(links(host, 0, 1)...)
		var told []EventKind
		s.hooks.Lock()
		s.told = func(_ int, e Event) { told = append(told, e.Kind) }
		s.hooks.Unlock()
		now := time.Now()
		for _, after := range []time.Duration{2 * s.cfg.TakeAfter, 1, 1} {
			own.mu.Lock()
			if len(told) == 0 {
				own.awaited[host] = time.Now()
			}
			own.mu.Unlock()
			now = now.Add(after)
			own.missReplicas(now)
			s.hooks.Lock()
			if lost := slices.Contains(told, Lost); lost != (after == 1) || len(told) > 1 {
				t.Errorf("after %v more: %v", after, told)
			}
			s.hooks.Unlock()
		}
	})
}
