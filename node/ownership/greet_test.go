package ownership

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// One node sees another later than the third does. What the third told it meanwhile was about other members. So it must be told again,
// or it would wait for Config.Collect.
func TestHomesThatSeeLateBeginSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 3, 60, 1)
		ctx, cancel := context.WithCancel(t.Context())
		w.cut[[2]int{1, 2}], w.cut[[2]int{2, 1}] = true, true
		for _, a := range w.nodes {
			a.paused = true
			a.start()
		}
		go w.watch(ctx)
		time.Sleep(4 * time.Second)
		w.mu.Lock()
		clear(w.cut)
		w.mu.Unlock()
		time.Sleep(6 * time.Second)
		for _, a := range w.nodes {
			for _, host := range w.hosts {
				if a.owner.HomeOf(host) != a.id {
					continue
				}
				mine, err := a.owner.Route(ctx, []frontier.Link{{URL: identity.URL{Host: host, Path: path(0)}}})
				if err != nil {
					t.Fatal(err)
				}
				if len(mine) == 0 {
					t.Errorf("node %d does not know yet who owns hosts of its own", a.at)
				}
				break
			}
		}
		cancel()
		for _, a := range w.nodes {
			a.kill(false)
		}
	})
}

// A member that is not settled yet is the home of nothing, so nobody renews with it.
func TestNobodyRenewsWithANewcomer(t *testing.T) {
	onStage(t, []int{1, 2}, func(s *stage) {
		own := s.node(1).own
		v := own.view()
		v.Alive = append(slices.Clone(v.Alive), idOf(3))
		own.SetView(v)
		own.mu.Lock()
		defer own.mu.Unlock()
		if due := own.dueLocked(); len(due) > 0 {
			t.Errorf("it renews with %v", due)
		}
	})
}
