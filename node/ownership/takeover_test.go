package ownership

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"proxima/frontier"
)

// An owner is gone when it has been silent for TakeAfter. Before that it may be crawling, even if it does not answer.
func TestOwnerIsGoneAfterTakeAfter(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		own, now := s.node(1).own, time.Now()
		own.mu.Lock()
		defer own.mu.Unlock()
		own.census.heard[idOf(7)] = now
		for silent, gone := range map[time.Duration]bool{s.cfg.FenceAfter + time.Second: false, s.cfg.TakeAfter: false, s.cfg.TakeAfter + 1: true} {
			if got := own.goneLocked(idOf(7), now.Add(silent)); got != gone {
				t.Errorf("silent for %v it is gone: %v", silent, got)
			}
		}
		if own.goneLocked(idOf(8), now.Add(time.Hour)) {
			t.Error("an owner that was not expected before is gone at once")
		}
		own.contested["http://h.test"] = now.Add(1)
		own.lists[idOf(2)], own.lists[idOf(7)] = nil, nil // they own nothing here yet; one is there, and the other is not
		own.mu.Unlock()
		_, _ = own.goneOwners(now)
		own.mu.Lock()
		if _, kept := own.lists[idOf(2)]; !kept || len(own.lists) != 1 || len(own.contested) != 1 {
			t.Errorf("unfinished lists of %d owners are kept, that of the living: %v; contested are %v", len(own.lists), kept, own.contested)
		}
		own.tallies.counting, own.heard[idOf(7)] = true, now
		own.mu.Unlock()
		_, _ = own.goneOwners(now)
		own.mu.Lock()
		if len(own.census.heard) == 0 {
			t.Error("owners are forgotten while their hosts are counted")
		}
		for counting, lost := range map[bool]bool{true: false, false: true} { // meanwhile renewals are refused
			own.tallies.counting, own.heard[idOf(7)] = counting, now.Add(-s.cfg.TakeAfter-1)
			own.mu.Unlock()
			if got := own.lost(Record{Host: "http://h.test", Epoch: 1, Owner: idOf(7)}); got != lost {
				t.Errorf("counting is %v, and the host of a silent owner is to be taken over: %v", counting, got)
			}
			own.mu.Lock()
		}
	})
}

// A node that has just become the home of a host gives a silent owner as long as its predecessor would have. The owner may have told it
// long ago that it owned nothing there.
func TestNewHomeWaitsForASilentOwner(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.found(3, 1, 2, 3, 4)
		s.hand(host, 1, 3)
		time.Sleep(2 * s.cfg.TakeAfter)
		s.mu.Lock()
		for _, at := range []int{1, 2, 4} {
			s.cut[[2]int{3, at}], s.cut[[2]int{at, 3}] = true, true
		}
		s.mu.Unlock()
		s.forget(1)
		for after, owner := range []int{3, 2} {
			time.Sleep(s.cfg.FenceAfter)
			if r, _, err := s.node(2).own.Record(host); err != nil || r.Owner != idOf(owner) {
				t.Errorf("after %d times FenceAfter the new home knows %+v, %v", after+1, r, err)
			}
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
		time.Sleep(s.cfg.FenceAfter)
		s.join(4)
		time.Sleep(s.cfg.TakeAfter - s.cfg.FenceAfter + s.cfg.RenewEvery)
		if r, _, err := s.node(1).own.Record(host); err != nil || r.Owner != idOf(1) {
			t.Errorf("it is owned by %+v, %v", r, err)
		}
	})
}

// A home takes a host over if its owner is gone or has lost it, and nothing has changed since it looked.
func TestWhatIsTakenOver(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		type plan struct {
			is       Record
			silent   time.Duration
			lists    int
			minority bool
		}
		own, hosts := s.node(1).own, s.hostsOf(7, 1, 2, 3)
		s.lose(func(letter) bool { return true })
		for i, c := range []struct {
			what   string
			change func(p *plan)
			want   string
		}{
			{"its owner is gone", func(*plan) {}, "taken"},
			{"its owner may be there", func(p *plan) { p.silent = s.cfg.TakeAfter }, "later"},
			{"its owner has lost it", func(p *plan) { p.silent, p.lists = 0, listsMissed }, "taken"},
			{"in a minority", func(p *plan) { p.minority, p.lists = true, listsMissed }, "later"},
			{"a newer record has come", func(p *plan) { p.is.Epoch = 2 }, ""},
			{"another node is its home", func(p *plan) { p.is.Host = s.hostOf(2, 1, 3) }, ""},
			{"the last epoch", func(p *plan) { p.is.Epoch = maxEpoch }, ""},
		} {
			was := Record{Host: hosts[i], Epoch: 1, Owner: idOf(7)}
			p := plan{is: was, silent: s.cfg.TakeAfter + 1}
			c.change(&p)
			if p.is.Epoch != 2 {
				was = p.is
			}
			s.node(1).put(p.is)
			own.mu.Lock()
			own.heard[idOf(7)] = time.Now().Add(-p.silent)
			own.missing[was.Host] = p.lists
			own.views.Now().Majority = !p.minority
			own.mu.Unlock()
			err := own.takeOver(s.t.Context(), was, true)
			got := mark(errors.Is(err, errLater), "later")
			if r, _, err := own.Record(was.Host); err == nil && r.Owner == idOf(1) && own.queue.urgent() {
				got = "taken" + mark(r != (Record{Host: was.Host, Epoch: 2, Owner: idOf(1)}), fmt.Sprint(" ", r))
			}
			if got != c.want || err != nil && got != "later" {
				t.Errorf("%s: %q, %v", c.what, got, err)
			}
		}
		unknown := s.hostsOf(8, 1, 2, 3)[7]
		s.node(1).role(unknown, frontier.Replica)
		if err := own.step(s.t.Context(), &item{host: unknown}); err != nil {
			t.Errorf("a copy of a host without a record: %v", err)
		}
	})
}
