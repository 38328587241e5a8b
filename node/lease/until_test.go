package lease

import (
	"testing"
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
