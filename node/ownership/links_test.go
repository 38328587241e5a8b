package ownership

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
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

// isCopy reports whether a message copies links to another node's outbox.
func isCopy(l letter) bool {
	d, ok := l.req.(*wire.DeliverRequest)
	return ok && d.GetKeep()
}

// slow loses what node 1 sends to node 3, but renewals, and copies of links. So links that node 1 finds for node 3 are not safe.
func slow(l letter) bool { return isCopy(l) || l.from == 1 && l.to == 3 && !is[*wire.RenewRequest](l) }

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

// fill makes the disk of a node full, or frees it.
func (p *player) fill(full bool) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	p.disk.full = full
}

// While the replica cannot store a link, the sender keeps the link. If that lasts, the owner's disk must do, with a warning. Pages and
// hand-offs go on then. When the trouble is over, the replica gets everything.
func TestLinkThatItsReplicaDoesNotStore(t *testing.T) {
	for what, begin := range map[string]func(s *stage, host string) (end func()){
		"it is not heard": func(s *stage, _ string) func() {
			s.lose(func(l letter) bool { return is[*wire.StoreRequest](l) && l.to == 2 })
			return func() { s.lose(nil) }
		},
		"its disk is full": func(s *stage, _ string) func() {
			s.node(2).fill(true)
			return func() { s.node(2).fill(false) }
		},
		"it is busy with the host": func(s *stage, host string) func() { return s.node(2).own.locks.lock(host) },
	} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			host, other, alone := s.found(5, 1, 2, 3), s.found(2, 1, 3, 2), false
			s.listen(nil, func(_ int, err error) { alone = alone || strings.Contains(err.Error(), "on one disk only") })
			end := begin(s, host)
			s.node(3).find(link(host, 5))
			if s.node(3).awaitAnswers(s.cfg.SuspendAfter - 5*time.Second) {
				t.Errorf("%s: the link is acknowledged, and on one disk only", what)
			}
			if !s.node(3).awaitAnswers(20*time.Second) || !alone {
				t.Errorf("%s: for long, and the link is not acknowledged; it was warned of: %v", what, alone)
			}
			s.node(1).crawl(other, 0, link(host, 6))
			time.Sleep(5 * time.Second)
			s.node(3).mustHold(other, 2, 1)
			s.hand(other, 1, 3)
			end()
			time.Sleep(s.cfg.SuspendAfter + 30*time.Second)
			s.mustHave(host, 7, 1, 2)
			s.node(2).kill(false)
			s.node(3).find(link(host, 7))
			if s.node(3).awaitAnswers(time.Minute) {
				t.Errorf("%s: its node is dead, and the link is acknowledged", what)
			}
			s.forget(2)
			if !s.node(3).awaitAnswers(10 * time.Second) {
				t.Errorf("%s: another node has taken its place, and the link is not acknowledged", what)
			}
			s.mustHave(host, 8, 1, 3)
			s.node(3).kill(false)
			s.forget(3)
			if s.node(1).find(link(host, 8)); !s.node(1).awaitAnswers(10 * time.Second) {
				t.Errorf("%s: a link waits for a replica that there is not", what)
			}
		})
	}
}

// A replica has not answered, but its owner stood still meanwhile. So the owner gives it a minute from then on, and crawls nothing of the host.
func TestReplicaThatCouldNotAnswerAStandstill(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, p := s.found(5, 1, 2, 3), s.node(1)
		s.lose(func(l letter) bool { return is[*wire.StoreRequest](l) && l.to == 2 })
		s.node(3).find(link(host, 5))
		time.Sleep(s.cfg.SuspendAfter - 5*time.Second)
		p.own.Stopped()
		for range 5 {
			time.Sleep(10 * time.Second)
			if acknowledged := len(s.node(3).disk.linksTo()) == 0; acknowledged || p.mayCrawl(host) {
				t.Errorf("a link is on one disk, and acknowledged: %v; the host is crawled: %v", acknowledged, p.mayCrawl(host))
			}
		}
		if !s.node(3).awaitAnswers(30*time.Second) || !p.mayCrawl(host) {
			t.Errorf("for long, and the host is crawled: %v", p.mayCrawl(host))
		}
	})
}

