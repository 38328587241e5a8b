package ownership

import (
	"slices"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// awaitAnswers waits until the outbox of a node is empty, and reports whether that happened in time.
func (p *player) awaitAnswers(within time.Duration) bool {
	for end := time.Now().Add(within); len(p.disk.linksTo()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// A link that is acknowledged is on two disks, so the owner's disk may be lost in the same instant.
func TestAcknowledgedLinkSurvivesItsOwnersDisk(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		s.node(3).find(link(host, 5))
		began := time.Now()
		if !s.node(3).awaitAnswers(10 * time.Second) {
			t.Fatal("the link was not answered")
		}
		s.node(1).die()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the answer took %v", took)
		}
		if all, _ := s.node(2).has(host); all != 6 {
			t.Errorf("the replica has %d of 6 URLs when the sender holds none of them any more", all)
		}
		s.forget(1)
		time.Sleep(s.cfg.TakeAfter + time.Minute)
		s.mustHave(host, 6, 2, 3)
	})
}

// While the replica cannot store a link, the sender keeps the link. If that lasts, the overlay goes on with one disk, as it does
// without a replica.
func TestLinkIsAcknowledgedWithoutReplicaInTheEnd(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		s.lose(is[*wire.StoreRequest])
		s.node(3).find(link(host, 5))
		if s.node(3).awaitAnswers(s.cfg.FenceAfter - 5*time.Second) {
			t.Error("the link is acknowledged, and on one disk only")
		}
		if !s.node(3).awaitAnswers(20 * time.Second) {
			t.Error("the link is not acknowledged though no replica answers for long")
		}
		s.lose(nil)
		time.Sleep(10 * time.Second)
		s.mustHave(host, 6, 1, 2)
		s.node(2).kill(false) // nobody keeps the replica now
		s.node(3).find(link(host, 6))
		if !s.node(3).awaitAnswers(5 * time.Second) {
			t.Error("the link waits for a replica that there is not")
		}
	})
}

// isCopy reports whether a message copies links to another node's outbox.
func isCopy(l letter) bool {
	d, ok := l.req.(*wire.DeliverRequest)
	return ok && d.GetKeep()
}

// Links that cannot be delivered are copied to another node, so their page is done. If the disk of its owner is lost, no link is, and
// the page is not downloaded again.
func TestPageIsDoneWhileItsLinksWait(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host, other := s.hostOf(1, 2, 3, 4), s.hostOf(3, 4, 1, 2)
		s.node(1).find(links(host, 0, 2)...)
		s.node(3).find(link(other, 0))
		time.Sleep(5 * time.Second)
		s.lose(func(l letter) bool { return is[*wire.DeliverRequest](l) && l.to == 3 })
		s.node(1).crawl(host, 0, link(other, 1))
		time.Sleep(10 * time.Second)
		if _, done := s.node(2).has(host); done != 1 {
			t.Errorf("the replica has %d pages done, not the one whose link waits for another node", done)
		}
		s.node(1).die()
		s.lose(nil)
		s.forget(1)
		time.Sleep(s.cfg.TakeAfter + time.Minute)
		s.mustHave(other, 2, 3, 4)
	})
}

// keepers returns the nodes whose outbox has a link.
func (s *stage) keepers(l frontier.Link) (at []int) {
	for _, p := range s.all() {
		p.disk.mu.Lock()
		if p.disk.now.outbox[l.URL.String()] != nil && p.stop != nil {
			at = append(at, p.at)
		}
		p.disk.mu.Unlock()
	}
	return at
}

// A link waits for its owner, and its page is done. The finder's disk is lost, the node with the copy has a power cut, and then its
// disk is lost, too. The link still arrives.
func TestLinkOutlivesOneDiskAfterTheOther(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host, other := s.hostOf(1, 2, 3, 4), s.hostOf(3, 4, 1, 2)
		s.node(1).find(links(host, 0, 2)...)
		s.node(3).find(link(other, 0))
		time.Sleep(5 * time.Second)
		s.lose(func(l letter) bool { return is[*wire.DeliverRequest](l) && l.to == 3 })
		s.watch(func(l letter) {
			if p := s.players[l.to]; isCopy(l) && p.at == 2 {
				p.disk.mu.Lock()
				defer p.disk.mu.Unlock()
				if p.disk.synced.outbox[link(other, 1).URL.String()] == nil {
					t.Error("a power cut would take a copy along that counts")
				}
			}
		})
		s.node(1).crawl(host, 0, link(other, 1))
		for _, keepers := range [][]int{{1, 2}, {2, 4}} {
			time.Sleep(20 * time.Second)
			if at := s.keepers(link(other, 1)); !slices.Equal(at, keepers) {
				t.Fatalf("%v keep the link, not %v", at, keepers)
			}
			s.node(keepers[0]).die()
		}
		s.lose(nil)
		time.Sleep(time.Minute)
		if all, _ := s.node(3).has(other); all != 2 {
			t.Errorf("the owner has %d of 2 URLs", all)
		}
	})
}
