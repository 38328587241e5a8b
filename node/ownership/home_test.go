package ownership

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/peer"
	"proxima/node/wire"
)

// begins reports whether a node begins to crawl a host when it finds a link to page k of it.
func (p *player) begins(host string, k int) bool {
	p.t.Helper()
	mine, err := p.own.Route(p.t.Context(), links(host, k, k+1))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(mine) > 0
}

// A home agrees to a renewal if the owner has exactly the hosts that the home knows of.
func TestHomeAgreesOnWhatItKnows(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		p, r := s.node(1), rec(s.hostOf(1, 2, 3), 1, 2)
		p.put(r)
		agrees := func(count, digest uint64) (bool, error) {
			res, err := p.own.Renew(s.t.Context(), idOf(2), &wire.RenewRequest{Count: count, Digest: digest})
			return res.GetAgreed(), err
		}
		for _, c := range []struct {
			count, digest uint64
			agreed        bool
		}{{1, r.hash(), true}, {2, r.hash(), false}, {1, r.hash() + 1, false}, {1, rec(r.Host, 2, 2).hash(), false}, {0, 0, false}} {
			if agreed, err := agrees(c.count, c.digest); err != nil || agreed != c.agreed {
				t.Errorf("%d hosts of digest %x: it agreed %v, %v", c.count, c.digest, agreed, err)
			}
		}
		p.with(func() { s.blind(1) })
		if agreed, err := agrees(1, r.hash()); err != nil || agreed {
			t.Errorf("without a majority a moment ago: it agreed %v, %v", agreed, err)
		}
		time.Sleep(time.Second)
		p.with(func() { p.own.tallies.counting = true })
		if _, err := agrees(1, r.hash()); !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("before it has counted: %v", err)
		}
		p.with(func() {
			if p.own.heard[idOf(2)] != time.Now() {
				t.Error("an owner that is told to come again counts as silent")
			}
		})
	})
}

// The answers of a home to a claim, for each state of its own record.
func TestClaimAtTheHome(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		p, own, patience, away := s.node(1), s.node(1).own, s.cfg.SuspendAfter, s.hostOf(2, 1, 3)
		const newer, later, contested, gone = "newer", "later", "contested", 7
		heard := func(ago time.Duration) func(string) { // of node 2
			return func(string) { own.heard[idOf(2)] = time.Now().Add(-ago) }
		}
		disputed := func(d time.Duration) func(string) {
			return func(host string) { own.contested[host] = time.Now().Add(d) }
		}
		leaving := func(to int) func(string) {
			return func(host string) { own.proposals[host] = proposal{next: rec(host, 2, to)} }
		}
		for _, k := range []struct {
			what        string
			mine, claim [2]int // epoch and owner, of epoch 0 nothing
			handed      bool
			set         func(host string) // may be nil
			answer      string
			believes    bool // the claim afterwards
		}{
			{"a host that is not known", [2]int{}, [2]int{1, 2}, false, nil, "", true},
			{"a host of another home", [2]int{}, [2]int{1, 2}, false, nil, later, false},
			{"what it has", [2]int{1, 2}, [2]int{1, 2}, false, nil, "", true},
			{"less than it has", [2]int{3, 3}, [2]int{2, 2}, false, nil, newer, false},
			{"a host that it owned", [2]int{1, 1}, [2]int{2, 2}, true, nil, "", true},
			{"a host that it owned, of an owner that is gone", [2]int{1, 1}, [2]int{2, gone}, false, nil, newer, false},
			{"a host that it has just been given", [2]int{1, 2}, [2]int{2, 3}, true, heard(0), "", true},
			{"a host that was not given", [2]int{1, 2}, [2]int{2, 3}, false, heard(0), contested, true},
			{"while the former owner may go on", [2]int{1, 2}, [2]int{2, 3}, false, heard(patience - 1), contested, true},
			{"when it has stopped", [2]int{1, 2}, [2]int{2, 3}, false, heard(patience), "", true},
			{"a newer record of the same owner", [2]int{1, 2}, [2]int{2, 2}, false, heard(0), "", true},
			{"a contested one once more", [2]int{2, 3}, [2]int{2, 3}, false, disputed(1), contested, true},
			{"when that is over", [2]int{2, 3}, [2]int{2, 3}, false, disputed(0), "", true},
			{"a contested one that was given in the end", [2]int{1, 2}, [2]int{2, 3}, true, disputed(time.Hour), "", true},
			{"a host on its way to another", [2]int{1, 1}, [2]int{2, 2}, false, leaving(3), later, false},
			{"one on its way there", [2]int{1, 1}, [2]int{2, 2}, false, leaving(2), "", true},
			{"one on its way there by an older record", [2]int{1, 1}, [2]int{3, 2}, false, leaving(2), "", true},
		} {
			host := s.hostOf(1, 2, 3)
			if k.what == "a host of another home" {
				host = away
			}
			record := func(r [2]int) Record { return rec(host, uint64(r[0]), r[1]) }
			if p.put(Record{Host: host}); k.mine[0] > 0 {
				p.put(record(k.mine))
			}
			p.with(func() {
				clear(own.contested)
				if delete(own.proposals, host); k.set != nil {
					k.set(host)
				}
			})
			res := &wire.ClaimResponse{}
			if err := own.census.hear(record(k.claim), k.handed, time.Now(), res); err != nil {
				t.Fatal(err)
			}
			got := mark(len(res.Newer) > 0, newer) + mark(len(res.Later) > 0, later) + mark(len(res.Contested) > 0, contested)
			if got != k.answer || got == newer && res.Newer[0].String() != p.record(host).wire().String() {
				t.Errorf("%s: it answers %v, not %q", k.what, res, k.answer)
			}
			if r := p.record(host); (r == record(k.claim)) != k.believes {
				t.Errorf("%s: it believes %+v", k.what, r)
			}
			p.with(func() {
				if _, still := own.contested[host]; still != (k.answer == contested || k.claim[1] == gone) {
					t.Errorf("%s: it is contested: %v", k.what, still)
				}
				delete(own.proposals, host)
			})
		}
	})
}