// The node with the replica is away when links of a host are found, by its owner and by another node. Then the owner's disk is lost, and that node is
// back. No link is lost, though the pages on which they were are done elsewhere.
func TestLinksWhileTheReplicaIsAway(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4, 5}, func(s *stage) {
		host, near, far := s.found(5, 1, 2, 3, 4, 5), s.found(1, 1, 3, 4, 5, 2), s.found(1, 3, 4, 5, 1, 2)
		s.node(2).kill(false)
		s.node(1).crawl(near, 0, link(host, 5))
		s.node(3).crawl(far, 0, link(host, 6))
		time.Sleep(10 * time.Second)
		s.node(3).mustHold(near, 1, 1)
		s.node(4).mustHold(far, 1, 1)
		s.node(1).die()
		s.forget(1)
		s.node(2).start()
		time.Sleep(3 * time.Minute)
		s.mustHave(host, 7, 2, 3)
	})
}

// The node with the replica is back, and has not stored yet what was found meanwhile. No such link is acknowledged before that, and its page is not
// done elsewhere before another outbox has the link.
func TestLinksUntilTheReplicaIsMended(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4, 5}, func(s *stage) {
		host, near := s.found(5, 1, 2, 3, 4, 5), s.found(1, 1, 3, 4, 5, 2)
		s.node(2).kill(false)
		s.lose(isCopy)
		s.node(1).crawl(near, 0, link(host, 5))
		time.Sleep(10 * time.Second)
		s.node(3).mustHold(near, 1, 0)
		s.lose(func(l letter) bool { return is[*wire.StoreRequest](l) && l.from == 1 && l.to == 2 })
		s.node(3).find(link(host, 6))
		time.Sleep(10 * time.Second)
		s.node(3).mustHold(near, 1, 1)
		s.node(2).start()
		time.Sleep(30 * time.Second)
		for _, l := range links(host, 5, 7) {
			if len(s.keepers(l)) < 2 {
				t.Errorf("%v is in the outboxes of %v, and not at the replica", l.URL, s.keepers(l))
			}
		}
		s.lose(nil)
		time.Sleep(time.Minute)
		s.mustHave(host, 7, 1, 2)
		for _, l := range links(host, 5, 7) {
			if len(s.keepers(l)) > 0 {
				t.Errorf("%v is not acknowledged at %v", l.URL, s.keepers(l))
			}
		}
	})
}

// A link is on its way to the replica when a page of its host is done. It is acknowledged when the replica has it, not before.
func TestLinkThatIsOnItsWayToTheReplica(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		s.lose(func(l letter) bool { return is[*wire.StoreRequest](l) && l.to == 2 })
		s.node(3).find(link(host, 5))
		time.Sleep(3 * time.Second)
		s.node(1).crawl(host, 0)
		if s.node(3).awaitAnswers(s.cfg.SuspendAfter - 10*time.Second) {
			t.Error("the link is acknowledged, and on one disk only")
		}
	})
}

// A replica is made anew, which takes long since its node is slow. A link that comes meanwhile is acknowledged soon, when the replica has it, too.
func TestLinkThatComesWhileAReplicaIsMade(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(190, 1, 2, 3)
		s.node(2).die()
		s.delay(func(l letter) time.Duration {
			if is[*wire.StoreRequest](l) && l.to == 2 {
				return 4 * time.Second
			}
			return 0
		})
		s.node(2).start()
		time.Sleep(20 * time.Second)
		s.node(3).find(link(host, 190))
		if !s.node(3).awaitAnswers(20*time.Second) || !s.node(2).disk.has(host, path(190)) {
			t.Error("the link is not acknowledged, or on one disk only")
		}
		if all, _ := s.node(2).has(host); all > 150 {
			t.Errorf("the replica has %d URLs already", all)
		}
		time.Sleep(3 * time.Minute)
		s.mustHave(host, 191, 1, 2)
	})
}

