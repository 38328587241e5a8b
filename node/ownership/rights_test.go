package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"proxima/node/wire"
)

// mayCrawl reports whether a node's frontier was told that it may crawl a host.
func (p *player) mayCrawl(host string) bool {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	return p.disk.allowed[host]
}

// The reasons why a host is suspended.
func TestWhyAHostWaits(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, away, home := s.node(2), s.hostOf(1, 2, 3), s.hostOf(2, 1, 3)
		own, cfg, nothing := p.own, s.cfg, func() {}
		time.Sleep(cfg.RenewEvery + 2*time.Second) // its home has answered
		silent := func(at int) func() { return func() { own.silent[idOf(at)] = &silence{since: time.Now()} } }
		contested := func(host string) func() { return func() { own.contested[host] = time.Now().Add(time.Second) } }
		const former, replica = "its former owner may not know yet that it is no longer the owner", "the node that keeps its replica does not answer"
		const asks = "this node, its home, is finding out who owns it"
		for _, c := range []struct {
			host  string
			owner int
			set   func()
			later time.Duration // after that was set
			want  string
		}{
			{away, 2, nothing, 0, ""},
			{away, 3, nothing, 0, "another node owns it"},
			{away, 2, func() { own.unconfirmed[away] = claimed{} }, 0, "its home has not confirmed the owner yet"},
			{away, 2, func() { own.proposals[away] = proposal{} }, 0, "it is being handed over"},
			{away, 2, func() { own.awaited[away] = time.Now() }, cfg.Collect - 1, "it was taken over, and its replica has not come yet"},
			{away, 2, func() { own.awaited[away] = time.Now().Add(-cfg.Collect) }, 0, ""},
			{away, 2, nothing, cfg.SuspendAfter + cfg.RenewEvery + 2*time.Second, "its home does not answer"},
			{home, 2, nothing, 0, ""},
			{home, 2, func() { own.unconfirmed[home] = claimed{} }, 0, ""}, // it is its own home
			{home, 2, contested(home), 0, former},
			{home, 2, contested(home), time.Second, ""},
			{away, 2, contested(away), 0, ""}, // another home decides
			{away, 2, silent(1), cfg.SilentAfter, ""},
			{away, 2, silent(1), cfg.SilentAfter + 1, replica},
			{home, 2, silent(1), cfg.SuspendAfter - 1, replica},
			{home, 2, silent(1), cfg.SuspendAfter, ""}, // one disk must do
			{home, 2, func() { own.views.Now().Alive = []string{idOf(2), idOf(3)}; silent(1)() }, cfg.SilentAfter + 1, ""}, // it is known to be gone
			{home, 2, silent(3), cfg.SilentAfter + 1, ""},
			{away, 2, func() { own.views.Now().Majority = false }, 0, "this node does not see a majority of the nodes"},
			{home, 2, func() { s.blind(2) }, 0, asks},
			{home, 2, func() { clear(own.told); own.views.Begin(time.Now()) }, cfg.Collect - 1, asks},
			{home, 2, nothing, cfg.Collect, ""},
		} {
			p.with(c.set)
			if got := own.suspended(c.host, rec(c.host, 1, c.owner), time.Now().Add(c.later)); got != c.want {
				t.Errorf("a host of %d waits: %q, want %q", c.owner, got, c.want)
			}
			if c.want == "" && own.suspended(c.host, Record{}, time.Now()) != "another node owns it" {
				t.Error("a host without a record is crawled")
			}
			p.with(func() {
				delete(own.unconfirmed, c.host)
				delete(own.proposals, c.host)
				delete(own.awaited, c.host)
				delete(own.contested, c.host)
				clear(own.silent)
				own.views.Now().Majority, own.views.Now().Alive = true, own.views.Now().Settled
			})
		}
	})
}

// told is a Frontier that calls a function when it is told which hosts are suspended. It fails when it is asked for new ones.
type told struct {
	Frontier
	hears func()
}

func (f told) Suspend(map[string]string)                   { f.hears() }
func (f told) Unchecked(context.Context) ([]string, error) { return nil, errFault }

