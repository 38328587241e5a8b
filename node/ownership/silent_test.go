package ownership

import (
	"context"
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

// The pages of an owner that is cut off are downloaded again. So it stops soon, before it sees that it has no majority. If it is the
// replica that is gone, the owner goes on when that is known or has lasted.
func TestOwnerWaitsForASilentReplica(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host, other := s.hostOf(1, 2, 3), s.hostOf(1, 3, 2)
		silence := func(l letter) bool { return l.from == 1 && l.to == 2 }
		s.node(1).find(links(host, 0, 50)...)
		s.node(1).find(links(other, 0, 50)...)
		time.Sleep(5 * time.Second)
		s.lose(silence)
		for k := range 50 {
			if !s.node(1).mayCrawl(host) {
				break
			}
			s.node(1).crawl(host, k)
			s.node(1).crawl(other, k)
			time.Sleep(time.Second)
		}
		_, done := s.node(1).has(host)
		if least, most := int(s.cfg.SilentAfter/time.Second), int(s.cfg.SilentAfter/time.Second)+3; done < least || done > most {
			t.Errorf("%d pages, one a second, were done without a replica, not %d to %d", done, least, most)
		}
		if !s.node(1).mayCrawl(other) {
			t.Error("a host waits whose replica answers")
		}
		s.lose(nil)
		time.Sleep(10 * time.Second)
		if !s.node(1).mayCrawl(host) {
			t.Error("a host waits whose replica answers again")
		}
		s.lose(silence)
		s.node(1).crawl(host, done)
		time.Sleep(s.cfg.FenceAfter / 2)
		if s.node(1).mayCrawl(host) {
			t.Error("a host does not wait for its replica")
		}
		time.Sleep(s.cfg.FenceAfter)
		if !s.node(1).mayCrawl(host) {
			t.Error("a host waits for ever")
		}
		s.node(2).kill(false)
		time.Sleep(2 * time.Second)
		if !s.node(1).mayCrawl(host) {
			t.Error("a host waits for a node that is gone")
		}
	})
}

// With shorter times in Config an owner that is cut off stops sooner.
func TestSilenceIsSeenSoon(t *testing.T) {
	onStage(t, []int{2, 3, 4}, func(s *stage) {
		s.cfg.SilentAfter = time.Second / 2
		s.join(1)
		time.Sleep(s.cfg.Collect + time.Second)
		host := s.hostOf(1, 2, 3)
		s.node(1).find(links(host, 0, 50)...)
		time.Sleep(5 * time.Second)
		s.lose(func(l letter) bool { return l.from == 1 && l.to == 2 })
		const step = 50 * time.Millisecond
		most := int((s.cfg.ReplicateEvery + s.cfg.SilentAfter + s.cfg.SilentAfter/5) / step)
		k := 0
		for ; k < 50 && s.node(1).mayCrawl(host); k++ {
			s.node(1).crawl(host, k)
			time.Sleep(step)
		}
		if k > most {
			t.Errorf("%d pages were done without a replica, not %d at most", k, most)
		}
	})
}

// An answer to one message says nothing of another one that is still under way: if that is lost, its silence counts from the answer.
func TestAnswerDoesNotHideASilence(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.found(50, 1, 2, 3)
		r, _, err := s.node(1).own.Record(host)
		if err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		compared := make(chan error)
		s.lose(func(l letter) bool {
			store, ok := l.req.(*wire.StoreRequest)
			if !ok || l.from != 1 || l.to != 2 || store.GetItems()[0].GetChunk() == nil {
				return false
			}
			once.Do(func() { // the last message that arrives overtakes the first one that does not
				go func() {
					_, err := s.node(1).own.compareWith(context.Background(), idOf(2), r, true)
					compared <- err
				}()
			})
			return true
		})
		s.node(1).crawl(host, 0)
		if err := <-compared; err != nil {
			t.Fatal(err)
		}
		time.Sleep(s.cfg.SilentAfter + s.cfg.SilentAfter/5)
		if s.node(1).mayCrawl(host) {
			t.Error("a host does not wait for its replica")
		}
		q := &silence{since: time.Now().Add(-time.Minute), calls: 1}
		s.node(1).own.mu.Lock()
		s.node(1).own.silent[idOf(3)] = q
		s.node(1).own.mu.Unlock()
		if _, err := s.node(1).own.compareWith(s.t.Context(), idOf(3), r, true); err != nil || q.calls != 1 || time.Since(q.since) > time.Second {
			t.Errorf("after an answer, %v, %d messages are under way, and the silence lasts for %v", err, q.calls, time.Since(q.since))
		}
	})
}
