package ownership

import (
	"strings"
	"testing"
	"time"
)

// fill makes the disk of a node full, or frees it.
func (p *player) fill(full bool) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	p.disk.full = full
}

// A link that a full replica cannot store is acknowledged only when the owner's disk must do, with a warning. Pages and hand-offs
// go on then. When the disk has room again, the replica gets everything.
func TestFullReplicaStoresNoLink(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		other := s.found(2, 1, 3, 2)
		alone := false
		s.hooks.Lock()
		s.warned = func(at int, err error) { alone = alone || strings.Contains(err.Error(), "on one disk only") }
		s.hooks.Unlock()
		s.node(2).fill(true)
		s.node(3).find(link(host, 5))
		if s.node(3).awaitAnswers(s.cfg.FenceAfter - 5*time.Second) {
			t.Fatal("the link is acknowledged, and on one disk only")
		}
		if !s.node(3).awaitAnswers(20*time.Second) || !alone {
			t.Errorf("the link is not acknowledged though the replica is full for long; it was warned of: %v", alone)
		}
		s.node(1).crawl(other, 0, link(host, 6))
		time.Sleep(5 * time.Second)
		if _, done := s.node(3).has(other); done != 1 {
			t.Errorf("%d pages are done at the replica of a host whose page waits for a full disk", done)
		}
		s.hand(other, 1, 3)
		s.node(2).fill(false)
		time.Sleep(s.cfg.FenceAfter + 30*time.Second)
		s.mustHave(host, 7, 1, 2)
	})
}

// A link is not acknowledged while the node with the replica is busy with the host.
func TestBusyReplicaStoresNoLink(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		unlock := s.node(2).own.locks.lock(host)
		s.node(3).find(link(host, 5))
		if s.node(3).awaitAnswers(s.cfg.FenceAfter - 5*time.Second) {
			t.Error("the link is acknowledged, and on one disk only")
		}
		unlock()
		if all, _ := s.node(2).has(host); !s.node(3).awaitAnswers(20*time.Second) || all != 5 {
			t.Errorf("the link is not acknowledged though the replica takes it; before it had %d of 5 URLs", all)
		}
	})
}

// The disk of the replica is full for a moment only. What it took later is no sign that it has what it could not take.
func TestLinkIsNotAcknowledgedByALaterOne(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		s.node(2).fill(true)
		s.node(3).find(link(host, 5))
		time.Sleep(2 * time.Second)
		s.node(2).fill(false)
		s.node(1).find(link(host, 6))
		if !s.node(3).awaitAnswers(30 * time.Second) {
			t.Error("the link is not acknowledged")
		}
		if all, _ := s.node(2).has(host); all != 7 {
			t.Errorf("the replica has %d of 7 URLs", all)
		}
	})
}