// While the frontier is told of hosts nobody else tells it of them, so it hears of the latest state last.
func TestFrontierHearsOfTheLatestStateLast(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		s.found(1, 1, 2, 3)
		own, heard := s.node(1).own, false
		s.node(1).halt()
		own.deps.Frontier = told{own.deps.Frontier, func() {
			if heard = true; own.checking.TryLock() {
				t.Error("another check may tell it at the same time")
			}
		}}
		if err := own.checkHosts(own.deps.Frontier.Active); err != nil || !heard {
			t.Errorf("it heard: %v, %v", heard, err)
		}
		if err := own.runUnchecked(s.t.Context()); !errors.Is(err, errFault) {
			t.Errorf("it tells no new hosts any more: %v", err)
		}
	})
}

// The agreement of a home counts for the time in which it was the home, and no longer than SuspendAfter, however often members change.
func TestAnswerOfAFormerHomeCountsForItsTime(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, p, patience := s.hostOf(1, 2, 3), s.node(3), s.cfg.SuspendAfter
		time.Sleep(2 * patience)
		s.forget(1) // from now on node 2 is the home
		changed := time.Now()
		check := func(home int, at, now time.Duration, answered bool) { // times after the change
			t.Helper()
			p.with(func() {
				p.own.answered = map[string][]time.Time{idOf(home): {changed.Add(at)}}
				if got := p.own.answeredLocked(host, changed.Add(now)); got != answered {
					t.Errorf("node %d agreed %v after the change; %v after it that counts: %v", home, at, now, got)
				}
			})
		}
		check(1, -time.Second, time.Second, true)
		check(1, -time.Second, patience-time.Second, true)
		check(1, -time.Second, patience, false)
		check(1, time.Second, 2*time.Second, false)
		check(2, -time.Second, time.Second, false)
		check(2, time.Second, 2*time.Second, true)
		p.with(func() {
			clear(p.own.answered)
			for _, at := range []time.Duration{-time.Second, patience - time.Second} {
				p.own.agreedLocked(idOf(1), changed.Add(at))
			}
			if !p.own.answeredLocked(host, changed.Add(patience-time.Second)) {
				t.Error("another answer makes it forget what the home said before the change")
			}
		})
		time.Sleep(patience - 3*time.Second)
		s.join(4)
		check(1, -time.Second, patience-time.Second, true)
	})
}

// A node that becomes the home of its own hosts needs nobody to confirm them. A member that is not settled yet is the home of nothing, so
// nobody renews with it.
func TestHomesOfANewView(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		mine, theirs, p := s.hostOf(1, 2, 3), s.hostOf(3, 2, 1), s.node(2)
		p.with(func() { p.own.unconfirmed[mine], p.own.unconfirmed[theirs] = claimed{}, claimed{} })
		s.forget(1)
		v := p.own.view()
		v.Alive = append(slices.Clone(v.Alive), idOf(7))
		p.own.SetView(v)
		p.with(func() {
			_, self := p.own.unconfirmed[mine]
			_, other := p.own.unconfirmed[theirs]
			if due := p.own.dueLocked(); self || !other || due[idOf(7)] {
				t.Errorf("it waits for itself, %v, and for another home, %v, and renews with %v", self, other, due)
			}
		})
	})
}

// What the answer of a home to a claim changes at the owner.
func TestAnswerOfAHome(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host, theirs, other := s.node(2), s.hostOf(1, 2, 3), s.hostOf(1, 3, 2), s.hostOf(3, 2, 1)
		own, answer := p.own, &wire.ClaimResponse{}
		s.watch(func(l letter) {
			if res, ok := l.res.(*wire.ClaimResponse); ok {
				res.Contested, res.Newer = answer.Contested, answer.Newer
			}
		})
		claim := func(waits claimed, records ...Record) (confirmed bool) {
			p.with(func() {
				if clear(own.unconfirmed); waits.record.Epoch > 0 {
					own.unconfirmed[host] = waits
				}
			})
			req := &wire.ClaimRequest{}
			for _, r := range records {
				req.Records = append(req.Records, r.wire())
			}
			if all, err := own.claim(s.t.Context(), idOf(1), req); err != nil || !all {
				t.Error(all, err)
			}
			p.with(func() { _, confirmed = own.unconfirmed[host]; confirmed = !confirmed })
			return confirmed
		}
		for epoch, confirms := range map[uint64]bool{1: false, 2: true} { // the record may have changed meanwhile
			if claim(claimed{record: rec(host, 2, 2)}, rec(host, epoch, 2)) != confirms {
				t.Errorf("the answer about epoch %d confirms epoch 2: %v", epoch, !confirms)
			}
		}
		// A host that the home calls contested waits until the home confirms it. A host of another node is left alone.
		p.put(rec(host, 1, 2))
		p.put(rec(theirs, 1, 3))
		answer.Contested, answer.Newer = []string{host, theirs}, []*wire.Record{rec(other, 9, 3).wire()}
		claim(claimed{}, rec(host, 1, 2), rec(theirs, 1, 3))
		p.with(func() {
			if u, waits := own.unconfirmed[host]; !waits || u != (claimed{record: rec(host, 1, 2)}) || len(own.unconfirmed) != 1 {
				t.Errorf("there wait %+v", own.unconfirmed)
			}
		})
		p.mustKnow(other, 0, 0)      // it was not claimed
		s.lose(func(l letter) bool { // host still waits, and that is not all that is claimed
			req, ok := l.req.(*wire.ClaimRequest)
			return ok && !req.GetFirst()
		})
		if agreed, err := own.renewAt(s.t.Context(), idOf(1)); agreed || err == nil {
			t.Errorf("without an answer to the claim it agreed: %v, %v", agreed, err)
		}
	})
}

