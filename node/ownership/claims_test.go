package ownership

import (
	"errors"
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
			what     string
			mine     [2]int // epoch and owner, of epoch 0 nothing
			claim    [2]int
			handed   bool
			heard    time.Duration // since the former owner renewed
			until    time.Duration // from now on, while the host is contested already
			leaving  [2]int        // what it is being handed over to
			away     bool          // another node is the home
			answer   string
			believes bool // the claim afterwards
		}{
			{what: "a host that is not known", claim: [2]int{1, 2}, believes: true},
			{what: "a host of another home", claim: [2]int{1, 2}, away: true, answer: later},
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
			if k.away {
				host = s.hostOf(2, 1, 3)
			}
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
		if renewed, err := own.Renew(s.t.Context(), idOf(2), &wire.RenewRequest{}); err != nil || renewed.GetAgreed() {
			t.Errorf("it agrees to a renewal: %v", err)
		}
		if mine, err := own.Route(s.t.Context(), links(host, 0, 1)); err != nil || len(mine) > 0 {
			t.Errorf("it begins a host: %v", err)
		}
		r := Record{Host: s.hostsOf(2, 1, 2, 3)[1], Epoch: 1, Owner: idOf(1)}
		s.node(1).put(r)
		if err := own.settle(s.t.Context(), r, own.view()); !errors.Is(err, errLater) {
			t.Errorf("it takes a host back: %v", err)
		}
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
				own.mu.Lock()
				is := own.missingLocked(host)
				own.mu.Unlock()
				if is != slices.Contains(want, host) {
					t.Errorf("%s is missing: %v", host, is)
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
		own.queue.mu.Lock()
		if it := own.queue.items[lost]; !it.anew || !it.urgent {
			t.Errorf("nobody looks at it: %+v", it)
		}
		own.queue.mu.Unlock()
		list(named, lost)
		missing()
		list(named)
		list(named)
		if err := own.step(s.t.Context(), &item{host: lost}); err != nil {
			t.Error(err)
		}
		if r, _, err := own.Record(lost); err != nil || r.Owner != idOf(1) {
			t.Errorf("the owner that has lost it stays the owner: %+v, %v", r, err)
		}
	})
}

// A list of an owner counts if it is whole, made in the same view, and comes to a home with a majority. An owner speaks only for itself.
func TestListThatCounts(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		own, host := s.node(1).own, s.hostOf(1, 2, 3)
		s.node(1).put(Record{Host: host, Epoch: 1, Owner: idOf(2)})
		time.Sleep(2 * s.cfg.RenewEvery)
		v := own.view()
		for _, c := range []struct {
			first, minority bool
			members         uint64
			told, counts    bool
		}{{true, false, v.Digest(), true, true}, {false, false, v.Digest(), false, false}, {true, false, 0, false, false}, {true, true, v.Digest(), true, false}} {
			own.mu.Lock()
			delete(own.told, idOf(2))
			delete(own.heard, idOf(2))
			if delete(own.lists, idOf(2)); c.first { // an earlier list ended early
				own.lists[idOf(2)] = map[uint64]struct{}{}
				own.list(idOf(2), host)
			}
			delete(own.missing, host)
			own.views.Now().Majority = !c.minority
			own.mu.Unlock()
			req := &wire.ClaimRequest{First: c.first, Last: true, Members: c.members, Records: []*wire.Record{Record{Host: host, Epoch: 2, Owner: idOf(3)}.wire()}}
			if _, err := own.Claim(s.t.Context(), idOf(2), req); err != nil {
				t.Fatal(err)
			}
			own.mu.Lock()
			if told, missing := own.told[idOf(2)], own.missing[host] > 0; told != c.told || missing != c.counts || own.heard[idOf(2)] != time.Now() {
				t.Errorf("%+v: it was told %v, the host is missing %v, the owner was heard at %v", c, told, missing, own.heard[idOf(2)])
			}
			own.mu.Unlock()
		}
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
		if err := own.handOff(s.t.Context(), Record{Host: host, Epoch: 1, Owner: idOf(1)}, idOf(1), true, "too late"); err != nil {
			t.Error(err)
		}
		if err := own.settle(s.t.Context(), Record{Host: host, Epoch: 2, Owner: idOf(1)}, own.view()); !errors.Is(err, errLater) {
			t.Error(err)
		}
		if r, _, err := own.Record(host); err != nil || r.Epoch != 3 {
			t.Errorf("a record that has changed meanwhile became %+v, %v", r, err)
		}
		away, own := s.hostOf(2, 1, 3), s.node(1).own
		s.lose(func(letter) bool { return true })
		s.node(1).put(Record{Host: away, Epoch: 1, Owner: idOf(1)})
		if err := own.HandOff(s.t.Context(), away, idOf(1), true, "test"); err != nil {
			t.Error(err)
		}
		own.mu.Lock()
		defer own.mu.Unlock()
		if c, want := own.unconfirmed[away], (claimed{Record{Host: away, Epoch: 2, Owner: idOf(1), Assigned: true}, true}); c != want {
			t.Errorf("at its home it claims %+v, not %+v", c, want)
		}
	})
}

