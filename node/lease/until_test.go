package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

// A holder is cut off from its grantor at any point of its lease. No other node has the server before the time that Until returned.
func TestUntilIsKept(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		addr := grantedBy(t, ids[2], ids)
		if until := all[0].holder.Until(addr); time.Until(until) > 0 {
			t.Errorf("a server that nobody has is leased until %v", until)
		}
		for phase := range 10 {
			all[0].want(true, addr)
			for !all[0].has(addr) {
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(w.cfg.Time + time.Duration(phase)*w.cfg.Time/10)
			all[1].want(true, addr)
			w.part(ids[0], ids[2])
			until := all[0].holder.Until(addr)
			if left := time.Until(until) - w.cfg.Skew; left < w.cfg.Time/2 || left > w.cfg.Time {
				t.Errorf("phase %d: it is leased for %v", phase, left)
			}
			for !all[1].has(addr) {
				time.Sleep(100 * time.Millisecond)
			}
			if early := time.Until(until); early > 0 {
				t.Errorf("phase %d: another has it %v too early", phase, early)
			}
			if until := all[0].holder.Until(addr); time.Until(until) > 0 {
				t.Errorf("phase %d: it is leased until %v to whom it is no longer", phase, until)
			}
			all[0].want(false, addr)
			all[1].want(false, addr)
			w.heal()
			time.Sleep(2 * w.cfg.ReleaseAfter())
		}
	})
}

// A node that sees nobody else in the first view of its first life grants after the founding time. In a later life, or with other nodes,
// earlier leases must have expired first.
func TestFounderBeginsSoon(t *testing.T) {
	cfg := Default()
	window := cfg.Window()
	for name, test := range map[string]struct {
		lives    int
		settled  int
		majority bool
		want     time.Duration
	}{
		"founder":           {1, 1, true, cfg.Founding},
		"founder, again":    {2, 1, true, window},
		"one of two":        {1, 2, true, window},
		"without its peers": {1, 1, false, window},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, cfg, 1)
				defer w.shutdown()
				ids := names(test.settled)
				addr := grantedBy(t, ids[0], ids)
				for range test.lives - 1 {
					w.start(ids[0]).kill()
				}
				n := w.start(ids[0])
				n.see(ids, test.majority)
				begin := time.Now()
				n.want(true, addr)
				time.Sleep(time.Second)
				if blind := time.Duration(n.grantor.Status().Blind) * time.Millisecond; blind != test.want-time.Second {
					t.Errorf("the status says that it is blind for %v more", blind)
				}
				n.see(ids, true) // now it sees the others
				for !n.has(addr) && time.Since(begin) < 2*window {
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(begin); took < test.want || took > test.want+cfg.retryMax()+cfg.lookEvery()+time.Second {
					t.Errorf("the first server was granted after %v, want %v", took, test.want)
				}
			})
		})
	}
}
