package node

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/batch"
)

// What is noted of hosts that were told to move is forgotten whatever the mode, or it would grow with every host received.
func TestHeldHostsAreForgottenInEveryMode(t *testing.T) {
	for _, mode := range []string{batch.ModeCrawl, batch.ModePersistent, batch.ModeCycle} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &overlay{cfg: Default(), held: map[string]time.Time{"a.test": time.Now()}, meant: map[netip.Addr]time.Time{}}
				o.cfg.Batch.Mode, o.cfg.Batch.Assigners = mode, []string{"random"}
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _ = o.reconsider(ctx) }()
				time.Sleep(30 * time.Second)
				if n := o.heldNow(); n != 1 {
					t.Errorf("%d hosts are noted after half a minute", n)
				}
				time.Sleep(time.Minute)
				if n := o.heldNow(); n != 0 {
					t.Errorf("%d hosts are noted after a minute and a half", n)
				}
				cancel()
			})
		})
	}
}

// The share of explorations is what it is said to be, however many downloads there are between two looks.
func TestExplorationsAreTheirShare(t *testing.T) {
	for _, downloads := range []int{1, 7, 66, 67, 100, 133, 1000} {
		o, all, n := &overlay{}, 0, 0
		for all < 20_000 {
			for range downloads {
				o.downloaded(time.Second)
			}
			all += downloads
			n += o.explorations()
		}
		if want := int(exploreShare * float64(all)); n < want-1 || n > want+1 {
			t.Errorf("%d downloads a time: %d explorations in %d, want %d", downloads, n, all, want)
		}
	}
}

func (o *overlay) heldNow() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.held)
}
