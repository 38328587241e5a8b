package node

import (
	"fmt"
	"slices"
	"testing"

	"proxima/node/view"
)

// A node whose links one custodian after the other does not take, as when their disks are full, asks all others in turn.
func TestAllOthersAreAskedToKeepLinks(t *testing.T) {
	o := &overlay{node: &Node{id: ID{Node: "b"}}, view: view.View{Alive: []string{"a", "b", "c", "d", "e", "f"}}}
	for _, peer := range []string{"c", "gone"} {
		last, asked := o.custodian(peer), map[string]bool{}
		for range 5 {
			asked[last] = true
			last = o.custodian(peer, last)
		}
		want := map[string]bool{"a": true, "c": true, "d": true, "e": true, "f": true}
		if delete(want, peer); fmt.Sprint(asked) != fmt.Sprint(want) {
			t.Errorf("links for %s are offered to %v, not to %v", peer, asked, want)
		}
	}
}

// The paths to a member are forgotten when it is gone, and again when it is not settled any more: until then it is asked whether it is idle.
func TestPathsToTheGoneAreForgotten(t *testing.T) {
	there := view.View{Alive: []string{"a", "b", "c"}, Settled: []string{"a", "b"}}
	dead := view.View{Alive: []string{"a"}, Settled: []string{"a", "b"}}
	gone := view.View{Alive: []string{"a"}, Settled: []string{"a"}}
	for i, c := range []struct {
		before, now view.View
		want        []string
	}{{there, there, nil}, {there, dead, []string{"b", "c"}}, {dead, dead, nil}, {dead, gone, []string{"b"}}, {gone, there, nil}, {there, view.View{Alive: there.Alive}, nil}} {
		if got := goneSince(c.before, c.now); !slices.Equal(got, c.want) {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}
