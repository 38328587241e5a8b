package ownership

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/node/peer"
	"proxima/node/wire"
)

// spoil removes a URL from a node's disk.
func (p *player) spoil(host string, k int) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	delete(p.disk.now.hosts[host].done, path(k))
}

// A replica that differs is mended, whatever else becomes of the host.
func TestReplicaThatDiffersIsMended(t *testing.T) {
	for what, differ := range map[string]func(s *stage, p *player, host string){
		"a wish fails": func(s *stage, p *player, host string) {
			s.lose(func(l letter) bool { return l.from == 1 && l.to == 3 })
			s.node(2).spoil(host, 4)
			p.own.queue.add(host, false)
			p.own.Wish(host, idOf(3), "test")
		},
		"a hand-off fails": func(s *stage, p *player, host string) { // the last change before it shows the difference
			s.lose(func(l letter) bool { return l.from == 1 && l.to == 3 })
			s.node(2).spoil(host, 4)
			p.find(link(host, 8)) // no comparison is made while a change is on its way
			if p.handOff(host, 3) == nil {
				t.Error("it was handed over without a message")
			}
		},
		"a hand-off to the replica is open": func(s *stage, p *player, host string) {
			s.lose(is[*wire.CommitRequest])
			if p.handOff(host, 2) == nil {
				t.Error("it was handed over")
			}
			time.Sleep(20 * time.Second) // the last try to have it committed is over
			if err := s.node(2).disk.Remove(s.t.Context(), host); err != nil {
				t.Error(err)
			}
			p.own.queue.add(host, false) // as a comparison does
		},
		"the frontier did not track the digest": func(s *stage, p *player, host string) {
			s.node(2).spoil(host, 4)
			p.disk.untrack(host)
			p.find(link(host, 8))
		},
	} {
		t.Run(what, func(t *testing.T) {
			onStage(t, []int{1, 2, 3}, func(s *stage) {
				host := s.found(8, 1, 2, 3)
				s.mustHave(host, 8, 1, 2)
				differ(s, s.node(1), host)
				time.Sleep(30 * time.Second)
				all, _ := s.node(1).has(host)
				s.mustHave(host, all, 1, 2)
			})
		})
	}
}

// What a node has acknowledged survives a power cut in the same instant: links that it took, a host that it committed, data that it
// stored.
func TestAnswersSurviveAPowerCut(t *testing.T) {
	for name, c := range map[string]struct {
		is   func(l letter) bool
		node int // whose power fails
	}{
		"delivered": {func(l letter) bool { return is[*wire.DeliverRequest](l) && l.to == 1 }, 1},
		"stored":    {func(l letter) bool { return is[*wire.StoreRequest](l) && l.to == 2 }, 2},
		"committed": {is[*wire.CommitRequest], 3},
	} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			host, answered := s.found(5, 1, 2, 3), false
			s.watch(func(l letter) { // the answer has been given
				if !c.is(l) || answered {
					return
				}
				answered = true
				d := s.node(c.node).disk
				d.mu.Lock()
				defer d.mu.Unlock()
				h := d.synced.hosts[host]
				if h == nil || len(h.done) != len(d.now.hosts[host].done) {
					t.Errorf("%s: what is answered is not on disk", name)
				} else if name == "committed" && (h.role != frontier.Owned || d.synced.shelf[host] != d.now.shelf[host] || d.now.shelf[host] == "") {
					t.Errorf("%s: role %v and record %q are on disk", name, h.role, d.synced.shelf[host])
				}
			})
			s.node(3).find(links(host, 5, 9)...)
			time.Sleep(2 * time.Second)
			s.hand(host, 1, 3)
			if !answered {
				t.Errorf("%s: there was no answer", name)
			}
		})
	}
}

// What a node gives away before it removes its copy is whole, even if changes were lost since its pages became safe.
func TestCopyThatIsGivenAwayIsWhole(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.found(3, 1, 2, 3), s.node(1).own
		s.node(1).crawl(host, 0)
		time.Sleep(2 * time.Second)
		s.lose(is[*wire.DeliverRequest])
		s.node(1).find(link(s.hostOf(3, 2, 1), 0)) // is not safe
		own.stream.mu.Lock()
		own.stream.lost, own.stream.cleared = time.Now(), false
		own.stream.mu.Unlock()
		for _, to := range []int{2, 3} {
			v, err := own.push(s.t.Context(), idOf(to), s.node(1).record(host), true)
			if s.node(to).mustHold(host, 3, 1); err != nil || !v.equal {
				t.Errorf("node %d has the same: %v, %v", to, v.equal, err)
			}
		}
		begun := time.Now()
		if err := own.secure(s.t.Context(), host, 0); !errors.Is(err, errLater) || s.node(1).disk.urged.Before(begun) {
			t.Errorf("the next time it has to wait, too: %v", err)
		}
		if _, err := own.Load(s.t.Context(), idOf(2), &wire.LoadRequest{Host: host}); !errors.Is(err, peer.ErrUnavailable) {
			t.Errorf("a peer that loads it is to try again: %v", err)
		}
		for _, wait := range []time.Duration{2*s.cfg.TakeAfter - time.Second, 2 * time.Second} { // then a page of before is told without its links
			if time.Sleep(wait); own.stream.holdsBack(host) != (wait > 2*time.Second) {
				t.Errorf("after %v more pages are held back: %v", wait, own.stream.holdsBack(host))
			}
		}
	})
}

