package view

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

// TestAllOver: the crawl is over when another node has said so and none is alive that has not.
func TestAllOver(t *testing.T) {
	for _, c := range []struct {
		alive, over []string
		want        bool
	}{
		{[]string{"a"}, nil, false}, {[]string{"a", "b"}, nil, false}, {[]string{"a", "b"}, []string{"b"}, true}, {[]string{"a"}, []string{"b"}, true},
		{[]string{"a", "b", "c"}, []string{"b"}, false}, {[]string{"a", "b", "c"}, []string{"b", "c"}, true},
	} {
		v := View{Self: "a", Alive: slices.Clone(c.alive), Over: c.over}
		if got := v.AllOver(); got != c.want || !slices.Equal(v.Alive, c.alive) {
			t.Errorf("of %v it is over for %v: for all %v; alive are %v", c.alive, c.over, got, v.Alive)
		}
	}
}

// TestTooFew: where there are too few nodes, there is no home, no replica or no witness.
func TestTooFew(t *testing.T) {
	const host = "http://x.test"
	all := []string{"a", "b", "c"}
	for n, want := range []struct{ home, replica, witness bool }{{false, false, false}, {true, false, false}, {true, true, false}, {true, true, true}} {
		v := View{Self: "z", Settled: all[:n]}
		home, replica, witness := v.Home(host), v.Replica(host, "a"), v.Witness(host, "a")
		if (home != "") != want.home || (replica != "") != want.replica || (witness != "") != want.witness || home == v.Self {
			t.Errorf("of %d nodes %q is the home, %q has the replica, %q is the witness", n, home, replica, witness)
		}
	}
	if Digest([]string{"ab", "c"}) == Digest([]string{"a", "bc"}) {
		t.Error("other ids have the same digest")
	}
}

// TestReachNames: each reach comes back from its name, and no other name is one.
func TestReachNames(t *testing.T) {
	for name, want := range map[string]Reach{"direct": Direct, "streams": Streams, "outbound": Outbound} {
		if r, ok := ParseReach(name); r != want || !ok || r.String() != name {
			t.Errorf("%q is %v, %v", name, r, ok)
		}
	}
	if r, ok := ParseReach("unknown"); ok || (Outbound+1).String() != "unknown" {
		t.Errorf("%v, %v is unknown", r, ok)
	}
}

// While nodes are replaced one by one, those of two releases must draw the same nodes and see that their views are the same.
func TestReleasesAgree(t *testing.T) {
	const host, want = "http://www.x.test", "home a, replica d, witness b, grantor c, task d, digest ad9338b32cda24c1"
	v := View{Settled: []string{"a", "b", "c", "d"}}
	got := fmt.Sprintf("home %s, replica %s, witness %s, grantor %s, task %s, digest %x", v.Home(host), v.Replica(host, "a"),
		v.Witness(host, "a"), v.Grantor(netip.MustParseAddr("192.0.2.3")), v.Drawn("y"), v.Digest())
	if got != want {
		t.Errorf("now %s; in earlier releases %s", got, want)
	}
}

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

// A node whose links one custodian after the other does not take, as when their disks are full, asks all others in turn.
func TestAllOthersAreAskedToKeepLinks(t *testing.T) {
	v := View{Self: "b", Alive: []string{"a", "b", "c", "d", "e", "f"}}
	for _, peer := range []string{"c", "gone"} {
		last, asked := v.Custodian(peer), map[string]bool{}
		for range 5 {
			asked[last] = true
			last = v.Custodian(peer, last)
		}
		want := map[string]bool{"a": true, "c": true, "d": true, "e": true, "f": true}
		if delete(want, peer); fmt.Sprint(asked) != fmt.Sprint(want) {
			t.Errorf("links for %s are offered to %v, not to %v", peer, asked, want)
		}
	}
}

// The paths to a member are forgotten when it is gone, and again when it is not settled any more: until then it is asked whether it is idle.
func TestPathsToTheGoneAreForgotten(t *testing.T) {
	there := View{Alive: []string{"a", "b", "c"}, Settled: []string{"a", "b"}}
	dead := View{Alive: []string{"a"}, Settled: []string{"a", "b"}}
	gone := View{Alive: []string{"a"}, Settled: []string{"a"}}
	for i, c := range []struct {
		before, now View
		want        []string
	}{{there, there, nil}, {there, dead, []string{"b", "c"}}, {dead, dead, nil}, {dead, gone, []string{"b"}}, {gone, there, nil}, {there, View{Alive: there.Alive}, nil}} {
		if got := c.now.GoneSince(c.before); !slices.Equal(got, c.want) {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
}

// A host has no replica while the node that keeps it is dead, and no other is drawn in its place.
func TestHasReplica(t *testing.T) {
	const host = "http://a.test"
	all := []string{"a", "b", "c"}
	replica := (&View{Settled: all}).Replica(host, "a")
	third := map[string]string{"b": "c", "c": "b"}[replica]
	for what, c := range map[string]struct {
		settled, alive []string
		want           bool
	}{
		"all answer":       {all, all, true},
		"another is dead":  {all, []string{"a", replica}, true},
		"its node is dead": {all, []string{"a", third}, false},
		"another is drawn": {[]string{"a", third}, []string{"a", third}, true},
		"there is no node": {all[:1], all[:1], true},
	} {
		if v := (View{Self: "a", Settled: c.settled, Alive: c.alive}); v.HasReplica(host, "a") != c.want {
			t.Errorf("%s: %t", what, !c.want)
		}
	}
}
