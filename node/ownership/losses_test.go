package ownership

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// These tests lose a disk, a message, or the last second of writes.

// A node joins and becomes the home of hosts. Their owner tells it of them, and dies for good before it has sent any URL. Only the replicas
// are left. In the end the newcomer owns every host, whole, and the replicas are where they were.
func TestJoinAndDeathLoseNoHost(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		hosts := s.hostsOf(30, 3, 1, 2) // 1 owns them, and their home is 3 once it is there
		for _, host := range hosts {
			s.node(1).find(links(host, 0, 10)...)
			s.node(1).crawl(host, 0)
		}
		time.Sleep(2 * time.Second)
		s.lose(func(l letter) bool { // messages with URLs do not reach the newcomer
			return l.from+l.to == 1+3 && (is[*wire.StoreRequest](l) || is[*wire.LoadRequest](l))
		})
		s.join(3)
		time.Sleep(s.cfg.RenewEvery + time.Second)
		if _, known, err := s.node(3).own.Record(hosts[0]); err != nil || !known {
			t.Fatal("the newcomer has not heard of the hosts", err)
		}
		s.node(1).die()
		time.Sleep(s.cfg.TakeAfter + s.cfg.RenewEvery)
		s.forget(1)
		time.Sleep(s.cfg.SweepEvery)
		for _, host := range hosts {
			s.mustHave(host, 10, 3, 2)
		}
	})
}

// A host is handed to the node with its replica, and the owner dies for good during the transfer. The replica is still whole.
func TestHandOffToReplicaLosesNothing(t *testing.T) {
	for name, lost := range map[string]func(letter) bool{
		"before the first chunk":  is[*wire.StoreRequest],
		"before the second chunk": afterChunks(1),
		"before the commit":       is[*wire.CommitRequest],
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, []int{1, 2, 3}, func(s *stage) {
				host := s.found(90, 1, 2, 3)
				s.mustHave(host, 90, 1, 2)
				// The replica is behind by three done pages, so that there is something to ship.
				s.lose(func(l letter) bool {
					return l.from == 1 && l.to == 2 && !is[*wire.CommitRequest](l) && !is[*wire.RenewRequest](l)
				})
				for k := range 3 {
					s.node(1).crawl(host, k)
				}
				time.Sleep(time.Second)
				s.lose(lost)
				handed := make(chan error, 1)
				own := s.node(1).own
				go func() { handed <- own.HandOff(s.t.Context(), host, idOf(2), true, "test") }()
				time.Sleep(3 * time.Second)
				s.node(1).die()
				if err := <-handed; err == nil {
					t.Fatal("it was handed over")
				}
				if all, _ := s.node(2).has(host); all != 90 {
					t.Errorf("the replica has %d URLs", all)
				}
				s.lose(nil)
				time.Sleep(s.cfg.TakeAfter + s.cfg.RenewEvery)
				s.forget(1)
				time.Sleep(s.cfg.TakeAfter + time.Minute)
				s.mustHave(host, 90, 2, 3)
			})
		})
	}
}

// afterChunks loses all chunks but the first n.
func afterChunks(n int) func(letter) bool {
	return func(l letter) bool {
		req, ok := l.req.(*wire.StoreRequest)
		if !ok || l.res != nil || req.GetItems()[0].GetChunk() == nil {
			return false
		}
		n--
		return n < 0
	}
}

// A message of the stream or its answer is lost. The replica never loses anything, and has everything within seconds.
func TestLostMessageLeavesReplicaWhole(t *testing.T) {
	for name, answered := range map[string]bool{"request": false, "answer": true} {
		t.Run(name, func(t *testing.T) {
			onStage(t, []int{1, 2, 3}, func(s *stage) {
				host := s.found(80, 1, 2, 3)
				had := 80
				s.watch(func(letter) {
					all, _ := s.node(2).has(host)
					if all < had {
						t.Errorf("the replica had %d URLs, then %d", had, all)
					}
					had = all
				})
				lost := 0
				s.lose(func(l letter) bool {
					if is[*wire.StoreRequest](l) && lost == 0 && (l.res != nil) == answered {
						lost++
						return true
					}
					return false
				})
				s.node(1).find(links(host, 80, 90)...)
				time.Sleep(8 * time.Second)
				s.lose(nil)
				s.watch(nil)
				if lost != 1 || had != 90 {
					t.Errorf("%d messages were lost; the replica has %d of 90 URLs", lost, had)
				}
				s.node(1).die()
				time.Sleep(s.cfg.TakeAfter + s.cfg.RenewEvery)
				s.forget(1)
				time.Sleep(s.cfg.TakeAfter + time.Minute)
				s.mustHave(host, 90, 2, 3)
			})
		})
	}
}

