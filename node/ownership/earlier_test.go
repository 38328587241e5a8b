package ownership

import (
	"strings"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// again begins a new life of a node, on the same disk.
func (p *player) again() {
	p.kill(false)
	p.start()
	p.see()
}

// storesTo loses what is to be stored at a node.
func storesTo(at int) func(letter) bool {
	return func(l letter) bool { return is[*wire.StoreRequest](l) && l.to == at }
}

// A process dies before the replica has a link, and begins anew. The sender keeps the link until the replica has it.
func TestLinkOfAnEarlierLife(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		s.lose(storesTo(2))
		s.node(3).find(link(host, 5))
		time.Sleep(2 * time.Second)
		s.node(1).mustHold(host, 6, 0)
		s.node(1).again()
		if s.node(3).awaitAnswers(30 * time.Second) {
			t.Error("the link is acknowledged, and on one disk only")
		}
		s.lose(nil)
		if !s.node(3).awaitAnswers(25 * time.Second) {
			t.Error("the link is not acknowledged")
		}
		s.node(2).mustHold(host, 6, 0)
	})
}

// A page ends before its replica knows it. Then changes are lost. The replica hears of the page before the links of the page are safe, although
// it must not hear yet that the page has ended.
func TestPageThatEndsBeforeItsReplicaKnowsIt(t *testing.T) {
	for what, lose := range map[string]func(p *player){
		"in a crash":                      (*player).again,
		"in a power cut":                  func(p *player) { p.kill(true); p.start(); p.see() },
		"as too much has happened before": nil,
	} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			host, other, p := s.found(5, 1, 2, 3), s.hostOf(3, 2, 1), s.node(1)
			s.lose(func(l letter) bool { return slow(l) || storesTo(2)(l) })
			p.find(link(host, 5))
			if lose == nil {
				p.disk.forget()
			} else {
				time.Sleep(10 * time.Second)
			}
			p.crawl(host, 5, link(other, 7))
			time.Sleep(2 * time.Second)
			if lose != nil {
				lose(p)
			}
			time.Sleep(10 * time.Second)
			s.lose(slow)
			time.Sleep(20 * time.Second)
			if all, done := s.node(2).has(host); all != 6 || done > 0 {
				t.Errorf("%s: the replica knows %d pages, and %d are done", what, all, done)
			}
			s.lose(nil)
			time.Sleep(20 * time.Second)
			if all, done := s.node(2).has(host); all != 6 || done != 1 {
				t.Errorf("%s: in the end the replica knows %d pages, and %d are done", what, all, done)
			}
			if n := len(p.disk.linksTo()); n > 0 {
				t.Errorf("%s: %d links wait", what, n)
			}
		})
	}
}

// The replica of a host has missed a link in an earlier life of the owner. A page of another host with the same link is not told as done
// before that replica has the link.
func TestPageWithALinkOfAnEarlierLife(t *testing.T) {
	for what, begin := range map[string]func(s *stage, host string) (end func()){
		"it is not heard": func(s *stage, _ string) func() { return func() { s.lose(nil) } },
		"it is busy with the host": func(s *stage, host string) func() {
			s.lose(nil)
			return s.node(3).own.locks.lock(host)
		},
	} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			host, other, p := s.found(5, 1, 2, 3), s.found(5, 1, 3, 2), s.node(1)
			s.lose(storesTo(3))
			p.find(link(other, 5))
			time.Sleep(time.Second)
			p.kill(false)
			end := begin(s, other)
			p.start()
			p.see()
			p.crawl(host, 0, link(other, 5))
			for range 3 {
				time.Sleep(10 * time.Second)
				if _, done := s.node(2).has(host); done > 0 {
					t.Errorf("%s, and the page is told", what)
				}
			}
			end()
			time.Sleep(s.cfg.SuspendAfter)
			s.node(2).mustHold(host, 5, 1)
			s.node(3).mustHold(other, 6, 0)
		})
	}
}

// Changes are lost, and mending takes long. As the replica stores a part after the other, links are not acknowledged on one disk. What the
// replica has in addition, and does not give, keeps no link from its answer.
func TestLinksWhileAReplicaIsMended(t *testing.T) {
	for what, c := range map[string]struct {
		lag    time.Duration // of each message to the replica
		spoilt int           // the node that lacks a page
		within bool          // the link is acknowledged within SuspendAfter
	}{
		"it takes long":             {9 * time.Second, 2, false},
		"the replica gives nothing": {0, 1, true},
	} {
		onStage(t, []int{1, 2, 3}, func(s *stage) {
			host, alone := s.found(100, 1, 2, 3), false
			s.listen(nil, func(_ int, err error) { alone = alone || strings.Contains(err.Error(), "on one disk only") })
			s.hooks.Lock()
			s.lag = func(l letter) time.Duration {
				if storesTo(2)(l) {
					return c.lag
				}
				return 0
			}
			s.hooks.Unlock()
			s.lose(is[*wire.LoadRequest])
			s.node(c.spoilt).spoil(host, 50)
			p := s.node(1)
			p.disk.mu.Lock()
			p.disk.changes[host] = &frontier.Change{Lost: true}
			p.disk.mu.Unlock()
			s.node(3).find(link(host, 100))
			if s.node(3).awaitAnswers(s.cfg.SuspendAfter+20*time.Second) != c.within {
				t.Errorf("%s: the link is acknowledged: %v", what, !c.within)
			}
			if !s.node(3).awaitAnswers(2*time.Minute) || alone {
				t.Errorf("%s: in the end the link waits: %v; it was warned of: %v", what, !alone, alone)
			}
		})
	}
}
