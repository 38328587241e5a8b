package ownership

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A drained node has no hosts left, not even those that came to it meanwhile. None comes back, neither to its home nor by a wish.
func TestDrainLeavesNothing(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		home, away := s.hostOf(1, 2, 3), s.hostOf(2, 1, 3)
		s.node(1).find(links(home, 0, 2)...)
		s.node(2).find(links(away, 0, 2)...)
		time.Sleep(2 * time.Second)
		s.hand(away, 2, 1)
		var told []int64
		if err := s.node(1).own.Drain(s.t.Context(), func(left int64, trouble error) {
			if told = append(told, left); trouble != nil {
				t.Error(trouble)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if len(told) != 2 || told[0] != 2 || told[1] != 0 {
			t.Errorf("left %v", told)
		}
		time.Sleep(time.Minute) // for a host to follow its home
		for _, host := range []string{home, away} {
			if r, ok, err := s.node(2).own.Record(host); err != nil || !ok || r.Owner == idOf(1) {
				t.Errorf("%s belongs to %s: %v", host, r.Owner, err)
			}
		}
		if err := s.node(2).own.HandOff(s.t.Context(), away, idOf(1), true, "test"); err == nil {
			t.Error("a drained node took a host")
		}
		if err := s.node(2).own.Move(s.t.Context(), away, idOf(3)); err != nil {
			t.Error(err)
		}
		if r, _, err := s.node(3).own.Record(away); err != nil || !r.Assigned {
			t.Errorf("what an operator moved may follow its home: %+v, %v", r, err)
		}
		for _, c := range []struct{ at, to int }{{2, 1}, {3, 3}, {3, 9}} { // not the owner any more; there already; nobody
			if err := s.node(c.at).own.Move(s.t.Context(), away, idOf(c.to)); err == nil {
				t.Errorf("node %d moved it to %d", c.at, c.to)
			}
		}
	})
}

// While a node is drained it hears how many hosts are left, and why.
func TestDrainTellsWhatIsLeft(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		a, b := s.found(2, 1, 2, 3), s.found(2, 1, 3, 2)
		unlock, told := s.node(3).own.locks.lock(b), ""
		if err := s.node(1).own.Drain(s.t.Context(), func(left int64, trouble error) {
			if told += fmt.Sprint(left, mark(trouble != nil, "!"), " "); strings.Count(told, " ") == 2 {
				unlock()
			}
		}); err != nil || !strings.HasPrefix(told, "2 1! 1 ") || !strings.HasSuffix(told, " 0 ") {
			t.Errorf("of %s and %s it was told %q, %v", a, b, told, err)
		}
	})
}

// Move succeeds if the new owner is busy with the host for a moment, and fails if it is busy for long.
func TestMoveWaitsWhileTheReceiverIsBusy(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(2, 1, 2, 3)
		busy := s.node(3).own.reconciler.locks.wait(s.t.Context(), host)
		begun := time.Now()
		if err := s.node(1).own.Move(s.t.Context(), host, idOf(3)); !errors.Is(err, errLater) || time.Since(begun) < moveWait {
			t.Errorf("to a node that is busy for ever: %v after %v", err, time.Since(begun))
		}
		time.AfterFunc(moveWait/2, busy)
		if err := s.node(1).own.Move(s.t.Context(), host, idOf(3)); err != nil {
			t.Error(err)
		}
		if r, _, err := s.node(1).own.Record(host); err != nil || r.Owner != idOf(3) {
			t.Errorf("it belongs to %s: %v", r.Owner, err)
		}
		time.Sleep(time.Minute)
		for _, p := range s.all() {
			if p.own.reconciler.locks.mu.Lock(); len(p.own.reconciler.locks.hosts) > 0 {
				t.Errorf("node %d remembers the locks of %d hosts", p.at, len(p.own.reconciler.locks.hosts))
			}
			p.own.reconciler.locks.mu.Unlock()
		}
	})
}