// Each host of a message of claims was given by its former owner, or was not.
func TestWhichHostWasGiven(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		req := &wire.ClaimRequest{Handed: []bool{true, false}}
		for _, host := range s.hostsOf(3, 1, 2, 3) {
			s.node(1).put(Record{Host: host, Epoch: 1, Owner: idOf(2)})
			req.Records = append(req.Records, Record{Host: host, Epoch: 2, Owner: idOf(3)}.wire())
		}
		res, err := s.node(1).own.Claim(s.t.Context(), idOf(3), req)
		if want := []string{req.Records[1].Host, req.Records[2].Host}; err != nil || !slices.Equal(res.GetContested(), want) {
			t.Errorf("contested are %v, not %v; %v", res.GetContested(), want, err)
		}
	})
}

// A host that is taken back after an unanswered commit is suspended while its home calls it contested.
func TestHostThatIsTakenBackContested(t *testing.T) {
	for _, answer := range []string{"", "contested", "newer"} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			host, p := s.hostOf(1, 2, 3), s.node(2)
			r := Record{Host: host, Epoch: 1, Owner: idOf(2), Assigned: true}
			p.put(r)
			if err := p.front.SetRole(t.Context(), host, frontier.Leaving); err != nil {
				t.Fatal(err)
			}
			s.watch(func(l letter) {
				res, ok := l.res.(*wire.ClaimResponse)
				switch {
				case !ok || l.from != 2:
				case answer == "contested":
					res.Contested = []string{host}
				case answer == "newer":
					res.Newer = []*wire.Record{Record{Host: host, Epoch: 7, Owner: idOf(2)}.wire()}
				}
			})
			p.own.mu.Lock()
			p.own.proposals[host] = proposal{next: Record{Host: host, Epoch: 2, Owner: idOf(7)}} // a node that is gone
			p.own.mu.Unlock()
			if err := p.own.settle(t.Context(), r, p.own.view()); err != nil {
				t.Fatal(err)
			}
			back := Record{Host: host, Epoch: 3, Owner: idOf(2), Assigned: true}
			if answer == "newer" {
				back.Epoch, back.Assigned = 7, false
			}
			role, _, _ := p.front.RoleOf(t.Context(), host) //nolint:errcheck // it is a map
			if now, _, err := p.own.Record(host); err != nil || now != back || role != frontier.Owned {
				t.Errorf("%s: taken back: %+v, %v, %v", answer, now, role, err)
			}
			p.own.mu.Lock()
			defer p.own.mu.Unlock()
			if _, waits := p.own.rights.unconfirmed[host]; waits != (answer == "contested") {
				t.Errorf("%s: it waits: %v", answer, waits)
			}
		})
	}
}

// If the owner in a record or rumour says that it does not know the host, the record or rumour is dropped. It stays if another node
// says so, and at nodes that must keep the record.
func TestOwnerThatKnowsNothing(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4, 5}, func(s *stage) {
		host := s.hostOf(1, 2, 3, 4, 5)
		s.lose(func(letter) bool { return true })
		for _, k := range []struct {
			at     int
			rumour bool
			owner  int
			who    int
			stays  bool
		}{{5, true, 3, 3, false}, {5, true, 3, 2, true}, {5, false, 3, 3, false}, {5, false, 3, 2, true}, {5, false, 5, 5, true},
			{2, false, 1, 1, true}, {3, false, 1, 1, true}, {4, false, 1, 1, false}, {1, false, 3, 3, true}} {
			own, r := s.node(k.at).own, Record{Host: host, Epoch: 1, Owner: idOf(k.owner)}
			if s.node(k.at).put(r); k.rumour {
				s.node(k.at).put(Record{Host: host})
				own.mu.Lock()
				own.rumours[host] = r
				own.mu.Unlock()
			}
			if err := own.Moved(&wire.Record{Host: host, Home: idOf(k.who)}); err != nil {
				t.Fatal(err)
			}
			_, stays, err := own.Record(host)
			own.mu.Lock()
			if err != nil || (stays || own.rumours[host] == r) != k.stays {
				t.Errorf("%+v: it stays %v, %v", k, !k.stays, err)
			}
			own.mu.Unlock()
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
		stream, now := newStream(time.Time{}), time.Now()
		stream.cleared = true
		for k, host := range []string{"a", "b", "c"} { // the third finds no room
			stream.bytes = maxStream + k/2
			stream.take(map[string]*frontier.Change{host: {Added: []frontier.PendingURL{{Path: "/1"}}, Done: []uint64{1}}}, now)
			if full := k == 2; stream.cleared == full || stream.lost.Equal(now) != full {
				t.Errorf("%d bytes wait, and changes were lost: %v", stream.bytes, !full)
			}
		}
		if out := stream.next(); !out["a"].Lost || !out["b"].Lost || out["c"].Lost || len(stream.held) != 1 || stream.hosts["a"].held > 0 ||
			stream.bytes != (&frontier.Change{Done: []uint64{1}}).Memory() {
			t.Errorf("%+v waited", out)
		}
	})
}

// If no replica comes for two TakeAfter after a take-over, one event for each host says that it is lost.
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
				own.awaited[host], own.awaited[s.hostOf(2, 1)] = time.Now(), time.Now()
			}
			own.mu.Unlock()
			now = now.Add(after)
			own.missReplicas(now)
			s.hooks.Lock()
			if want := map[bool]int{true: 2}[after == 1]; len(told) != want || want > 0 && told[1] != Lost {
				t.Errorf("after %v more: %v", after, told)
			}
			s.hooks.Unlock()
		}
	})
}