// An owner has a power cut, and comes back with a disk that lacks half of the URLs. It gets them from the replica, which loses nothing.
func TestOlderDiskGetsTheRestBack(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(30, 1, 2, 3)
		snapshot := s.node(1).disk.copy()
		s.node(1).find(links(host, 30, 60)...)
		s.node(1).crawl(host, 0)
		time.Sleep(2 * time.Second)
		if all, done := s.node(2).has(host); all != 60 || done != 1 {
			t.Fatalf("the replica has %d URLs, %d done", all, done)
		}
		s.watch(func(letter) {
			if all, _ := s.node(2).has(host); all != 60 {
				t.Errorf("the replica has %d URLs", all)
			}
		})
		s.node(1).kill(true)
		s.node(1).insert(snapshot)
		s.node(1).start()
		time.Sleep(s.cfg.Collect + time.Minute)
		s.mustHave(host, 60, 1, 2)
		if _, done := s.node(1).has(host); done != 1 {
			t.Errorf("%d pages are done at the owner", done)
		}
	})
}

// What a node has acknowledged survives a power cut in the same instant: links that it took, a host that it committed, data that it
// stored.
func TestAnswersSurviveAPowerCut(t *testing.T) {
	answers := map[string]struct {
		is   func(l letter) bool
		node int // whose power fails
	}{
		"delivered": {func(l letter) bool { return is[*wire.DeliverRequest](l) && l.to == 1 }, 1},
		"stored":    {func(l letter) bool { return is[*wire.StoreRequest](l) && l.to == 2 }, 2},
		"committed": {is[*wire.CommitRequest], 3},
	}
	for name, c := range answers {
		t.Run(name, func(t *testing.T) {
			onStage(t, []int{1, 2, 3}, func(s *stage) {
				host := s.found(5, 1, 2, 3)
				cut := make(chan struct{}, 1)
				var whole bool
				s.watch(func(l letter) { // the answer has been given
					if c.is(l) && len(cut) == 0 {
						cut <- struct{}{}
						d := s.node(c.node).disk
						d.mu.Lock()
						defer d.mu.Unlock()
						h := d.synced.hosts[host]
						whole = h != nil && len(h.pending) == len(d.now.hosts[host].pending)
						if name == "committed" {
							whole = whole && h.role == frontier.Owned && d.synced.shelf[host] == d.now.shelf[host] && d.now.shelf[host] != ""
						}
					}
				})
				s.node(3).find(links(host, 5, 9)...)
				time.Sleep(2 * time.Second)
				s.hand(host, 1, 3)
				s.watch(nil)
				if len(cut) == 0 || !whole {
					t.Errorf("an answer was given %d times, and what it says was on disk: %v", len(cut), whole)
				}
			})
		})
	}
}

// slowDisk is a frontier whose SetRole waits, so that links are found between a new record and the new role.
type slowDisk struct {
	*disk
	gate chan struct{}
}

func (d slowDisk) SetRole(ctx context.Context, host string, role frontier.Role) error {
	<-d.gate
	return d.disk.SetRole(ctx, host, role)
}

// Links that are found while their host comes or goes are not lost. If the frontier does not take them yet, they wait in the outbox.
func TestLinksFoundWhileAHostMovesAreKept(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		for at := 1; at <= 3; at++ { // from now on disks are slow
			p := s.node(at)
			p.kill(false)
			p.front = slowDisk{p.disk, make(chan struct{})}
			p.start()
		}
		time.Sleep(s.cfg.Collect + time.Second)
		handed := make(chan error, 1)
		go func() { handed <- s.node(1).own.HandOff(s.t.Context(), host, idOf(3), true, "test") }()
		k := 5
		for range 3 { // the three steps: leaving at 1, owned at 3, replica at 1
			time.Sleep(time.Second)
			for at := 1; at <= 3; at++ {
				s.node(at).find(links(host, k, k+2)...)
				k += 2
			}
			time.Sleep(time.Second)
			for at := 1; at <= 3; at++ {
				select {
				case s.node(at).front.(slowDisk).gate <- struct{}{}:
				default:
				}
			}
		}
		for at := 1; at <= 3; at++ {
			close(s.node(at).front.(slowDisk).gate)
		}
		if err := <-handed; err != nil {
			t.Fatal(err)
		}
		time.Sleep(s.cfg.SweepEvery + time.Minute) // node 2 has a copy that nobody needs, and asks
		s.mustHave(host, k, 3, 1)
	})
}

