package ownership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"proxima/frontier"
)

// While a node is drained it hears how many hosts are left, and why.
func TestDrainTellsWhatIsLeft(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		a, b := s.found(2, 1, 2, 3), s.found(2, 1, 3, 2)
		unlock, told := s.node(3).own.locks.lock(b), ""
		if err := s.node(1).own.Drain(s.t.Context(), func(left int64, trouble error) {
			if told += fmt.Sprint(left, mark(trouble != nil, "!"), " "); strings.Count(told, " ") == 2 {
				unlock()
			}
		}); err != nil || told != "2 1! 0 " {
			t.Errorf("of %s and %s it was told %q, %v", a, b, told, err)
		}
	})
}

// Two nodes that are drained at once, each the home of hosts that the other one is to get, hand all to a third one.
func TestDrainOfTwo(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		hosts := []string{s.found(2, 1, 2, 3), s.found(2, 2, 1, 3)}
		ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Minute)
		defer cancel()
		var both sync.WaitGroup
		for at := 1; at <= 2; at++ {
			both.Go(func() {
				last := error(nil)
				if err := s.node(at).own.Drain(ctx, func(_ int64, trouble error) { last = trouble }); err != nil {
					t.Errorf("node %d: %v; %v", at, err, last)
				}
			})
		}
		both.Wait()
		for _, host := range hosts {
			if r := s.node(3).record(host); r.Owner != idOf(3) {
				t.Errorf("%s is at node %d", host, numberOf(r.Owner))
			}
		}
	})
}

// A node that is drained while no other node is there keeps its hosts as they are, and says why.
func TestDrainWithoutAnHeir(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		host := s.found(2, 1, 2)
		for what, leave := range map[string]func(){"dead": func() { s.node(2).kill(false) }, "gone": func() { s.forget(2) }} {
			leave()
			ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
			told := 0
			_ = s.node(1).own.Drain(ctx, func(left int64, trouble error) {
				if trouble != nil {
					if told++; left != 1 || !strings.HasSuffix(trouble.Error(), host+": the node that is to get it is not there") {
						t.Errorf("%s: %d are left, %v", what, left, trouble)
					}
					if role, _, err := s.node(1).disk.RoleOf(ctx, host); role != frontier.Owned || err != nil {
						t.Errorf("%s: its role is %v, %v", what, role, err)
					}
				}
			})
			cancel()
			if told < 9 {
				t.Errorf("%s: it was tried %d times", what, told)
			}
		}
	})
}

// Move succeeds if the new owner is busy with the host for a moment, and fails if it is busy for long. What an operator moved does not
// follow its home.
func TestMoveWaitsWhileTheReceiverIsBusy(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(2, 1, 2, 3)
		busy, begun := s.node(3).own.locks.wait(s.t.Context(), host), time.Now()
		if err := s.node(1).own.Move(s.t.Context(), host, idOf(3)); !errors.Is(err, errLater) || time.Since(begun) < moveWait {
			t.Errorf("to a node that is busy for ever: %v after %v", err, time.Since(begun))
		}
		time.AfterFunc(moveWait/2, busy)
		if err := s.node(1).own.Move(s.t.Context(), host, idOf(3)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		for _, p := range s.all() {
			p.own.locks.mu.Lock()
			locks := len(p.own.locks.hosts)
			p.own.locks.mu.Unlock()
			if r := p.record(host); r.Owner != idOf(3) || !r.Assigned || locks > 0 {
				t.Errorf("node %d knows %+v, and remembers the locks of %d hosts", p.at, r, locks)
			}
		}
	})
}

// A node that is drained may have the only copy of a host whose owner has just died. It stays until another node has that, too.
func TestDrainWithTheCopyOfTheDead(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(5, 1, 2, 3)
		if err := s.node(1).own.Move(s.t.Context(), host, idOf(3)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(s.cfg.SweepEvery + time.Minute) // node 2 has no copy any more
		s.node(3).die()
		if err := s.node(1).own.Drain(s.t.Context(), func(int64, error) {}); err != nil {
			t.Fatal(err)
		}
		s.node(1).die()
		s.forget(1, 3)
		time.Sleep(s.cfg.TakeAfter)
		r := s.node(2).record(host)
		if role, known, err := s.node(2).disk.RoleOf(s.t.Context(), host); r.Owner != idOf(2) || !known || role != frontier.Owned || err != nil {
			t.Errorf("the node that is left knows %+v, and has %v, %v, %v of the host", r, known, role, err)
		}
	})
}

// A host is to follow its home, which is without the web and refuses it. The crawl may end all the same. Once the home takes hosts again, the
// host follows it.
func TestNoEndWaitsForAHomeThatRefuses(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, busy := s.hostOf(3, 1, 2), 0
		s.forget(3)
		s.node(1).find(links(host, 0, 3)...)
		time.Sleep(2 * s.cfg.Collect)
		s.mustOwn(host, 1)
		s.node(3).own.Refuse(true)
		s.welcome(3)
		time.Sleep(s.cfg.Collect)
		for range 100 { // a try takes a moment
			time.Sleep(time.Second)
			if s.node(1).own.Busy() {
				busy++
			}
		}
		if busy > 10 {
			t.Errorf("the owner is busy for %d of 100 seconds", busy)
		}
		s.mustOwn(host, 1)
		s.node(3).own.Refuse(false)
		time.Sleep(2 * s.cfg.SuspendAfter)
		s.mustOwn(host, 3)
	})
}
