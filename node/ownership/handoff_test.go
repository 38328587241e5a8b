package ownership

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/node/view"
	"proxima/node/wire"
)

// The next owner is still busy with the first question when it is asked again. It commits, so the former owner must not crawl the host.
func TestHostStaysFrozenWhileACommitMayBeUnderWay(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host, busy := s.found(5, 1, 2, 3, 4), true
		s.watch(func(l letter) {
			if res, ok := l.res.(*wire.CommitResponse); ok && busy {
				busy, res.Step, res.Reason = false, wire.Step_STEP_LATER, "it is busy with the host"
			}
		})
		if err := s.node(1).handOff(host, 3); err == nil {
			t.Error("it counts as handed over")
		}
		s.mustOwn(host, 3)
		time.Sleep(time.Minute)
		s.mustOwn(host, 3)
	})
}

// The next owner differs when it is to commit, and then does not answer any more. It has committed nothing, so the host is crawled on.
func TestHostThatDiffersIsCrawledOn(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, asked := s.found(5, 1, 2, 3), false
		s.watch(func(l letter) {
			asked = asked || is[*wire.CommitRequest](l)
			req, ok := l.req.(*wire.StoreRequest)
			if ok && l.to == 3 && req.GetItems()[0].GetDigest() != nil && l.res.(*wire.StoreResponse).GetAnswers()[0].GetStep() == wire.Step_STEP_STORED {
				s.node(3).spoil(host, 1)
			}
		})
		s.lose(func(l letter) bool { return asked && l.to == 3 && !is[*wire.CommitRequest](l) })
		if err := s.node(1).handOff(host, 3); err == nil || !asked {
			t.Errorf("asked to commit, %v: %v", asked, err)
		}
		s.mustOwn(host, 1)
	})
}

// A host is shipped three times at most if what arrives always differs from what is sent. Then it stays here, and is crawled as before.
func TestTransferThatNeverAgrees(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, loads := s.found(8, 1, 2, 3), 0
		s.watch(func(l letter) {
			switch res := l.res.(type) {
			case *wire.StoreResponse:
				if l.from == 1 && l.to == 3 {
					res.Answers[0].Step = wire.Step_STEP_DIFFERS
				}
			case *wire.LoadResponse:
				loads++
			}
		})
		if err := s.node(1).handOff(host, 3); !errors.Is(err, errRefused) || loads != 3 {
			t.Errorf("it was shipped %d times: %v", loads, err)
		}
		time.Sleep(time.Second)
		if s.mustOwn(host, 1); !s.node(1).mayCrawl(host) {
			t.Error("it is not crawled")
		}
	})
}

// A caller gives up while the answer to its hand-off comes. The role changes all the same, whatever the answer is.
func TestHandOffOfACallerThatGivesUp(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		for _, want := range []frontier.Role{frontier.Owned, frontier.Replica} {
			refused := want == frontier.Owned
			ctx, cancel := context.WithCancel(s.t.Context())
			s.watch(func(l letter) {
				if is[*wire.CommitRequest](l) {
					cancel()
				}
			})
			s.node(2).own.draining.Store(refused)
			if err := s.node(1).own.HandOff(ctx, host, idOf(2), true, "test"); (err != nil) != refused || ctx.Err() == nil {
				t.Errorf("refused, %v: %v", refused, err)
			}
			if is, _, err := s.node(1).disk.RoleOf(s.t.Context(), host); err != nil || is != want {
				t.Errorf("refused, %v: the host is %v, %v", refused, is, err)
			}
		}
	})
}

// What a home answers to a former owner that takes a host back after an unanswered commit.
func TestHostThatIsTakenBack(t *testing.T) {
	back, newer := Record{Epoch: 3, Owner: idOf(2), Assigned: true}, Record{Epoch: 7, Owner: idOf(2), Assigned: true}
	for _, c := range []struct {
		what   string
		answer func(host string, res *wire.ClaimResponse)
		want   Record
		waits  bool // it is suspended until the home agrees
	}{
		{"yes", func(string, *wire.ClaimResponse) {}, back, false},
		{"contested", func(host string, res *wire.ClaimResponse) { res.Contested = []string{host} }, back, true},
		{"newer", func(host string, res *wire.ClaimResponse) {
			newer.Host = host
			res.Newer = []*wire.Record{newer.wire()}
		}, newer, false},
	} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			host, p := s.hostOf(1, 2, 3), s.node(2)
			r := Record{Host: host, Epoch: 1, Owner: idOf(2), Assigned: true}
			p.put(r)
			p.role(host, frontier.Leaving)
			s.watch(func(l letter) {
				if res, ok := l.res.(*wire.ClaimResponse); ok && l.from == 2 {
					c.answer(host, res)
				}
			})
			p.with(func() { p.own.proposals[host] = proposal{next: rec(host, 2, 7)} }) // a node that is gone
			if err := p.own.settle(t.Context(), r, p.own.view()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // nothing more happens to it
			c.want.Host = host
			if now := p.record(host); now != c.want {
				t.Errorf("%s: taken back: %+v", c.what, now)
			}
			s.mustOwn(host, 2)
			p.with(func() {
				if _, waits := p.own.unconfirmed[host]; waits != c.waits {
					t.Errorf("%s: it waits: %v", c.what, waits)
				}
			})
		})
	}
}