// Each host of a message of claims was given by its former owner, or was not.
func TestWhichHostWasGiven(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		hosts, req := s.hostsOf(3, 1, 2, 3), &wire.ClaimRequest{Handed: []bool{true, false}}
		for _, host := range hosts {
			s.node(1).put(rec(host, 1, 2))
			req.Records = append(req.Records, rec(host, 2, 3).wire())
		}
		if res, err := s.node(1).own.Claim(s.t.Context(), idOf(3), req); err != nil || !slices.Equal(res.GetContested(), hosts[1:]) {
			t.Errorf("contested are %v, not %v; %v", res.GetContested(), hosts[1:], err)
		}
	})
}

// A home that does not see a majority of the nodes believes no claim, since another node may be the home by now.
func TestHomeInAMinorityBelievesNoClaim(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		time.Sleep(2 * s.cfg.Collect)
		s.node(2).kill(false)
		s.node(3).kill(false)
		p, host := s.node(1), s.hostOf(1, 2, 3)
		if renewed, err := p.own.Renew(s.t.Context(), idOf(2), &wire.RenewRequest{}); err != nil || renewed.GetAgreed() {
			t.Errorf("it agrees to a renewal: %v", err)
		}
		if p.begins(host, 0) {
			t.Error("it begins a host")
		}
		r := rec(s.hostsOf(2, 1, 2, 3)[1], 1, 1)
		p.put(r)
		if err := p.own.settle(s.t.Context(), r, p.own.view()); !errors.Is(err, errLater) {
			t.Errorf("it takes a host back: %v", err)
		}
		res := &wire.ClaimResponse{}
		if err := p.own.census.hear(rec(host, 1, 2), false, time.Now(), res); err != nil || !slices.Equal(res.GetLater(), []string{host}) {
			t.Errorf("it answers %v, %v", res, err)
		}
		p.mustKnow(host, 0, 0)
	})
}

