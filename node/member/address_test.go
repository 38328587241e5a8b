package member

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/node/bell"
)

func TestAddressesOfNodes(t *testing.T) {
	for addr, want := range map[string]struct{ far, local bool }{
		"192.0.2.1:7947":                    {true, true},
		"[2001:db8::1]:7947":                {true, true},
		"10.0.0.1:1":                        {true, true},
		"node-1.example.org:7947":           {true, true},
		"az-09_.AZ.example:7947":            {true, true},
		strings.Repeat("a", 253) + ":65535": {true, true},
		"127.0.0.1:7947":                    {false, true},
		"[::1]:7947":                        {false, true},
		"[::ffff:127.0.0.1]:7947":           {false, true},
		"localhost:7947":                    {false, true},
		"LocalHost:7947":                    {false, true},
		"0.0.0.0:7947":                      {},
		"[::]:7947":                         {},
		"[::ffff:0.0.0.0]:7947":             {},
		"239.1.1.1:7947":                    {},
		"[ff02::1]:7947":                    {},
		"255.255.255.255:7947":              {},
		"192.0.2.1:0":                       {},
		"192.0.2.1:65536":                   {},
		"192.0.2.1":                         {},
		":7947":                             {},
		"a b:7947":                          {},
		"a\x00:7947":                        {},
		"a@b:7947":                          {},
		"a`b:7947":                          {}, // next to the letters
		"a{b:7947":                          {},
		"a/b:7947":                          {}, // next to the digits
		"a;b:7947":                          {},
		"192.0.2.1%25:7947":                 {},
		strings.Repeat("a", 254) + ":65535": {},
		"":                                  {},
	} {
		if err := checkAddr(addr, false); (err == nil) != want.far {
			t.Errorf("%q from afar: %v", addr, err)
		}
		if err := checkAddr(addr, true); (err == nil) != want.local {
			t.Errorf("%q on loopback: %v", addr, err)
		}
		if on := onLoopback(addr); want.local && on == want.far || addr == "" && on {
			t.Errorf("%q is on loopback: %v", addr, on)
		}
	}
}

// What a member says of its address is believed only where it can be true.
func TestMembersAtImpossibleAddresses(t *testing.T) {
	c := newClock(t)
	m := &Members{table: c.table, deps: Deps{ID: nodeID(0), PeerAddr: "192.0.2.9:7947", Now: time.Now}, wakeTend: bell.New()}
	d := delegate{m}
	at := func(ip string, port uint16) error {
		return d.NotifyAlive(&memberlist.Node{Name: nodeID(7), Addr: net.ParseIP(ip), Port: port})
	}
	if err := at("192.0.2.1", 7946); err != nil {
		t.Error(err)
	}
	for _, ip := range []string{"127.0.0.1", "0.0.0.0", "224.0.0.1", "::1", "::", "ff02::1", ""} {
		if err := at(ip, 7946); err == nil {
			t.Errorf("a member at %q", ip)
		}
	}
	if err := d.NotifyAlive(&memberlist.Node{Name: nodeID(0), Addr: net.IPv4zero}); err != nil {
		t.Errorf("this node, whose address others have to find out: %v", err)
	}
	if err := at("192.0.2.1", 0); err == nil {
		t.Error("a member at port 0")
	}
	m.deps.PeerAddr = "127.0.0.1:7947"
	if err := at("127.0.0.1", 7946); err != nil {
		t.Errorf("on loopback: %v", err)
	}
	m.deps.PeerAddr = "192.0.2.9:7947"
	for addr, want := range map[string]string{"192.0.2.1:7947": "192.0.2.1:7947", "127.0.0.1:22": ""} {
		id := nodeID(7)
		if want == "" {
			id = nodeID(8)
		}
		b := encode(nil, meta{boot: 1, addr: addr})
		d.NotifyJoin(&memberlist.Node{Name: id, Addr: net.IPv4(192, 0, 2, 1), Port: 7946, Meta: b})
		if r := m.table.members[id]; r == nil || r.addr != want || r.bad != (want == "") {
			t.Errorf("%s: %+v", addr, r)
		}
	}
}