// A node without a majority, or that sees no members yet, takes no host back: the other side may have committed.
func TestMinorityTakesNoHostBack(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(2), s.hostOf(2, 1, 3)
		r := rec(host, 1, 2)
		p.put(r)
		minority, blind := p.own.view(), p.own.view()
		minority.Majority, blind.Settled = false, nil
		for what, v := range map[string]view.View{"in a minority": minority, "without members": blind} {
			p.with(func() { p.own.proposals[host] = proposal{next: rec(host, 2, 7)} }) // a node that is gone
			if err := p.own.settle(s.t.Context(), r, v); !errors.Is(err, errLater) || p.record(host) != r {
				t.Errorf("%s: %v, and it has %+v", what, err, p.record(host))
			}
		}
	})
}

// A host is neither handed over nor taken back if its epoch could overflow.
func TestEpochsHaveAnEnd(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(2), s.hostOf(1, 2, 3)
		p.halt() // otherwise the host follows its home, and a hand-off fails for that
		wrong := func(err error, ends bool) bool {
			return (err != nil) != ends || ends && !strings.Contains(err.Error(), "too many owners")
		}
		for epoch, ends := range map[uint64]bool{maxEpoch - 3: false, maxEpoch - 2: true, maxEpoch: true} {
			r := rec(host, epoch, 2)
			p.put(r)
			if err := p.handOff(host, 2); wrong(err, ends) {
				t.Errorf("handed over in epoch %d: %v", epoch, err)
			}
			p.put(r)
			if err := p.own.settle(s.t.Context(), r, p.own.view()); wrong(err, ends) {
				t.Errorf("taken back in epoch %d: %v", epoch, err)
			}
			if now := p.record(host); (now == r) != ends {
				t.Errorf("of epoch %d it has %+v", epoch, now)
			}
		}
	})
}

// While it is open whether a hand-off was committed, no other one begins: two nodes could own the host by the same epoch.
func TestHandOffThatIsOpen(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(2), s.hostOf(1, 2, 3)
		p.halt() // it does not settle it
		p.put(rec(host, 1, 2))
		p.role(host, frontier.Leaving)
		if err := p.handOff(host, 3); !errors.Is(err, errNotOwner) {
			t.Errorf("it is handed over: %v", err)
		}
		s.node(3).mustKnow(host, 0, 0)
	})
}

// The refusal of a hand-off brings no record of another host.
func TestRefusalThatNamesAnotherHost(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, other := s.found(3, 1, 2, 3), s.hostOf(3, 1, 2)
		s.watch(func(l letter) {
			if res, ok := l.res.(*wire.CommitResponse); ok {
				res.Step, res.Newer = wire.Step_STEP_REFUSED, rec(other, 9, 3).wire()
			}
		})
		if err := s.node(1).handOff(host, 3); !errors.Is(err, errRefused) {
			t.Error(err)
		}
		s.node(1).mustKnow(other, 0, 0)
	})
}