// An owner has lost a host if two complete lists in a row lack it, unless the record is too young to be in them.
func TestHostThatIsInNoList(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		hosts, p, own := s.hostsOf(4, 1, 2, 3), s.node(1), s.node(1).own
		named, lost, young, other := hosts[0], hosts[1], hosts[2], hosts[3]
		p.occupy(lost) // else it is taken over before the test has seen it missing
		for host, owner := range map[string]int{named: 2, lost: 2, young: 2, other: 3} {
			p.put(rec(host, 1, owner))
		}
		now := time.Now().Add(2 * s.cfg.RenewEvery)
		for i, c := range []struct {
			listed, missing []string
		}{
			{[]string{named}, nil}, {[]string{named, lost}, nil}, // it was but late
			{[]string{named}, nil}, {[]string{named}, []string{lost}},
			{[]string{named, lost}, nil}, {[]string{named}, nil}, {[]string{named}, []string{lost}},
		} {
			var seen map[uint64]struct{}
			p.with(func() {
				own.recent[young] = now.Add(1 - 2*s.cfg.RenewEvery)
				own.lists[idOf(2)] = map[uint64]struct{}{}
				for _, host := range c.listed {
					own.listLocked(idOf(2), host)
				}
				seen = own.lists[idOf(2)]
			})
			if err := own.missed(idOf(2), seen, own.view(), now); err != nil {
				t.Fatal(err)
			}
			p.with(func() {
				missing := slices.DeleteFunc(slices.Clone(hosts), func(host string) bool { return !own.missingLocked(host) })
				if !slices.Equal(missing, c.missing) {
					t.Errorf("after list %d %v are missing, not %v", i, missing, c.missing)
				}
			})
			if it, _ := p.queued(lost); (it.anew && it.urgent) != (i >= 3) {
				t.Errorf("after list %d it is looked at: %+v", i, it)
			}
		}
		if err := own.step(s.t.Context(), &item{host: lost}); err != nil {
			t.Error(err)
		}
		p.mustKnow(lost, 2, 1)
	})
}

// A list of an owner counts if it is whole, made in the same view, and comes to a home with a majority. An owner speaks only for itself. If the
// list lacks a host for the first time, the owner is to send another one, and has told its hosts only then.
func TestListThatCounts(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, own, host := s.node(1), s.node(1).own, s.hostOf(1, 2, 3)
		p.put(rec(host, 1, 2))
		time.Sleep(2 * s.cfg.RenewEvery)
		v := own.view()
		for _, c := range []struct {
			first, minority bool
			members         uint64
			told, counts    bool
		}{
			{true, false, v.Digest(), false, true},
			{false, false, v.Digest(), false, false},
			{true, false, 0, false, false},
			{true, true, v.Digest(), true, false},
		} {
			p.with(func() {
				delete(own.told, idOf(2))
				delete(own.heard, idOf(2))
				if delete(own.lists, idOf(2)); c.first { // an earlier list ended early
					own.lists[idOf(2)] = map[uint64]struct{}{}
					own.listLocked(idOf(2), host)
				}
				delete(own.missing, host)
				own.views.Now().Majority = !c.minority
			})
			req := &wire.ClaimRequest{First: c.first, Last: true, Members: c.members, Records: []*wire.Record{rec(host, 2, 3).wire()}}
			if _, err := own.Claim(s.t.Context(), idOf(2), req); err != nil {
				t.Fatal(err)
			}
			p.with(func() {
				if told, missing := own.told[idOf(2)], own.missing[host] > 0; told != c.told || missing != c.counts || own.heard[idOf(2)] != time.Now() {
					t.Errorf("%+v: it was told %v, the host is missing %v, the owner was heard at %v", c, told, missing, own.heard[idOf(2)])
				}
			})
		}
	})
}

// Lists that are being sent have room for a million hosts together. One that has no room is given up.
func TestListsAreBounded(t *testing.T) {
	c := newCensus(nil)
	c.lists["a"], c.lists["b"] = make(map[uint64]struct{}, 1<<20), map[uint64]struct{}{}
	for i := range uint64(1<<20 - 1) {
		c.lists["a"][i] = struct{}{}
	}
	for i, kept := range []bool{true, false} {
		c.listLocked("b", fmt.Sprintf("http://h%d.test", i))
		if _, is := c.lists["b"]; is != kept {
			t.Errorf("host %d: the list is kept: %v", i, is)
		}
	}
	if c.listLocked("c", "http://h.test"); len(c.lists) != 1 || len(c.lists["a"]) != 1<<20-1 {
		t.Error("a host counts of which no list is sent, or the list of another owner is given up")
	}
}

// What a home was told counts only for the members of that time. A node that has just become the home of a host, without a replica or
// record of it, creates it only when all have told again what they own.
func TestNewHomeHearsTheOthersFirst(t *testing.T) {
	onStage(t, []int{1, 2, 3, 5}, func(s *stage) {
		host := s.hostOf(3, 1, 4, 2, 5)
		s.node(3).find(link(host, 0))
		s.hand(host, 3, 2)
		s.join(4) // all tell it what they own, and it has no part in the host
		time.Sleep(3 * s.cfg.TakeAfter)
		s.node(3).die() // the home
		s.node(1).die() // the witness
		s.forget(1, 3)
		s.node(4).find(link(host, 1))
		s.mustOwn(host, 2)
		time.Sleep(time.Minute)
		s.mustHave(host, 2, 2, 4)
	})
}

