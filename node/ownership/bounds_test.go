package ownership

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// Members come and go. In time a node drops the records of hosts that do not concern it any more: it is not their owner, home, replica or
// witness, and has nothing of them.
func TestRecordsThatConcernNobodyAreDropped(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4, 5, 6}, func(s *stage) {
		var hosts []string
		for home := range 6 {
			hosts = append(hosts, s.found(3, home+1, (home+1)%6+1, (home+2)%6+1, (home+3)%6+1, (home+4)%6+1, (home+5)%6+1))
		}
		for at := 1; at <= 6; at++ {
			s.forget(at)
			s.node(at).kill(false)
			time.Sleep(s.cfg.TakeAfter * 3)
			s.node(at).start()
			s.welcome(at)
			time.Sleep(s.cfg.TakeAfter * 3)
		}
		time.Sleep(s.cfg.SweepEvery)
		for _, p := range s.all() {
			for _, host := range hosts {
				r, v := p.record(host), p.own.view()
				if must := concerned(&v, Record{Host: host, Owner: s.node(s.owners(host)[0]).record(host).Owner}); r.Epoch > 0 != must {
					t.Errorf("node %d has %+v, and must have one: %v", p.at, r, must)
				}
			}
		}
	})
}

// A peer stores data of a host while its record is dropped. The record stays.
func TestRecordOfDataThatComesStays(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		p, host := s.node(4), s.hostOf(1, 2, 3, 4)
		p.put(rec(host, 1, 1))
		unlock, dropped := p.own.locks.lock(host), make(chan error)
		go func() { dropped <- p.own.drop(s.t.Context(), rec(host, 1, 1)) }()
		synctest.Wait()
		p.role(host, frontier.Replica)
		unlock()
		if err := <-dropped; err != nil {
			t.Error(err)
		}
		p.mustKnow(host, 1, 1)
	})
}

// After a change of members the witnesses of all hosts must be told. That comes in parts, so that their messages do not fill the memory,
// and downloads do not wait for the lock.
func TestWitnessesAreToldInParts(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		own, hosts := s.node(1).own, s.hostsOf(1, 1, 2, 3)
		s.node(1).put(rec(hosts[0], 1, 1))
		s.node(1).with(func() {
			for i := range 2 * maxTold {
				own.untold[fmt.Sprintf("http://h%d.example", i)] = 1 // they have another owner by now
			}
		})
		for _, left := range []int{maxTold, 1} {
			out := map[string][]sending{}
			err := own.addRecords(out, nil)
			s.node(1).with(func() {
				if n := len(own.untold); err != nil || n < left || n > left+2 { // one that is sent stays until the answer
					t.Errorf("%d are left, %v", n, err)
				}
			})
		}
		time.Sleep(5 * time.Second)
		s.node(3).mustKnow(hosts[0], 1, 1)
	})
}

// A peer that answers no Stores does not hold up the replicas at others, although many hosts wait for it.
func TestSilentPeerHoldsUpNoOther(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, p := s.found(5, 1, 3, 2), s.node(1)
		stuck := s.hostsOf(400, 1, 2, 3)
		for _, host := range stuck {
			p.find(link(host, 0))
		}
		time.Sleep(10 * time.Second)
		s.lose(func(l letter) bool { return l.to == 2 && is[*wire.StoreRequest](l) })
		s.node(3).spoil(host, 1)
		for _, host := range append(append(stuck[:200:200], host), stuck[200:]...) {
			p.own.queue.add(host, false)
		}
		time.Sleep(30 * time.Second)
		s.node(3).mustHold(host, 5, 0)
		s.lose(nil)
		time.Sleep(2 * s.cfg.SuspendAfter)
		if _, waits := p.queued(stuck[0]); waits {
			t.Error("a replica is not compared when its node answers again")
		}
	})
}