// A page is done at the replica only when the links found on it are safe: at the owners of their hosts and at the replicas. If the owner
// dies for good before that, the page is downloaded again and its links are found again.
func TestPageIsDoneAtReplicaOnlyWithItsLinks(t *testing.T) {
	for name, to := range map[string][]int{"of another node": {3, 2, 1}, "of its own": {1, 3, 2}} {
		t.Run(name, func(t *testing.T) {
			onStage(t, []int{1, 2, 3}, func(s *stage) {
				host, other := s.hostOf(1, 2, 3), s.hostOf(to...)
				s.node(1).find(links(host, 0, 5)...)
				time.Sleep(2 * time.Second)
				s.lose(func(l letter) bool { return isCopy(l) || l.from == 1 && l.to == 3 && !is[*wire.RenewRequest](l) }) // 3 is slow
				s.node(1).crawl(host, 0, link(other, 7))
				time.Sleep(time.Minute)
				if all, _ := s.node(3).has(other); all != 0 {
					t.Fatal("the link has come")
				}
				if all, done := s.node(2).has(host); all != 5 || done != 0 {
					t.Errorf("the replica has %d URLs, %d done, and the link is nowhere else", all, done)
				}
				s.lose(nil)
				time.Sleep(10 * time.Second)
				if all, done := s.node(2).has(host); all != 5 || done != 1 {
					t.Errorf("the replica has %d URLs, %d done, when the link has come", all, done)
				}
				if all, _ := s.node(3).has(other); all != 1 {
					t.Errorf("node 3 has %d links", all)
				}
			})
		})
	}
}

// overflow makes what a node has to tell of its hosts too much.
func (p *player) overflow() {
	s := p.own.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += maxStream + 1
}

// The changes of a host are too many, so its replica is mended while a link of a done page waits. The link is not lost with the disk of the
// owner: the page is done at the replica only when the link is safe.
func TestMendingAfterAnOverflowLosesNoLink(t *testing.T) {
	for name, crawl := range map[string]func(p *player, host string, found frontier.Link){
		"the frontier's": func(p *player, host string, found frontier.Link) {
			p.crawl(host, 0, found)
			p.disk.mu.Lock()
			defer p.disk.mu.Unlock()
			p.disk.changes[host] = &frontier.Change{Lost: true}
		},
		"the stream's": func(p *player, host string, found frontier.Link) {
			p.overflow()
			p.crawl(host, 0, found)
		},
		"the stream's, when the page is held back": func(p *player, host string, found frontier.Link) {
			p.crawl(host, 0, found)
			time.Sleep(2 * p.cfg.ReplicateEvery)
			p.overflow()
			p.crawl(host, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, []int{1, 2, 3}, func(s *stage) {
				host, other := s.found(5, 1, 2, 3), s.hostOf(3, 2, 1)
				s.lose(func(l letter) bool { return isCopy(l) || l.from == 1 && l.to == 3 && !is[*wire.RenewRequest](l) }) // 3 is slow
				crawl(s.node(1), host, link(other, 7))
				time.Sleep(time.Minute)
				if all, done := s.node(2).has(host); all != 5 || done != 0 {
					t.Errorf("the replica has %d URLs, %d done, and the link is nowhere else", all, done)
				}
				s.lose(nil)
				time.Sleep(10 * time.Second)
				if s.node(1).die(); len(s.owners(other)) == 0 {
					t.Error("the link is lost")
				}
				if all, done := s.node(2).has(host); all != 5 || done == 0 {
					t.Errorf("the replica has %d URLs, %d done, when the link has come", all, done)
				}
			})
		})
	}
}

// A node that stops tells of a page when its links are safe, for as long as it is given. So it may lose its disk afterwards.
func TestLastChangesLoseNoLink(t *testing.T) {
	for name, slow := range map[string]bool{"links that arrive": false, "links that do not": true} {
		t.Run(name, func(t *testing.T) {
			onStage(t, []int{1, 2, 3}, func(s *stage) {
				host, other := s.found(5, 1, 2, 3), s.hostOf(3, 2, 1)
				s.lose(func(l letter) bool { return slow && (isCopy(l) || l.from == 1 && l.to == 3) })
				s.node(1).crawl(host, 0, link(other, 7))
				ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Second)
				defer cancel()
				s.node(1).own.Flush(ctx)
				s.node(1).die()
				_, done := s.node(2).has(host)
				if came := len(s.owners(other)) > 0; came == slow || (done > 0) != came || (ctx.Err() != nil) != slow {
					t.Errorf("%d pages are done at the replica, and the link has come: %v", done, came)
				}
			})
		})
	}
}

// The last changes of a node that stops are sent to all replicas, and once more if one does not answer.
func TestLastChangesReachAllReplicas(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		a, b, lost := s.found(3, 1, 2, 3), s.found(3, 1, 3, 2), false
		s.lose(func(l letter) bool {
			loses := is[*wire.StoreRequest](l) && l.to == 3 && !lost
			lost = lost || loses
			return loses
		})
		s.node(1).find(link(a, 3), link(b, 3))
		s.node(1).own.Flush(s.t.Context())
		for at, host := range map[int]string{2: a, 3: b} {
			if all, _ := s.node(at).has(host); all != 4 || !lost {
				t.Errorf("node %d has %d of 4 URLs; a message was lost: %v", at, all, lost)
			}
		}
	})
}