// A node that has just become one that can be dialled is the home of more hosts, and sees that first itself. Owners that do not see it yet
// do not tell it those hosts, so it must not create them.
func TestHomeThatOthersDoNotSeeYet(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		see := func(nodes []int, homes ...int) {
			for _, at := range nodes {
				v := s.node(at).own.view()
				v.Homes = nil
				for _, home := range homes {
					v.Homes = append(v.Homes, idOf(home))
				}
				s.node(at).own.SetView(v)
			}
		}
		see([]int{1, 2, 3, 4}, 2, 3, 4)
		host := s.hostOf(1, 2, 3, 4)
		time.Sleep(10 * time.Second)
		s.node(2).find(link(host, 0))
		s.hand(host, 2, 4)
		time.Sleep(10 * time.Second)
		see([]int{1}, 1, 2, 3, 4)
		time.Sleep(5 * time.Second)
		if s.node(1).begins(host, 1) {
			t.Error("it begins a host that another node owns")
		}
		see([]int{2, 3, 4}, 1, 2, 3, 4)
		time.Sleep(time.Minute)
		s.mustOwn(host, 4)
	})
}

// An owner is gone when it has been silent for TakeAfter. Before that it may be crawling, even if it does not answer.
func TestOwnerIsGoneAfterTakeAfter(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		p, own, now := s.node(1), s.node(1).own, time.Now()
		p.with(func() {
			own.heard[idOf(7)] = now
			for silent, gone := range map[time.Duration]bool{s.cfg.SuspendAfter + time.Second: false, s.cfg.TakeAfter: false, s.cfg.TakeAfter + 1: true} {
				if got := own.goneLocked(idOf(7), now.Add(silent)); got != gone {
					t.Errorf("silent for %v it is gone: %v", silent, got)
				}
			}
			if own.goneLocked(idOf(8), now.Add(time.Hour)) {
				t.Error("an owner that was not expected before is gone at once")
			}
			own.contested["http://h.test"] = now.Add(1)
			own.lists[idOf(2)], own.lists[idOf(7)] = nil, nil // they own nothing here yet; one is there, and the other is not
		})
		_, _ = own.goneOwners(now)
		p.with(func() {
			if _, kept := own.lists[idOf(2)]; !kept || len(own.lists) != 1 || len(own.contested) != 1 {
				t.Errorf("unfinished lists of %d owners are kept, that of the living: %v; contested are %v", len(own.lists), kept, own.contested)
			}
		})
		for _, counting := range []bool{true, false} { // meanwhile renewals are refused, and nobody is forgotten
			p.with(func() { own.tallies.counting, own.heard[idOf(7)] = counting, now.Add(-s.cfg.TakeAfter-1) })
			if got := own.lost(rec("http://h.test", 1, 7)); got == counting {
				t.Errorf("counting is %v, and the host of a silent owner is to be taken over: %v", counting, got)
			}
			_, _ = own.goneOwners(now)
			p.with(func() {
				if len(own.heard) > 0 != counting {
					t.Errorf("counting is %v, and %d owners are known", counting, len(own.heard))
				}
			})
		}
	})
}

// The silence of an owner counts on when the members change, and hosts are counted anew.
func TestSilenceOutlastsAChangeOfMembers(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(3, 1, 2, 3)
		s.hand(host, 1, 3)
		time.Sleep(s.cfg.RenewEvery)
		s.node(3).kill(false)
		time.Sleep(s.cfg.SuspendAfter)
		s.join(4)
		time.Sleep(s.cfg.TakeAfter - s.cfg.SuspendAfter + s.cfg.RenewEvery)
		s.node(1).mustKnow(host, 3, 1)
	})
}

