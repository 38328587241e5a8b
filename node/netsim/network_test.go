package netsim

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
)

// Several fetchers of a node may be the first to dial from its host.
func TestEnterAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(func(_, _ netip.Addr) time.Duration { return 0 })
		defer n.Close()
		for k := range 500 {
			var g errgroup.Group
			for range 8 {
				g.Go(func() error {
					_, err := n.Enter(Place(k))
					return err
				})
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
