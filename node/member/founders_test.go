package member_test

import (
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/member"
	"proxima/node/netsim"
)

// When the second founder says that it is settled, no packet reaches the first one for a second. The first one never takes it for a newcomer:
// it would take its hosts for its own.
func TestNewsOfAFounderThatGetLost(t *testing.T) {
	const settleAfter = 20 * time.Second
	for range 6 {
		synctest.Test(t, func(t *testing.T) {
			o := newOverlay(t, flat(60))
			defer o.close()
			calm := func(c *member.Config, _ *member.Deps) {
				c.Preset, c.SettleAfter, c.AnnounceEvery = member.PresetLAN, settleAfter, time.Hour
			}
			began := time.Now()
			first := o.start(0, 1, calm)
			time.Sleep(200 * time.Millisecond)
			o.start(1, 1, calm)
			time.Sleep(settleAfter - 100*time.Millisecond - time.Since(began))
			o.net.Shield(netsim.Place(0), false, true)
			time.AfterFunc(1300*time.Millisecond, func() { o.net.Shield(netsim.Place(0), false, false) })
			for time.Since(began) < 2*settleAfter {
				time.Sleep(50 * time.Millisecond)
				if v := first.View(); len(v.Settled) != 2 {
					t.Fatalf("after %v it sees %v", time.Since(began), v.Settled)
				}
			}
		})
	}
}
