package node

import (
	"fmt"
	"testing"

	"proxima/node/member"
	"proxima/node/view"
)

// A node whose links one custodian after the other does not take, as when their disks are full, asks all others in turn.
func TestAllOthersAreAskedToKeepLinks(t *testing.T) {
	o := &overlay{node: &Node{id: ID{Node: "b"}}, view: member.View{View: view.View{Alive: []string{"a", "b", "c", "d", "e", "f"}}}}
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