// A replica had no room for a new page, and is mended when the page is done, but not its links safe: so it hears nothing of the page. A link to the page
// is acknowledged when the replica has it.
func TestLinkToAPageThatIsHeldBack(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, other := s.found(3, 1, 2, 3), s.hostOf(3, 2, 1)
		s.node(2).fill(true)
		s.node(1).find(link(host, 3))
		time.Sleep(2 * time.Second)
		s.lose(func(l letter) bool { return slow(l) || is[*wire.DeliverRequest](l) && l.from == 1 }) // its outbox is slow
		s.node(1).crawl(host, 3, link(other, 7))
		s.node(2).fill(false)
		time.Sleep(40 * time.Second)
		s.node(2).mustHold(host, 3, 0)
		s.node(3).find(link(host, 3))
		if !s.node(3).awaitAnswers(20*time.Second) || !s.node(2).disk.has(host, path(3)) {
			t.Error("the link is not acknowledged, or on one disk only")
		}
	})
}

// A link is on its way to the replica when its host is to be handed over, and later changes of the host overtake it. It is acknowledged when
// another node has it.
func TestLinkThatIsOvertaken(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.found(5, 1, 2, 3, 4)
		var late atomic.Int32
		s.delay(func(l letter) time.Duration {
			r, ok := l.req.(*wire.StoreRequest)
			if ok && (l.to == 4 || l.to == 2 && r.GetItems()[0].GetChunk() != nil && late.Load() == 0) {
				late.Add(1)
				return 8 * time.Second
			}
			return 0
		})
		s.node(3).find(link(host, 5))
		time.Sleep(2 * time.Second)
		s.node(1).find(link(host, 6))
		go s.node(1).handOff(host, 4) //nolint:errcheck // the test ends before
		if s.node(3).awaitAnswers(4*time.Second) || late.Load() != 2 {
			t.Errorf("the link is acknowledged, and on one disk only; %d messages are late", late.Load())
		}
		time.Sleep(time.Minute)
	})
}

// Links of a host come without end, and its replica is slow, but stores them all. That of a peer is acknowledged as soon as it is stored, too.
func TestLinkToASlowReplica(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		s.delay(func(l letter) time.Duration {
			if is[*wire.StoreRequest](l) && l.to == 2 {
				return 700 * time.Millisecond
			}
			return 0
		})
		for k := range 100 {
			if s.node(1).find(link(host, 5+k)); k == 20 {
				s.node(3).find(link(host, 199))
			}
			time.Sleep(100 * time.Millisecond)
		}
		if len(s.node(3).disk.linksTo()) > 0 {
			t.Error("the link is not acknowledged within eight seconds")
		}
	})
}

// A link waits for its owner, and its page is done. The finder's disk is lost, the node with the copy has a power cut, and then its
// disk is lost, too. The link still arrives.
func TestLinkOutlivesOneDiskAfterTheOther(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host, other := s.found(2, 1, 2, 3, 4), s.found(1, 3, 4, 1, 2)
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
		time.Sleep(10 * time.Second)
		s.node(2).mustHold(host, 2, 1)
		for _, keepers := range [][]int{{1, 2}, {2, 4}} {
			time.Sleep(20 * time.Second)
			if at := s.keepers(link(other, 1)); !slices.Equal(at, keepers) {
				t.Fatalf("%v keep the link, not %v", at, keepers)
			}
			s.node(keepers[0]).die()
		}
		s.lose(nil)
		time.Sleep(time.Minute)
		s.node(3).mustHold(other, 2, 0)
	})
}

// overflow makes what waits too much: it is dropped when the next changes come.
func (s *stream) overflow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += maxStream + 1
}