// A node that hands a host to itself becomes its assigned owner, with one new record. At another home it claims that.
func TestHandOffToItself(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, away, p := s.hostOf(1, 2, 3), s.hostOf(2, 1, 3), s.node(1)
		p.find(links(host, 0, 3)...)
		for _, k := range []struct {
			assigned bool
			epoch    uint64
		}{{false, 1}, {true, 2}, {true, 2}, {false, 3}} {
			if err := p.own.HandOff(t.Context(), host, idOf(1), k.assigned, "test"); err != nil {
				t.Fatal(err)
			}
			if r := p.record(host); r != (Record{Host: host, Epoch: k.epoch, Owner: idOf(1), Assigned: k.assigned}) {
				t.Errorf("kept as assigned, %v: %+v", k.assigned, r)
			}
		}
		if err := p.own.handOff(s.t.Context(), rec(host, 1, 1), idOf(1), true, "too late"); err != nil {
			t.Error(err)
		}
		if err := p.own.settle(s.t.Context(), rec(host, 2, 1), p.own.view()); !errors.Is(err, errLater) {
			t.Error(err)
		}
		p.mustKnow(host, 3, 1) // what has changed meanwhile stays
		s.lose(func(letter) bool { return true })
		p.put(rec(away, 1, 1))
		if err := p.handOff(away, 1); err != nil {
			t.Error(err)
		}
		p.with(func() {
			if c, want := p.own.unconfirmed[away], (claimed{Record{Host: away, Epoch: 2, Owner: idOf(1), Assigned: true}, true}); c != want {
				t.Errorf("at its home it claims %+v, not %+v", c, want)
			}
		})
	})
}

// A node becomes the owner while it gives away a copy that nobody needs. The copy is not removed.
func TestCopyOfAHostThatComesBackIsNotRemoved(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, changed := s.found(3, 1, 2, 3), false
		s.hand(host, 1, 3)
		s.watch(func(l letter) { // the last word before it would be removed
			req, ok := l.req.(*wire.StoreRequest)
			if ok && l.from == 2 && l.to == 1 && req.GetItems()[0].GetRecord().GetEpoch() == 2 && !changed {
				changed = true
				s.fate = func(l letter) bool { return l.res == nil } // nobody can give it anything from now on
				s.node(2).put(rec(host, 3, 2))
			}
		})
		time.Sleep(s.cfg.SweepEvery + time.Minute)
		s.watch(nil)
		if s.node(2).mustHold(host, 3, 0); !changed {
			t.Error("it did not become the owner")
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
		s.node(1).mustHold(host, 3, 0)
		s.see()
		time.Sleep(3 * s.cfg.TakeAfter)
		s.mustHave(host, 3, 3, 2)
	})
}

// The disk of the next owner fails when it has written the record of a commit, and the former owner hears of that record before it asks again. The
// next owner crawls the host all the same.
func TestCommitThatFailsBehindItsRecord(t *testing.T) {
	for _, call := range []string{"SetRole", "RoleOf"} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			host := s.found(3, 1, 2, 3)
			s.watch(func(l letter) {
				if l.to == 2 && is[*wire.StoreRequest](l) {
					s.node(2).fail(&fault{call: call, n: 1})
				}
			})
			if err := s.node(1).handOff(host, 2); err == nil {
				t.Errorf("%s does not fail", call)
			}
			s.watch(nil)
			if err := s.node(1).own.census.obey(rec(host, 2, 2)); err != nil {
				t.Fatal(err)
			}
			if time.Sleep(time.Minute); !slices.Equal(s.owners(host), []int{2}) {
				t.Errorf("after a fault of %s %v own the host", call, s.owners(host))
			}
		})
	}
}

// A node has handed a host over, and cannot compare its copy: the next owner reaches nobody any more, though it counts as alive. When the home has
// taken the host over, the node gives its copy to the owner that it has then, and its links go there, too.
func TestCopyOfAHostWhoseNextOwnerIsMute(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.found(3, 1, 2, 3, 4)
		s.hand(host, 1, 4)
		time.Sleep(10 * time.Second)
		s.hand(host, 4, 3)
		s.lose(func(l letter) bool { return l.from == 4 && l.to == 3 })
		time.Sleep(5 * time.Second)
		s.part(3, 1, 2, 4)
		time.Sleep(5 * time.Minute)
		for at, urls := range map[int]int{1: 3, 2: 3, 4: 0} {
			s.node(at).mustHold(host, urls, 0)
		}
		if to := s.node(4).own.Destination(LinkToWire(link(host, 3))); to != idOf(1) {
			t.Errorf("links go to %s", to)
		}
	})
}

// A newer record that comes before the answer to the commit stays in force.
func TestNewerRecordOutlivesACommit(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		s.watch(func(l letter) {
			if is[*wire.CommitRequest](l) {
				s.node(1).put(rec(host, 9, 2))
			}
		})
		if err := s.node(1).handOff(host, 3); err != nil {
			t.Error(err)
		}
		s.node(1).mustKnow(host, 9, 2)
	})
}
