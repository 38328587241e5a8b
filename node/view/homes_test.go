package view

import (
	"fmt"
	"slices"
	"testing"
)

// TestHomes: homes, replicas and witnesses are drawn from those that can be dialled, and from others only where these are too few.
func TestHomes(t *testing.T) {
	all := []string{"a", "b", "c", "d", "e"}
	v := View{Self: "a", Settled: all, Homes: []string{"a", "c", "e"}}
	few := View{Self: "a", Settled: all, Homes: []string{"c"}}
	plain := View{Self: "a", Settled: all}
	owned := 0
	for i := range 200 {
		host := fmt.Sprintf("http://h%d.test", i)
		for _, owner := range all {
			home, replica, witness := v.Home(host), v.Replica(host, owner), v.Witness(host, owner)
			for _, id := range []string{home, replica} {
				if !slices.Contains(v.Homes, id) {
					t.Fatalf("%s of %s has home %s, replica %s, witness %s", host, owner, home, replica, witness)
				}
			}
			if replica == owner || witness == owner || replica == witness || witness == "" {
				t.Fatalf("%s of %s has replica %s, witness %s", host, owner, replica, witness)
			}
			if home != owner && replica != home {
				t.Fatalf("%s of %s has home %s, and replica %s", host, owner, home, replica)
			}
			if r := few.Replica(host, owner); few.Home(host) != "c" || owner != "c" && r != "c" || r == owner || r == "" {
				t.Fatalf("with one that can be dialled, %s of %s has replica %s", host, owner, r)
			}
		}
		if plain.Home(host) != v.Home(host) {
			owned++
		}
	}
	if owned == 0 {
		t.Error("without the others' share nothing moves")
	}
	if v.Digest() == plain.Digest() || v.Same(&plain) || v.Digest() == few.Digest() {
		t.Error("views that others draw from look alike")
	}
	if same := (View{Settled: all, Homes: all}); same.Digest() != plain.Digest() || !same.Same(&plain) {
		t.Error("views that draw from all differ")
	}
}