// A sync fails after the frontier has reported a done page. The page is held back nevertheless, and its replica is mended.
func TestPageOfAFailedSyncIsHeldBack(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, p := s.found(3, 1, 2, 3), s.node(1)
		stream := p.own.stream
		p.halt() // nothing else calls the disk
		gone, cancel := context.WithCancel(s.t.Context())
		cancel()
		p.crawl(host, 1)
		if err := p.own.gather(gone); err != nil || stream.next()[host].Lost {
			t.Errorf("a caller that gives up takes changes along: %v", err)
		}
		stream.stored(host)
		p.crawl(host, 0)
		p.fail(&fault{call: "Sync", n: 1})
		if err := p.own.gather(s.t.Context()); !errors.Is(err, errFault) {
			t.Error(err)
		}
		if c := stream.next()[host]; c == nil || !c.Lost || len(c.Done) > 0 || !stream.holdsBack(host) {
			t.Errorf("there waits %+v; its page is held back: %v", c, stream.holdsBack(host))
		}
		stream.stored(host)
		stream.cleared, stream.hosts[host].held = true, 0
		p.disk.untrack(host)
		p.find(link(host, 3))
		p.fail(&fault{call: "DigestOf", n: 1})
		if err := p.own.flushHost(s.t.Context(), host); !errors.Is(err, errFault) || stream.next()[host] == nil {
			t.Errorf("a change that was not sent before a hand-off is gone: %v", err)
		}
		p.fail(nil)
	})
}

// The owner has its replica at a node that does not see yet that a member is gone, and so does not see itself as the one to keep the
// replica. It keeps what it has all the same.
func TestReplicaStaysAtANodeThatSeesItLate(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.found(3, 1, 4, 2, 3)
		see := func(at int) {
			v := s.node(at).own.view()
			v.Settled = slices.DeleteFunc(slices.Clone(v.Settled), func(id string) bool { return id == idOf(4) })
			v.Alive = v.Settled
			s.node(at).own.SetView(v)
		}
		see(1)
		time.Sleep(10 * time.Second)
		s.node(2).own.queue.add(host, false)
		time.Sleep(time.Minute)
		see(2)
		time.Sleep(time.Minute)
		s.node(2).mustHold(host, 3, 0)
	})
}

// A witness is told the latest record, also if that came while it was told the one before.
func TestWitnessHearsTheLatestRecord(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, p := s.hostOf(1, 2, 3), s.node(1)
		s.watch(func(l letter) {
			if l.from == 1 && l.to == 3 && is[*wire.StoreRequest](l) {
				p.put(rec(host, 2, 1))
			}
		})
		p.find(link(host, 0))
		time.Sleep(5 * time.Second)
		s.node(3).mustKnow(host, 2, 1)
		p.with(func() {
			if len(p.own.untold) > 0 {
				t.Errorf("to be told: %v", p.own.untold)
			}
		})
	})
}

// A peer answers only some items of a message: changes, comparisons or data. The others are sent again.
func TestPeerThatAnswersLess(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, p, asked := s.found(8, 1, 2, 3), s.node(1), 0
		s.watch(func(l letter) {
			if res, ok := l.res.(*wire.StoreResponse); ok && l.to != 1 {
				res.Answers = res.GetAnswers()[1:]
				asked++
			}
		})
		p.find(link(host, 8))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if !p.behind() || asked < 15 {
			t.Errorf("asked %d times; the change waits: %v", asked, p.behind())
		}
		if p.handOff(host, 2) == nil {
			t.Error("it was handed over to a node that does not answer")
		}
		if v, err := p.own.compareWith(t.Context(), idOf(2), rec(host, 1, 1)); err == nil {
			t.Errorf("a comparison without an answer ends with %+v", v)
		}
		items := comparison{idOf(2): {{Record: rec(host, 1, 1).wire(), Digest: &wire.Digest{}}}}
		p.own.compareNow(s.t.Context(), items, idOf(2))
		s.node(2).spoil(host, 4)
		time.Sleep(s.cfg.SweepEvery + time.Second) // compared
		s.watch(nil)
		s.lose(func(letter) bool { return true })
		unlock := p.own.locks.lock(host)
		items[idOf(2)] = []*wire.StoreItem{{Record: rec(host, 1, 1).wire()}}
		p.own.compareNow(s.t.Context(), items, idOf(2))
		if _, queued := p.queued(host); !queued {
			t.Error("nobody looks at a host after a comparison without an answer")
		}
		unlock()
		s.lose(nil)
		time.Sleep(2 * time.Minute)
		s.mustHave(host, 9, 1, 2)
	})
}

