package ownership

import (
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// awaitAnswers waits until nothing is left in a node's outbox, and says whether that was so in time.
func (p *player) awaitAnswers(within time.Duration) bool {
	for end := time.Now().Add(within); len(p.disk.linksTo()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// A link that was acknowledged is on two disks: its owner's may be lost in the same instant.
func TestAcknowledgedLinkSurvivesItsOwnersDisk(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.hostOf(1, 2, 3)
		s.node(1).find(links(host, 0, 5)...)
		time.Sleep(2 * time.Second)
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

// While its replica cannot store a link, its sender keeps it; where that lasts, the overlay goes on with one disk, as it does
// without a replica.
func TestLinkIsAcknowledgedWithoutReplicaInTheEnd(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.hostOf(1, 2, 3)
		s.node(1).find(links(host, 0, 5)...)
		time.Sleep(2 * time.Second)
		s.lose(func(l letter) bool { _, store := l.req.(*wire.StoreRequest); return store })
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

// What is found while a change of its host is on its way is at the replica only with the next one.
func TestStreamWaitsForWhatCameMeanwhile(t *testing.T) {
	s, now := newStream(), time.Now().Add(-time.Minute)
	found := func(path string) map[string]*frontier.Change {
		return map[string]*frontier.Change{"h": {Added: []frontier.PendingURL{{Path: path}}}}
	}
	s.take(found("/1"), now)
	s.next() // it is on its way
	meanwhile := now.Add(time.Second)
	s.take(found("/2"), meanwhile)
	s.stored("h")
	if s.storedLocked(meanwhile) {
		t.Error("what was found meanwhile counts as stored")
	}
}
