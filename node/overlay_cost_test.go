package node_test

import (
	"fmt"
	"testing"
	"time"

	"proxima/node"
)

// TestOverlayCost counts messages, requests and answers, while ten nodes crawl in calm with the times of the testbed, where
// they are dearest: leases of 8 s, and some 23 pages a second on all nodes together.
func TestOverlayCost(t *testing.T) {
	at := append(scattered(3, 9), point{300, 300, 5})
	inBed(t, at, func(b *bed) {
		b.cfg = func(_ int, c *node.Config) {
			c.Termination.ExpectedNodes, c.Termination.RoundEvery = len(at)+1, time.Second
			c.Member.SettleAfter, c.Member.ForgetAfter, c.Member.MajorityWindow, c.Member.HearWithin = 2*time.Second, 10*time.Second, time.Minute, 4*time.Second
			c.Member.Redial, c.Member.RedialMax, c.Member.AnnounceEvery = 2*time.Second, 10*time.Second, 2*time.Second
			c.Lease.Time, c.Lease.Skew = 8*time.Second, 5*time.Second
			c.Ownership.RenewEvery, c.Ownership.SuspendAfter, c.Ownership.TakeAfter, c.Ownership.Collect = 3*time.Second, 9*time.Second, 14*time.Second, 4*time.Second
			c.RemoteWait, c.Peer.OutboxWait, c.Peer.OutboxBackoff = 20*time.Second, 500*time.Millisecond, 3*time.Second
		}
		for i, p := range scattered(4, 48) {
			b.site(fmt.Sprintf("s%d.test", i), address(i), p, 140, 15_000)
		}
		b.startAll(20 * time.Second)
		count := func() (pages, all int, by map[string]int) {
			by = map[string]int{}
			for _, n := range b.nodes {
				s := n.node.Status()
				for name, p := range s.Overlay.Calls.Procedures {
					by[name] += int(p.MessagesSent)
					all += int(p.MessagesSent)
				}
				pages += int(s.Frontier.Done)
			}
			return pages, all, by
		}
		time.Sleep(time.Minute)
		pagesBefore, allBefore, before := count()
		time.Sleep(2 * time.Minute)
		pages, all, by := count()
		pages, all = pages-pagesBefore, all-allBefore
		for name := range by {
			by[name] -= before[name]
		}
		t.Logf("%d pages, %.2f messages a page: %v", pages, float64(all)/float64(pages), by)
		if pages < 2000 || all > 4*pages || by["Idle"] > 2*120 {
			t.Errorf("%d messages for %d pages: %v", all, pages, by)
		}
	})
}