// A host whose step fails rests longer each time, up to SuspendAfter. An urgent one, for which the end of the crawl waits, is tried again
// soon, however often it has failed.
func TestPausesOfAHost(t *testing.T) {
	cfg := Default()
	for _, k := range []struct {
		tries  int
		urgent bool
		rests  time.Duration
	}{{1, false, cfg.RenewEvery / 4}, {1, true, cfg.RenewEvery / 4}, {4, true, cfg.RenewEvery}, {5, true, cfg.RenewEvery},
		{5, false, 5 * cfg.RenewEvery / 4}, {16, false, cfg.SuspendAfter}, {100, false, cfg.SuspendAfter}} {
		if d := cfg.pause(k.tries, k.urgent); d != k.rests {
			t.Errorf("after %d tries, urgent %v, it rests for %v, not %v", k.tries, k.urgent, d, k.rests)
		}
	}
}

// The replica is sent many links at once, also if they are of one host: they need not wait for others.
func TestManyLinksDoNotWait(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, req, began := s.found(1, 1, 2, 3), &wire.DeliverRequest{}, time.Now()
		for k := range manyLinks {
			req.Links = append(req.Links, LinkToWire(link(host, k)))
		}
		res, err := s.node(1).own.Deliver(s.t.Context(), idOf(3), req)
		if took := time.Since(began); err != nil || took >= s.cfg.ReplicateEvery/4 || word(res.GetAnswers()[manyLinks-1].GetVerdict()) != "accepted" {
			t.Errorf("answered after %v: %v", took, err)
		}
	})
}

// Many nodes deliver links at once to one that crawls, and whose disk needs two seconds for a sync. They share syncs, so that all are answered
// before they give up.
func TestDeliveriesShareSyncs(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		p, host := s.node(1), s.found(1, 1, 2, 3)
		p.disk.mu.Lock()
		p.disk.slow = true
		p.disk.mu.Unlock()
		var all sync.WaitGroup
		for k := 1; k <= 40; k++ {
			all.Go(func() {
				began := time.Now()
				_, err := p.own.Deliver(s.t.Context(), idOf(3), &wire.DeliverRequest{Links: []*wire.Link{LinkToWire(link(host, k))}})
				if took := time.Since(began); err != nil || took > 10*time.Second {
					s.t.Errorf("answered after %v: %v", took, err)
				}
			})
		}
		for k := 41; k < 140; k++ {
			time.Sleep(100 * time.Millisecond)
			p.find(link(host, k))
		}
		all.Wait()
	})
}

// A peer that is silent gets one call more at a time. One that has just been asked for the first time is not silent yet.
func TestCallsToASilentPeer(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		own := s.node(1).own
		for _, c := range []struct {
			calls int
			ago   time.Duration
			waits bool
		}{{0, time.Hour, false}, {1, s.cfg.SilentAfter, false}, {1, s.cfg.SilentAfter + 1, true}, {2, time.Hour, true}} {
			s.node(1).with(func() { own.silent[idOf(2)] = &silence{since: time.Now().Add(-c.ago), calls: c.calls} })
			if err := own.stuck(idOf(2)); errors.Is(err, errLater) != c.waits {
				t.Errorf("%d calls, silent for %v: %v", c.calls, c.ago, err)
			}
		}
		s.listen(nil, func(_ int, err error) { t.Errorf("that it waits is no failure: %v", err) })
		own.compareNow(s.t.Context(), comparison{idOf(2): {{Record: rec(s.hostOf(1, 2), 1, 1).wire()}}}, idOf(2))
	})
}

// A hand-off fails since its message is lost. The hosts that have their replicas at that node go on when it answers.
func TestReplicaThatIsHeardAgain(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, other := s.found(5, 1, 2, 3), s.found(5, 1, 3, 2)
		time.Sleep(time.Minute)
		s.lose(func(l letter) bool { return is[*wire.StoreRequest](l) && l.to == 2 })
		if s.node(1).handOff(other, 2) == nil {
			t.Error("a host is handed over without a message")
		}
		s.lose(nil)
		time.Sleep(s.cfg.SilentAfter + time.Second)
		if why := s.node(1).own.suspended(host, s.node(1).record(host), time.Now()); why != "" {
			t.Errorf("a host is not crawled: %s", why)
		}
	})
}
