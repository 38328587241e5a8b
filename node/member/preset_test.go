package member_test

import (
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/member"
	"proxima/node/netsim"
)

// With every preset all notice a death in time, and nobody takes the living for dead.
func TestPresets(t *testing.T) {
	for preset, limit := range map[string]time.Duration{
		member.PresetLAN:     12 * time.Second,
		member.PresetTestbed: 16 * time.Second,
		member.PresetWAN:     30 * time.Second,
	} {
		t.Run(preset, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 16
				o := newOverlay(t, world(n, 12))
				o.startAll(n, func(c *member.Config, _ *member.Deps) { c.Preset = preset })
				time.Sleep(30 * time.Second)
				packets, bytes := o.net.Sent(netsim.Place(1))
				time.Sleep(20 * time.Second)
				allPackets, allBytes := o.net.Sent(netsim.Place(1))
				t.Logf("a node sends %d packets and %d bytes a second", (allPackets-packets)/20,
					(allBytes-bytes)/20)
				o.kill(7)
				noticed := map[int]time.Duration{}
				for begin := time.Now(); len(noticed) < n-1 && time.Since(begin) < limit; time.Sleep(100 * time.Millisecond) {
					for i, m := range o.nodes {
						if _, ok := m.Addr(netsim.ID(7)); !ok && noticed[i] == 0 {
							noticed[i] = time.Since(begin)
						}
					}
				}
				var first, last time.Duration
				for _, d := range noticed {
					if first == 0 || d < first {
						first = d
					}
					last = max(last, d)
				}
				t.Logf("a death is noticed after %v by the first, %v by the last", first, last)
				if len(noticed) < n-1 {
					t.Errorf("%d of %d noticed a death within %v", len(noticed), n-1, limit)
				}
				for i, m := range o.nodes {
					if k := m.count(member.EventDeath, ""); k != 1 {
						t.Errorf("node %d saw %d deaths", i, k)
					}
				}
				o.close()
			})
		})
	}
}
