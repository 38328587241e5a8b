package ownership

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"proxima/node/wire"
)

// spoil removes a URL from a node's disk.
func (p *player) spoil(host string, k int) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	delete(p.disk.now.hosts[host].pending, path(k))
}

// The frontier does not track the digest of a host before it is asked for one. The first change shows nevertheless that the replica
// differs.
func TestUntrackedChangeShowsADifference(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(8, 1, 2, 3)
		s.mustHave(host, 8, 1, 2)
		s.node(2).spoil(host, 4)
		s.node(1).disk.untrack(host)
		s.node(1).find(link(host, 8))
		time.Sleep(s.cfg.SweepEvery / 2)
		s.mustHave(host, 9, 1, 2)
	})
}

// The replica hears late that a page is done, because a link on the page waits for its owner. URLs found meanwhile have come before. Then
// the replica is equal.
func TestPageToldLateMakesNoDifference(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, other := s.hostOf(1, 2, 3), s.hostOf(3, 2, 1)
		s.node(1).find(links(host, 0, 8)...)
		time.Sleep(2 * time.Second)
		differs := atomic.Int32{}
		s.watch(func(l letter) {
			if res, ok := l.res.(*wire.StoreResponse); ok {
				for _, a := range res.GetAnswers() {
					if a.GetStep() == wire.Step_STEP_DIFFERS {
						differs.Add(1)
					}
				}
			}
		})
		s.lose(func(l letter) bool { return is[*wire.DeliverRequest](l) && l.from == 1 })
		s.node(1).crawl(host, 0, link(other, 0))
		time.Sleep(time.Second)
		s.node(1).find(link(host, 8))
		time.Sleep(2 * time.Second)
		if _, done := s.node(2).has(host); done > 0 {
			t.Error("the page counts as done before its link is safe")
		}
		s.lose(nil)
		time.Sleep(30 * time.Second)
		s.mustHave(host, 9, 1, 2)
		if n := differs.Load(); n > 0 {
			t.Errorf("the replica differed %d times", n)
		}
	})
}

// A replica is mended when a page has just been done. The link on the page is not safe yet, so the page is not done at the replica.
func TestMendingTellsNoPageEarly(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, other := s.hostOf(1, 2, 3), s.hostOf(3, 2, 1)
		s.node(1).find(links(host, 0, 8)...)
		time.Sleep(2 * time.Second)
		s.lose(func(l letter) bool { return is[*wire.DeliverRequest](l) && l.from == 1 })
		s.node(2).spoil(host, 4)
		s.node(1).crawl(host, 0, link(other, 0))
		s.node(1).own.queue.add(host, false)
		time.Sleep(s.cfg.ReplicateEvery)
		if all, done := s.node(2).has(host); all < 8 || done > 0 {
			t.Errorf("the replica has %d URLs, %d of them done before their links are safe", all, done)
		}
	})
}

// What a node gives away before it removes its copy is whole, even if changes were lost since its pages became safe.
func TestCopyThatIsGivenAwayIsWhole(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.found(3, 1, 2, 3), s.node(1).own
		s.node(1).crawl(host, 0)
		time.Sleep(2 * time.Second)
		r, _, err := own.Record(host)
		if err != nil {
			t.Fatal(err)
		}
		s.lose(is[*wire.DeliverRequest])
		s.node(1).find(link(s.hostOf(3, 2, 1), 0)) // is not safe
		own.stream.mu.Lock()
		own.stream.lost, own.stream.cleared = time.Now(), false
		own.stream.mu.Unlock()
		for _, to := range []int{2, 3} {
			v, err := own.push(s.t.Context(), idOf(to), r, true)
			if _, done := s.node(to).has(host); err != nil || !v.equal || done != 1 {
				t.Errorf("node %d has %d of 1 pages, equal: %v, %v", to, done, v.equal, err)
			}
		}
		for _, wait := range []time.Duration{2*s.cfg.TakeAfter - time.Second, 2 * time.Second} { // then a page of before is told without its links
			if time.Sleep(wait); own.stream.holds() != (wait > 2*time.Second) {
				t.Errorf("after %v more pages are held back: %v", wait, own.stream.holds())
			}
		}
	})
}

// A sync fails after the frontier has reported a done page. The page is held back nevertheless, and its replica is mended.
func TestPageOfAFailedSyncIsHeldBack(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, p := s.found(3, 1, 2, 3), s.node(1)
		p.stop() // nothing else calls the disk
		<-p.over
		gone, cancel := context.WithCancel(s.t.Context())
		cancel()
		p.crawl(host, 1)
		if err := p.own.gather(gone); err != nil || p.own.stream.next()[host].Lost {
			t.Errorf("a caller that gives up takes changes along: %v", err)
		}
		p.crawl(host, 0)
		p.fail(&fault{call: "Sync", n: 1})
		if err := p.own.gather(s.t.Context()); !errors.Is(err, errFault) {
			t.Error(err)
		}
		if c := p.own.stream.next()[host]; c == nil || !c.Lost || len(c.Done) > 0 || !p.own.stream.holdsBack(host) {
			t.Errorf("there waits %+v; its page is held back: %v", c, p.own.stream.holdsBack(host))
		}
		s.node(1).own.stream.cleared = true
		s.node(1).own.stream.hosts[host].held = 0
		p.disk.untrack(host)
		p.find(link(host, 3))
		p.fail(&fault{call: "DigestOf", n: 1})
		if err := p.own.flushHost(s.t.Context(), host); !errors.Is(err, errFault) || p.own.stream.next()[host] == nil {
			t.Errorf("a change that was not sent before a hand-off is gone: %v", err)
		}
		p.fail(nil)
	})
}