// A home takes a host over if its owner is gone or has lost it, and nothing has changed since it looked.
func TestWhatIsTakenOver(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, own, hosts := s.node(1), s.node(1).own, s.hostsOf(8, 1, 2, 3)
		s.lose(func(letter) bool { return true })
		gone := s.cfg.TakeAfter + 1
		for i, c := range []struct {
			what     string
			host     string
			was, is  uint64        // the epoch when the home looked, and now
			silent   time.Duration // the owner
			lists    int           // that lacked the host
			minority bool
			want     string
		}{
			{"its owner is gone", hosts[0], 1, 1, gone, 0, false, "taken"},
			{"its owner may be there", hosts[1], 1, 1, gone - 1, 0, false, "later"},
			{"its owner has lost it", hosts[2], 1, 1, 0, listsMissed, false, "taken"},
			{"in a minority", hosts[3], 1, 1, gone, listsMissed, true, "later"},
			{"a newer record has come", hosts[4], 1, 2, gone, 0, false, ""},
			{"another node is its home", s.hostOf(2, 1, 3), 1, 1, gone, 0, false, ""},
			{"the last epoch", hosts[5], maxEpoch, maxEpoch, gone, 0, false, ""},
		} {
			p.put(rec(c.host, c.is, 7))
			p.with(func() {
				own.heard[idOf(7)], own.missing[c.host] = time.Now().Add(-c.silent), c.lists
				own.views.Now().Majority = !c.minority
			})
			err := own.takeOver(s.t.Context(), rec(c.host, c.was, 7), true)
			got := mark(errors.Is(err, errLater), "later")
			if r := p.record(c.host); r == rec(c.host, 2, 1) && own.queue.anyUrgent() && p.disk.copy().now.shelf[c.host] == string(r.encode()) {
				got = "taken"
			} else if r != rec(c.host, c.is, 7) {
				got = fmt.Sprint(r)
			}
			if got != c.want || err != nil && got != "later" {
				t.Errorf("%d, %s: %q, %v", i, c.what, got, err)
			}
		}
		p.role(hosts[7], frontier.Replica)
		if err := own.step(s.t.Context(), &item{host: hosts[7]}); err != nil {
			t.Errorf("a copy of a host without a record: %v", err)
		}
	})
}

// If no replica comes for two TakeAfter after a take-over, one event for each host says that it is lost.
func TestReplicaThatDoesNotCome(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		p, now, told := s.node(1), time.Now(), 0
		s.listen(func(_ int, e Event) {
			if told++; e.Kind != Lost {
				t.Errorf("it was told %v", e.Kind)
			}
		}, nil)
		p.with(func() { p.own.awaited[s.hostOf(1, 2)], p.own.awaited[s.hostOf(2, 1)] = now, now })
		for _, c := range []struct {
			after time.Duration
			told  int
		}{{2 * s.cfg.TakeAfter, 0}, {2*s.cfg.TakeAfter + 1, 2}, {2*s.cfg.TakeAfter + 2, 2}} {
			if p.own.missReplicas(now.Add(c.after)); told != c.told {
				t.Errorf("after %v there were %d events", c.after, told)
			}
		}
	})
}

// Of members that have left for good nothing is remembered in the end, neither as owners nor as homes.
func TestMembersThatLeftAreForgotten(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		s.hand(s.found(9, 3, 2, 4, 1), 3, 2) // so that node 2 renews
		p, own := s.node(2), s.node(2).own
		p.with(func() {
			own.due[idOf(1)] = true // it could not be told in time
			own.silent[idOf(1)] = &silence{since: time.Now()}
		})
		s.forget(1)
		s.node(1).kill(false)
		for _, remembered := range []bool{true, false} {
			p.with(func() {
				_, left := own.left[idOf(1)]
				_, heard := own.heard[idOf(1)]
				_, silent := own.silent[idOf(1)]
				if left != remembered || !remembered && (heard || silent || own.due[idOf(1)] || len(own.answered[idOf(1)]) > 0) {
					t.Errorf("of the member that left is known: left %v, heard %v, silent %v, due %v, %v", left, heard, silent, own.due, own.answered)
				}
			})
			time.Sleep(s.cfg.SweepEvery + s.cfg.SuspendAfter)
		}
		p.with(func() { // one that is back has not left, though it is not settled yet
			v := *own.views.Now()
			v.Alive, own.left[idOf(1)] = append(slices.Clone(v.Alive), idOf(1)), time.Now()
			if own.noteLeftLocked(v, v); len(own.left) > 0 {
				t.Errorf("there have left %v", own.left)
			}
		})
	})
}

// While a home stood still no owner could renew there. Afterwards it gives them time for that before it takes them for gone.
func TestSilenceCountsFromAStandstill(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(3, 1, 2, 3)
		s.hand(host, 1, 3)
		time.Sleep(s.cfg.RenewEvery)
		s.part(1, 3)
		time.Sleep(s.cfg.TakeAfter - s.cfg.RenewEvery)
		s.node(1).own.Stopped()
		time.Sleep(s.cfg.Collect - time.Second)
		s.node(1).mustKnow(host, 2, 3)
		time.Sleep(s.cfg.RenewEvery)
		s.node(1).mustKnow(host, 3, 1)
	})
}
