package node_test

import (
	"net/netip"
	"testing"
	"time"
)

// Nodes whose addresses change: one gets another while it runs, so that the one that it publishes leads nowhere; and all have those of others in
// their next lives, after they were killed. The crawl goes on within minutes, and ends.
func TestOverlayAddressesChange(t *testing.T) {
	for what, change := range map[string]func(b *bed){
		"while it runs": func(b *bed) {
			b.net.Partition([]netip.Addr{b.place(2)})
			b.net.Shield(b.place(2), true, true)
			time.Sleep(20 * time.Second) // until its connections have ended
			b.net.Heal()
		},
		"between lives": func(b *bed) {
			for i := range b.nodes {
				b.kill(i)
			}
			b.moved = map[int]int{0: 1, 1: 2, 2: 3, 3: 0}
			for i := range b.nodes {
				b.start(i)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			inBed(t, square(), func(b *bed) {
				b.sitesBeside(4, 150, 1000)
				b.startAll(80 * time.Second)
				b.awaitPages(200)
				change(b)
				changed := time.Now()
				b.awaitEnd(30 * time.Minute)
				b.complete(150, true)
				for _, s := range b.sites {
					if pause := b.longestPause(s, changed); pause > 5*time.Minute {
						t.Errorf("%s paused for %v", s, pause)
					}
				}
			})
		})
	}
}
