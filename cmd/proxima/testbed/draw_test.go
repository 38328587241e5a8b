package testbed

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxima/assign"
	"proxima/cmd/proxima/world"
	"proxima/frontier/identity"
	"proxima/ncoord"
)

func draw(t *testing.T, s Scenario, seed uint64) *Plan {
	t.Helper()
	s.Seed = seed
	m, err := s.matrix()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Draw(s, m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDrawingDependsOnTheSeedAlone(t *testing.T) {
	s := kept(t, "demo")
	opts := cmp.Options{cmp.AllowUnexported(PlannedNode{}, PlannedServer{}), cmpopts.EquateComparable(netip.Addr{})}
	a, b, c := draw(t, s, 3), draw(t, s, 3), draw(t, s, 4)
	if diff := cmp.Diff(a, b, opts); diff != "" {
		t.Errorf("the same seed draws:\n%s", diff)
	}
	if cmp.Equal(a.Nodes, c.Nodes, opts) || cmp.Equal(a.Servers, c.Servers, opts) || cmp.Equal(a.RTTMs, c.RTTMs) {
		t.Error("another seed draws the same")
	}
}

// One more site must not change the nodes: runs of scenarios that differ in their sites are then comparable.
func TestSitesDoNotChangeNodes(t *testing.T) {
	s := kept(t, "ci")
	before := draw(t, s, 1)
	s.Sites = append(s.Sites, s.Sites[0])
	opts := cmp.Options{cmp.AllowUnexported(PlannedNode{}), cmpopts.EquateComparable(netip.Addr{})}
	if diff := cmp.Diff(before.Nodes, draw(t, s, 1).Nodes, opts); diff != "" {
		t.Error(diff)
	}
}

// TestServersHaveNamesOfTheirOwn: a server without a name does not take one that the scenario gives to another.
func TestServersHaveNamesOfTheirOwn(t *testing.T) {
	s := parsed(t, "[[nodes]]\n[[sites]]\ncount=2\n[[sites]]\nname='s1'")
	real := &Plan{Scenario: s} // on machines with these addresses
	if err := real.addServers(nil, []netip.Addr{nth(serverBase, 1), nth(serverBase, 2), nth(serverBase, 3)}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Plan{draw(t, s, 1), real} {
		seen := map[string]bool{}
		for _, server := range p.Servers {
			if seen[server.Name] {
				t.Errorf("two servers are called %s", server.Name)
			}
			seen[server.Name] = true
		}
	}
}

func TestPlansHoldTogether(t *testing.T) {
	all, err := List()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		p := draw(t, s, s.Seed)
		addrs, names := map[netip.Addr]bool{nameServer: true}, map[string]bool{}
		var ids []string
		for i, n := range p.Nodes {
			if addrs[n.Addr] || names[n.Name] || len(n.ID) != 32 || ServerPrefix.Contains(n.Addr) {
				t.Errorf("%s: node %+v", s.Name, n)
			}
			addrs[n.Addr], names[n.Name] = true, true
			ids = append(ids, n.ID)
			if n.Up <= 0 || n.Down <= 0 || n.LoadMs != 0 {
				t.Errorf("%s: node %s: bandwidth %v and %v, load %v", s.Name, n.Name, n.Up, n.Down, n.LoadMs)
			}
			for j := range p.Nodes {
				if rtt := p.NodeRTTMs[i][j]; rtt != p.NodeRTTMs[j][i] || (rtt == 0) != (i == j) || rtt != p.rtt(i, j) {
					t.Errorf("%s: %v ms between nodes %d and %d", s.Name, rtt, i, j)
				}
			}
			for k := range p.Servers {
				if rtt := p.RTTMs[i][k]; rtt <= 0 || rtt > 1000 || rtt != p.rtt(len(p.Nodes)+k, i) {
					t.Errorf("%s: %v ms between node %d and server %d", s.Name, rtt, i, k)
				}
			}
		}
		for _, server := range p.Servers {
			if addrs[server.Addr] || !ServerPrefix.Contains(server.Addr) || len(server.Hosts) != server.Site.Hosts || server.ThinkMs <= 0 {
				t.Errorf("%s: server %+v", s.Name, server)
			}
			addrs[server.Addr] = true
			for _, h := range server.Hosts {
				if names[h] {
					t.Errorf("%s: the host %s is there twice", s.Name, h)
				}
				names[h] = true
				home := assign.Rendezvous(identity.RegistrableDomain(h), ids)
				for _, n := range p.Nodes {
					if n.Name == s.Home && n.ID != home {
						t.Errorf("%s: %s has its home elsewhere", s.Name, h)
					}
				}
			}
		}
	}
}

// A measured matrix has other cities than the scenarios name.
func TestPlacesThatTheMatrixDoesNotHave(t *testing.T) {
	s := parsed(t, "[[nodes]]\ncities=['Paris']\n[[sites]]\ncities=['Japan', 'Tokyo', 'Seoul', 'Lyon']")
	m := &world.Matrix{Cities: []world.City{
		{Name: "Osaka", Country: "Nippon", At: &ncoord.Location{Lat: 34.7, Lon: 135.5}},
		{Name: "Lyon", Country: "France", At: &ncoord.Location{Lat: 45.8, Lon: 4.8}},
	}, RTT: [][]float64{{1, 200}, {200, 1}}}
	p, err := Draw(s, m)
	if err != nil {
		t.Fatal(err)
	}
	if p.Nodes[0].City != "Lyon" || p.Servers[0].City != "Osaka" && p.Servers[0].City != "Lyon" {
		t.Errorf("the node is in %s, the server in %s", p.Nodes[0].City, p.Servers[0].City)
	}
	s.Nodes[0].Cities = []string{"Atlantis"}
	if _, err := Draw(s, m); err == nil || !strings.Contains(err.Error(), `nodes[0].cities: "Atlantis" is`) {
		t.Errorf("a place that is nowhere: %v", err)
	}
}

// nth stays within its block of addresses.
func TestAddresses(t *testing.T) {
	for n, want := range map[int]string{1: "198.18.0.1", 255: "198.18.0.255", 256: "198.18.1.0", maxServers: "198.18.39.16"} {
		if got := nth(nodeBase, n); got != netip.MustParseAddr(want) {
			t.Errorf("%d: %v, want %s", n, got, want)
		}
	}
}

// Each server has its own address. The first 254 servers also have their own networks.
func TestServerAddresses(t *testing.T) {
	addrs, networks := map[netip.Addr]bool{nameServer: true}, map[netip.Prefix]bool{}
	for n := 1; n <= maxServers; n++ {
		a := serverAddr(n)
		if addrs[a] || !ServerPrefix.Contains(a) {
			t.Fatalf("server %d is at %s", n, a)
		}
		addrs[a] = true
		if p := assign.Network(a); n < 255 && networks[p] {
			t.Fatalf("server %d shares %s", n, p)
		} else {
			networks[p] = true
		}
	}
}
