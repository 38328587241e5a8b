package testbed

import (
	"io"
	"net/netip"
	"strings"
	"testing"

	"proxima/cmd/proxima/fleet"
)

// Each set has a port of its own, up to the last that there is.
func TestEverySetHasAPort(t *testing.T) {
	for _, c := range []struct {
		port, sets int
		ok         bool
	}{{0, 1, false}, {1, 1, true}, {65535, 1, true}, {65535, 2, false}, {65534, 2, true}, {70000, 1, false}} {
		f := &fleetRun{FleetOptions: FleetOptions{Seeds: []string{"http://a.test/"}, SSH: fleet.SSH{Jobs: 1}, Sets: c.sets, Port: c.port}}
		if err := f.check(); (err == nil) != c.ok {
			t.Errorf("%d sets from port %d: %v", c.sets, c.port, err)
		}
	}
}

// A fleet goes on with the hosts of an earlier call, which may be too few for a scenario that was changed since.
func TestPlanNeedsHosts(t *testing.T) {
	f := &fleetRun{scenario: kept(t, "ci")}
	if _, err := f.plan("nearest", []fleet.Info{{Host: fleet.Host{Name: "a", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7")}}}}); err == nil || !strings.Contains(err.Error(), "1 host") {
		t.Errorf("a plan for one host: %v", err)
	}
}

// TestFleetRefuses says before anything is done what real machines cannot do.
func TestFleetRefuses(t *testing.T) {
	site := fleet.Host{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	for _, c := range []struct {
		scenario, want string
		sites          []fleet.Host
	}{
		{"length='9s'\n[[nodes]]\nname='a'\n[[nodes]]\nname='b'\n[[sites]]\n[[events]]\nkind='partition'\nnodes=['a']", "real machines do not support this", []fleet.Host{site}},
		{"[[nodes]]\n[[sites]]\ncount=2", "2 servers, but the list of sites has only 1 addresses", []fleet.Host{site}},
		{"[[nodes]]\n[[sites]]", "needs machines for sites, or seeds", nil},
	} {
		err := Fleet(t.Context(), parsed(t, c.scenario), FleetOptions{Sites: c.sites, Sets: 1, SSH: fleet.SSH{Jobs: 1}, Out: io.Discard})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