// With shorter times in Config an owner that is cut off from its replica stops sooner.
func TestSilenceIsSeenSoon(t *testing.T) {
	onStage(t, []int{2, 3, 4}, func(s *stage) {
		s.cfg.SilentAfter = time.Second / 2
		s.join(1)
		time.Sleep(s.cfg.Collect + time.Second)
		host, p := s.found(50, 1, 2, 3), s.node(1)
		s.lose(func(l letter) bool { return l.from == 1 && l.to == 2 })
		began := time.Now()
		for k := 0; k < 50 && p.mayCrawl(host); k++ {
			p.crawl(host, k)
			time.Sleep(50 * time.Millisecond)
		}
		if d := time.Since(began); d > s.cfg.ReplicateEvery+s.cfg.SilentAfter+s.cfg.SilentAfter/5 {
			t.Errorf("it stopped after %v without a replica", d)
		}
	})
}

// An answer to one message says nothing of another one that is still under way: if that is lost, its silence counts from the answer.
func TestAnswerDoesNotHideASilence(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host, p := s.found(50, 1, 2, 3), s.node(1)
		r := p.record(host)
		var once sync.Once
		compared := make(chan error)
		s.lose(func(l letter) bool {
			store, ok := l.req.(*wire.StoreRequest)
			if !ok || l.from != 1 || l.to != 2 || store.GetItems()[0].GetChunk() == nil {
				return false
			}
			once.Do(func() { // the last message that arrives overtakes the first one that does not
				go func() { compared <- second(p.own.compareWith(context.Background(), idOf(2), r)) }()
			})
			return true
		})
		p.crawl(host, 0)
		if err := <-compared; err != nil {
			t.Fatal(err)
		}
		time.Sleep(s.cfg.SilentAfter + s.cfg.SilentAfter/5)
		if p.mayCrawl(host) {
			t.Error("a host does not wait for its replica")
		}
		q := &silence{since: time.Now().Add(-s.cfg.SilentAfter), calls: 1}
		p.with(func() { p.own.silent[idOf(3)] = q })
		if _, err := p.own.compareWith(s.t.Context(), idOf(3), r); err != nil || q.calls != 1 || time.Since(q.since) > time.Second {
			t.Errorf("after an answer, %v, %d messages are under way, and the silence lasts for %v", err, q.calls, time.Since(q.since))
		}
	})
}

// A home whose disk is slow takes long to hear of all hosts of an owner. Meanwhile the owner renews at its other homes, and keeps their hosts.
func TestSlowHomeHoldsUpNoOther(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, p := s.found(3, 2, 1, 3), s.node(3)
		s.hand(host, 2, 3)
		s.delay(func(l letter) time.Duration {
			if l.to == 1 && is[*wire.ClaimRequest](l) {
				return 9 * time.Second
			}
			return 0
		})
		for i, told := 0, 0; told < 12*claimsPerMessage; i++ {
			if r := rec(fmt.Sprintf("http://h%d.example", i), 1, 3); p.own.HomeOf(r.Host) == idOf(1) {
				p.put(r)
				told++
			}
		}
		for range 3 {
			time.Sleep(s.cfg.SuspendAfter)
			if !p.mayCrawl(host) {
				t.Error("a host of another home is suspended")
			}
		}
		s.node(2).mustKnow(host, 2, 3)
		p.with(func() {
			if len(p.own.answered[idOf(1)]) == 0 {
				t.Error("the slow home has not agreed in the end")
			}
		})
	})
}