// The next owner of a host hears of its finished pages when their links are safe. If that takes long, the host is not handed over.
func TestHandOffLosesNoLink(t *testing.T) {
	for _, to := range []int{2, 4} { // to the replica, and to another node
		onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
			host, other := s.found(5, 1, 2, 3, 4), s.hostOf(3, 2, 1, 4)
			s.watch(func(l letter) {
				if is[*wire.CommitRequest](l) && len(s.owners(other)) == 0 {
					t.Error("it is handed over, and the link is on one disk only")
				}
			})
			s.lose(func(l letter) bool { return isCopy(l) || l.from == 1 && l.to == 3 && !is[*wire.RenewRequest](l) }) // 3 is slow
			s.node(1).crawl(host, 0, link(host, 5), link(other, 7))
			if err := s.node(1).own.HandOff(s.t.Context(), host, idOf(to), true, "test"); !errors.Is(err, errLater) {
				t.Errorf("the hand-off ends with %v", err)
			}
			if owners := s.owners(host); !slices.Equal(owners, []int{1}) {
				t.Errorf("it is owned by %v", owners)
			}
			s.lose(nil)
			s.hand(host, 1, to)
			if _, done := s.node(to).has(host); done != 1 {
				t.Errorf("%d pages are done at the next owner", done)
			}
		})
	}
}

// A link that its owner cannot take now is copied to a third node for a hand-off, which then does not wait for long.
func TestHandOffHasLinksCopied(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host, other := s.found(5, 1, 2, 3, 4), s.hostOf(3, 2, 1, 4)
		s.node(3).disk.mu.Lock()
		s.node(3).disk.full = true
		s.node(3).disk.mu.Unlock()
		s.node(1).crawl(host, 0, link(host, 5), link(other, 7))
		begun := time.Now()
		s.hand(host, 1, 4)
		if d := time.Since(begun); d > 2*time.Second {
			t.Errorf("it took %v", d)
		}
		if at := s.keepers(link(other, 7)); len(at) != 2 {
			t.Errorf("the link is in the outboxes of %v", at)
		}
	})
}

// A former owner gives its copy to the home, because the new owner is gone. The home hears of a finished page when its links are safe.
func TestFormerOwnerTellsTheHomeNoPageEarly(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4, 5}, func(s *stage) {
		host, other := s.found(5, 2, 3, 4, 5, 1), s.hostOf(3, 4, 5, 2, 1)
		s.hand(host, 2, 1)
		s.lose(is[*wire.DeliverRequest])
		s.node(1).crawl(host, 0, link(other, 7))
		s.node(5).kill(false)
		if err := s.node(1).own.obey(Record{Host: host, Epoch: 9, Owner: idOf(5)}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []int{0, 1} {
			time.Sleep(30 * time.Second)
			if _, done := s.node(2).has(host); done != want {
				t.Errorf("at the home %d pages are done, not %d", done, want)
			}
			if _, err := s.node(1).own.Load(s.t.Context(), idOf(2), &wire.LoadRequest{Host: host}); (err == nil) != (want == 1) {
				t.Errorf("asked for the host while %d pages are to be told: %v", want, err)
			}
			s.lose(nil)
		}
	})
}

// A node that was cut off has lost a host meanwhile. The new owner hears of the pages that it finished when their links are safe.
func TestFormerOwnerLosesNoLink(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4, 5}, func(s *stage) {
		host, other := s.found(5, 1, 2, 3, 4, 5), s.hostOf(3, 4, 5, 2, 1)
		s.lose(func(l letter) bool { return l.from == 1 || l.to == 1 })
		s.node(1).crawl(host, 0, link(other, 7))
		s.forget(1)
		time.Sleep(s.cfg.TakeAfter + 2*time.Minute)
		if owners := s.owners(host); !slices.Contains(owners, 2) {
			t.Fatalf("it is owned by %v", owners)
		}
		s.lose(func(l letter) bool { return is[*wire.DeliverRequest](l) && l.from == 1 }) // its links are slow
		s.see()
		for range 60 {
			time.Sleep(time.Second)
			for _, at := range []int{2, 3, 4, 5} {
				if _, done := s.node(at).has(host); done != 0 {
					t.Fatalf("the page is done at node %d, and its link is on one disk only", at)
				}
			}
		}
		s.lose(nil)
		time.Sleep(2 * time.Minute)
		if _, done := s.node(2).has(host); done != 1 {
			t.Errorf("%d pages are done at the owner", done)
		}
		if all, _ := s.node(3).has(other); all != 1 {
			t.Errorf("%d links have come", all)
		}
	})
}