// A page is done at the replica only when the links found on it are safe: at the owners of their hosts and at the replicas. That holds for a
// replica that is mended, too. If the owner dies for good after that, no link is lost.
func TestPageIsDoneAtReplicaOnlyWithItsLinks(t *testing.T) {
	for _, c := range []struct {
		what   string
		order  []int // of the host of the link
		crawl  func(p *player, host string, found frontier.Link)
		mended bool
	}{
		{"a link of another node", []int{3, 2, 1}, func(p *player, host string, found frontier.Link) { p.crawl(host, 0, found) }, false},
		{"a link of its own", []int{1, 3, 2}, func(p *player, host string, found frontier.Link) { p.crawl(host, 0, found) }, false},
		{"the replica differs", []int{3, 2, 1}, func(p *player, host string, found frontier.Link) {
			p.node(2).spoil(host, 4)
			p.crawl(host, 0, found)
			p.own.queue.add(host, false)
		}, true},
		{"the frontier had too much to tell", []int{3, 2, 1}, func(p *player, host string, found frontier.Link) {
			p.crawl(host, 0, found)
			p.disk.mu.Lock()
			defer p.disk.mu.Unlock()
			p.disk.changes[host] = &frontier.Change{Lost: true}
		}, true},
		{"the stream had", []int{3, 2, 1}, func(p *player, host string, found frontier.Link) {
			p.own.stream.overflow()
			p.crawl(host, 0, found)
		}, true},
		{"the stream had, when the page was held back", []int{3, 2, 1}, func(p *player, host string, found frontier.Link) {
			p.crawl(host, 0, found)
			time.Sleep(2 * p.cfg.ReplicateEvery)
			p.own.stream.overflow()
			p.crawl(host, 1)
		}, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			onStage(t, []int{1, 2, 3}, func(s *stage) {
				host, other, differs := s.found(5, 1, 2, 3), s.hostOf(c.order...), false
				s.watch(func(l letter) {
					if res, ok := l.res.(*wire.StoreResponse); ok {
						differs = differs || slices.ContainsFunc(res.GetAnswers(), func(a *wire.StoreAnswer) bool { return a.GetStep() == wire.Step_STEP_DIFFERS })
					}
				})
				s.lose(slow)
				c.crawl(s.node(1), host, link(other, 7))
				time.Sleep(s.cfg.ReplicateEvery)
				s.node(2).mustHold(host, 5, 0)
				s.node(1).find(link(host, 5)) // is told before the page
				time.Sleep(time.Minute - s.cfg.ReplicateEvery)
				s.node(2).mustHold(host, 6, 0)
				s.node(3).mustHold(other, 0, 0)
				s.lose(nil)
				time.Sleep(10 * time.Second)
				_, done := s.node(1).has(host)
				s.node(1).die()
				s.node(2).mustHold(host, 6, done)
				s.node(3).mustHold(other, 1, 0)
				if differs && !c.mended || done == 0 {
					t.Errorf("the replica differed: %v, %d pages are done", differs, done)
				}
			})
		})
	}
}

// A node that stops tells of a page when its links are safe, for as long as it is given. So it may lose its disk afterwards.
func TestLastChangesLoseNoLink(t *testing.T) {
	for _, late := range []bool{false, true} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			host, other := s.found(5, 1, 2, 3), s.hostOf(3, 2, 1)
			s.lose(func(l letter) bool { return late && (isCopy(l) || l.from == 1 && l.to == 3) })
			s.node(1).crawl(host, 0, link(other, 7))
			ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Second)
			defer cancel()
			s.node(1).own.Flush(ctx)
			s.node(1).die()
			_, done := s.node(2).has(host)
			if came := len(s.owners(other)) > 0; came == late || (done > 0) != came || (ctx.Err() != nil) != late {
				t.Errorf("%d pages are done at the replica, and the link has come: %v", done, came)
			}
		})
	}
}

// The last changes of a node that stops are sent to all replicas, and once more if one does not answer.
func TestLastChangesReachAllReplicas(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		a, b, lost := s.found(3, 1, 2, 3), s.found(3, 1, 3, 2), 0
		s.lose(func(l letter) bool {
			if is[*wire.StoreRequest](l) && l.to == 3 {
				lost++
			}
			return is[*wire.StoreRequest](l) && l.to == 3 && lost == 1
		})
		s.node(1).find(link(a, 3), link(b, 3))
		s.node(1).own.Flush(s.t.Context())
		s.node(2).mustHold(a, 4, 0)
		s.node(3).mustHold(b, 4, 0)
	})
}

// A node that stops waits no longer than it is given, even if its disk is silent: the others take its hosts over once it has left.
func TestLastChangesDoNotWaitForTheDisk(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(1), s.found(3, 1, 2, 3)
		p.disk.mu.Lock()
		p.disk.slow = true
		p.disk.mu.Unlock()
		p.find(link(host, 3))
		began := time.Now()
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		if p.own.Flush(ctx); time.Since(began) > time.Second {
			t.Errorf("it waits for %v", time.Since(began))
		}
	})
}
