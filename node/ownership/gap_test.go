package ownership

import (
	"slices"
	"testing"
	"time"
)

// A home that was frozen may have been replaced meanwhile. It creates no host until the others have told it what they own.
func TestStoppedHomeHearsTheOthersFirst(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		hosts, own := s.hostsOf(2, 1, 2, 3), s.node(1).own
		begins := func(host string) bool {
			mine, err := own.Route(s.t.Context(), links(host, 0, 1))
			if err != nil {
				t.Fatal(err)
			}
			return len(mine) > 0
		}
		if !begins(hosts[0]) {
			t.Fatal("it does not begin a host of its own")
		}
		own.Stopped()
		if begins(hosts[1]) {
			t.Error("it begins a host that another node may own by now")
		}
		time.Sleep(3 * time.Second)
		if !begins(hosts[1]) {
			t.Error("it does not hear of the others")
		}
	})
}

// What a home was told counts only for the members of that time. A node that has just become the home of a host, without a replica or
// record of it, creates it only when all have told again what they own.
func TestNewHomeHearsTheOthersFirst(t *testing.T) {
	onStage(t, []int{1, 2, 3, 5}, func(s *stage) {
		host := s.hostOf(3, 1, 4, 2, 5)
		s.node(3).find(link(host, 0))
		s.hand(host, 3, 2)
		s.join(4) // all tell it what they own, and it has no part in the host
		time.Sleep(3 * s.cfg.TakeAfter)
		s.node(3).die() // the home
		s.node(1).die() // the witness
		s.forget(1, 3)
		s.node(4).find(link(host, 1))
		if owners := s.owners(host); !slices.Equal(owners, []int{2}) {
			t.Errorf("it is owned by %v", owners)
		}
		time.Sleep(time.Minute)
		s.mustHave(host, 2, 2, 4)
	})
}

// A node that has just become one that can be dialled is the home of more hosts, and sees that first itself. Owners that do not see it yet
// do not tell it those hosts, so it must not create them.
func TestHomeThatOthersDoNotSeeYet(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		see := func(at int, homes ...int) {
			own := s.node(at).own
			v := own.view()
			v.Homes = nil
			for _, home := range homes {
				v.Homes = append(v.Homes, idOf(home))
			}
			own.SetView(v)
		}
		for at := 1; at <= 4; at++ {
			see(at, 2, 3, 4)
		}
		host := s.hostOf(1, 2, 3, 4)
		time.Sleep(10 * time.Second)
		s.node(2).find(link(host, 0))
		s.hand(host, 2, 4)
		time.Sleep(10 * time.Second)
		see(1, 1, 2, 3, 4)
		time.Sleep(5 * time.Second)
		if mine, err := s.node(1).own.Route(s.t.Context(), links(host, 1, 2)); err != nil || len(mine) > 0 {
			t.Errorf("it begins %d links of a host that another node owns: %v", len(mine), err)
		}
		for at := 2; at <= 4; at++ {
			see(at, 1, 2, 3, 4)
		}
		time.Sleep(time.Minute)
		if owners := s.owners(host); !slices.Equal(owners, []int{4}) {
			t.Errorf("it is owned by %v", owners)
		}
	})
}
