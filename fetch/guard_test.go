package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestForbidden(t *testing.T) {
	for _, tc := range []struct {
		addr   string
		reason string // "" is allowed
	}{
		{"8.8.8.8", ""}, {"1.0.0.0", ""}, {"9.255.255.255", ""}, {"11.0.0.0", ""}, {"100.63.255.255", ""},
		{"100.128.0.0", ""}, {"126.255.255.255", ""}, {"128.0.0.0", ""}, {"172.15.255.255", ""}, {"172.32.0.0", ""},
		{"192.0.1.0", ""}, {"192.0.3.0", ""}, {"198.17.255.255", ""}, {"198.20.0.0", ""}, {"223.255.255.255", ""},
		{"168.63.129.15", ""}, {"169.253.255.255", ""}, {"203.0.112.255", ""},
		{"0.0.0.0", "this network"}, {"0.1.2.3", "this network"}, {"10.1.2.3", "private"}, {"100.64.0.1", "carrier"},
		{"100.127.255.255", "carrier"}, {"127.0.0.1", "loopback"}, {"127.255.255.255", "loopback"},
		{"169.254.169.254", "link local"}, {"168.63.129.16", "cloud"}, {"172.16.0.1", "private"}, {"172.31.255.255", "private"},
		{"192.0.0.8", "IETF"}, {"192.0.0.192", "IETF"}, {"192.0.2.1", "documentation"}, {"192.31.196.1", "AS112"},
		{"192.52.193.1", "AMT"}, {"192.88.99.1", "6to4"}, {"192.168.0.1", "private"}, {"192.175.48.1", "AS112"},
		{"198.18.0.1", "benchmarking"}, {"198.19.255.255", "benchmarking"}, {"198.51.100.7", "documentation"},
		{"203.0.113.9", "documentation"}, {"224.0.0.1", "multicast"}, {"239.255.255.255", "multicast"},
		{"240.0.0.1", "reserved"}, {"255.255.255.255", "reserved"},
		{"2606:4700::1111", ""}, {"2001:200::1", ""}, {"2a00:1450::1", ""}, {"2620:4f:7fff::1", ""},
		{"::", "not global"}, {"::1", "not global"}, {"::7f00:1", "not global"}, {"fc00::1", "not global"},
		{"fd00:ec2::254", "not global"}, {"fe80::1", "not global"}, {"fe80::1%eth0", "not global"}, {"fec0::1", "not global"},
		{"ff02::1", "not global"}, {"100::1", "not global"}, {"5f00::1", "not global"}, {"64:ff9b:1::808:808", "not global"},
		{"2001:db8::1", "documentation"}, {"3fff::1", "documentation"}, {"2001:2::1", "IETF"}, {"2001:1::1", "IETF"},
		{"2001:20::1", "IETF"}, {"2620:4f:8000::1", "AS112"},
		{"::ffff:8.8.8.8", ""}, {"::ffff:127.0.0.1", "loopback"}, {"::ffff:10.0.0.1", "private"},
		{"64:ff9b::8.8.8.8", ""}, {"64:ff9b::10.0.0.1", "NAT64 10.0.0.1"}, {"64:ff9b::169.254.169.254", "NAT64"},
		{"2002:808:808::1", ""}, {"2002:7f00:1::1", "6to4 127.0.0.1"}, {"2002:a00:1::", "6to4 10.0.0.1"},
		// Teredo: server 65.54.227.120, client the complement of the last 32 bits.
		{"2001:0:4136:e378:8000:63bf:3fff:fdd2", "Teredo client 192.0.2.45"},
		{"2001:0:4136:e378:8000:63bf:f7f7:f7f7", ""}, // 8.8.8.8
		{"2001:0:7f00:1:8000:63bf:f7f7:f7f7", "Teredo server 127.0.0.1"},
	} {
		reason, bad := isForbidden(netip.MustParseAddr(tc.addr))
		if bad != (tc.reason != "") || !strings.HasPrefix(reason, tc.reason) || !bad && reason != "" {
			t.Errorf("forbidden(%s) = %q, %v; want %q", tc.addr, reason, bad, tc.reason)
		}
	}
	if _, bad := isForbidden(netip.Addr{}); !bad {
		t.Error("the zero address passes")
	}
}

// known is a configuration that tells web masters who asks, and allows the prefixes, if any.
func known(allow string) Config {
	cfg := Default()
	cfg.Contact, cfg.From = "https://example.org/bot", "bot@example.org"
	if allow != "" {
		cfg.AllowPrefixes = []string{allow}
	}
	return cfg
}

// TestGuardOwn refuses this machine's addresses and networks, whatever form they have, save what the operator allows.
func TestGuardOwn(t *testing.T) {
	own := []netip.Prefix{
		netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("50.60.70.80/24"), netip.MustParsePrefix("8.8.4.4/32"),
		netip.MustParsePrefix("2a00:1450:0:5::7/64"), netip.MustParsePrefix("9.9.9.9/0"),
		netip.MustParsePrefix("2002:707:707:1::5/64"), // 6to4
	}
	for _, tc := range []struct {
		addr, allow, want string
	}{
		{"50.60.70.80", "", "this machine"},
		{"50.60.70.1", "", "on this machine's network 50.60.70.0/24"},
		{"50.60.70.255", "", "on this machine's network"},
		{"50.60.71.0", "", ""},
		{"8.8.4.4", "", "this machine"},
		{"8.8.4.5", "", ""},
		{"9.9.9.9", "", "this machine"},
		{"9.9.9.10", "", ""},
		{"2a00:1450:0:5::7", "", "this machine"},
		{"2a00:1450:0:5:1::9", "", "on this machine's network 2a00:1450:0:5::/64"},
		{"2a00:1450:0:6::9", "", ""},
		{"2a00:1450:0:5::7%eth0", "", "this machine"},
		{"::ffff:50.60.70.80", "", "this machine"},
		{"64:ff9b::50.60.70.80", "", "this machine"},
		{"64:ff9b::50.60.70.1", "", "on this machine's network 50.60.70.0/24"},
		{"64:ff9b::50.60.71.80", "", ""},
		{"2002:323c:4650::1", "", "this machine"},
		{"2002:707:707:1::5", "", "this machine"},
		{"2002:707:707:1::9", "", "on this machine's network 2002:707:707:1::/64"},
		{"2002:707:707:2::9", "", ""},
		{"2001:0:4136:e378:8000:63bf:cdc3:b9af", "", "this machine"}, // Teredo, 50.60.70.80
		{"127.0.0.1", "", "loopback"},
		{"50.60.70.80", "50.60.70.80/32", ""},
		{"50.60.70.81", "50.60.70.80/32", "on this machine's network"},
		{"50.60.70.81", "50.60.0.0/16", ""},
		{"2a00:1450:0:5::7", "2a00:1450:0:5::/64", ""},
	} {
		c := newClient(t, known(tc.allow), Deps{OwnAddrs: func() ([]netip.Prefix, error) { return own, nil }})
		class, err := c.Check(netip.MustParseAddr(tc.addr))
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s, allowed %q: %v", tc.addr, tc.allow, err)
		case tc.want != "" && (class != ForbiddenAddress || !strings.Contains(err.Error(), ": "+tc.want)):
			t.Errorf("%s, allowed %q: class %q, %v; want %q", tc.addr, tc.allow, class, err, tc.want)
		}
	}
}

// TestGuardOwnRefreshed sees an address come and go, and keeps what it knows while it cannot read.
func TestGuardOwnRefreshed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var own []netip.Prefix
		var broken error
		reads := 0
		cfg := known("")
		c := newClient(t, cfg, Deps{OwnAddrs: func() ([]netip.Prefix, error) { reads++; return own, broken }})
		look := func(want Class) {
			t.Helper()
			if class, err := c.Check(netip.MustParseAddr("50.60.70.80")); class != want {
				t.Errorf("after %d reads: class %q, %v; want %q", reads, class, err, want)
			}
		}
		look(OK)
		own = []netip.Prefix{netip.MustParsePrefix("50.60.70.1/24")}
		time.Sleep(59 * time.Second)
		look(OK)
		time.Sleep(time.Second)
		look(ForbiddenAddress)
		own, broken = nil, errTest
		time.Sleep(time.Minute)
		look(ForbiddenAddress)
		look(ForbiddenAddress)
		broken = nil
		time.Sleep(time.Minute)
		look(OK)
		if reads != 4 {
			t.Errorf("read %d times, want 4", reads)
		}
		if _, err := New(cfg, Deps{OwnAddrs: func() ([]netip.Prefix, error) { return nil, errTest }}); !errors.Is(err, errTest) {
			t.Errorf("a machine that cannot tell: %v", err)
		}
	})
}

func TestMachineAddrs(t *testing.T) {
	own, err := machineAddrs()
	all, _ := net.InterfaceAddrs()
	if err != nil || fmt.Sprint(own) != fmt.Sprint(all) || !slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr().IsLoopback() && p.Bits() > 0 }) {
		t.Errorf("%v, %v: not %v", own, err, all)
	}
}

var noContent = serve(0, answer("HTTP/1.1 204 No Content\r\n\r\n"))

// TestBadPorts dials none of the ports that browsers block, allowed prefix or not, and others.
func TestBadPorts(t *testing.T) {
	// The list of the Fetch standard, by its number of ports and their sum.
	count, sum := 0, 0
	for port := range 1 << 16 {
		if isBadPort(uint16(port)) {
			count, sum = count+1, sum+port
		}
	}
	if count != len(badPorts) || count != 83 || sum != 115595 {
		t.Errorf("%d ports with the sum %d", count, sum)
	}
	for _, tc := range []struct {
		url  string
		want Class
	}{
		{"http://a.example/", OK}, {"http://a.example:80/", OK}, {"http://a.example:8080/", OK}, {"http://a.example:443/", OK},
		{"http://a.example:6379/", OK}, {"http://a.example:65535/", OK},
		{"http://a.example:25/", ForbiddenPort}, {"http://a.example:22/", ForbiddenPort}, {"http://a.example:0/", ForbiddenPort},
		{"http://a.example:6667/", ForbiddenPort}, {"http://a.example:10080/", ForbiddenPort}, {"https://a.example:993/", ForbiddenPort},
		{"http://a.example:00025/", ForbiddenPort}, {"http://[::1]:25/", ForbiddenPort}, {"http://u:80@a.example:25/", ForbiddenPort},
	} {
		var conns open
		c := newClient(t, testConfig(), Deps{Dial: conns.count(noContent)})
		res := c.Get(t.Context(), Request{URL: tc.url, Addr: testAddr})
		if res.Class != tc.want || (conns.made.Load() > 0) != (tc.want == OK) {
			t.Errorf("%s: class %q, %d dials, %v; want %q", tc.url, res.Class, conns.made.Load(), res.Err, tc.want)
		}
	}
}

func FuzzForbidden(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{8, 8, 8, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		addr, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		_, bad := isForbidden(addr)
		v4 := addr.Unmap()
		if !bad && (v4.IsLoopback() || v4.IsPrivate() || v4.IsLinkLocalUnicast() || v4.IsMulticast() || v4.IsUnspecified()) {
			t.Fatalf("%v passes", addr)
		}
		if !v4.Is4() {
			return
		}
		four := v4.As4()
		mapped := netip.AddrFrom16(v4.As16())
		n64 := nat64.Addr().As16()
		copy(n64[12:], four[:])
		six := [16]byte{0x20, 0x02}
		copy(six[2:], four[:])
		for _, other := range []netip.Addr{mapped, netip.AddrFrom16(n64), netip.AddrFrom16(six)} {
			if _, b := isForbidden(other); b != bad {
				t.Fatalf("%v and %v differ", v4, other)
			}
		}
	})
}

func TestGuardIdentity(t *testing.T) {
	for _, tc := range []struct {
		addr     string
		identity bool
		allow    string
		want     Class
	}{
		{"8.8.8.8", false, "", NoIdentity},
		{"8.8.8.8", false, "0.0.0.0/0", NoIdentity},
		{"8.8.8.8", true, "", OK},
		{"127.0.0.1", true, "", ForbiddenAddress},
		{"127.0.0.1", false, "", ForbiddenAddress},
		{"127.0.0.1", false, "127.0.0.0/8", OK},
		{"::ffff:127.0.0.1", false, "127.0.0.0/8", OK},
		{"127.0.0.1", false, "::ffff:127.0.0.0/104", OK},
		{"127.0.0.1", false, "::ffff:0:0/96", OK},
		{"::ffc1:0:1", false, "::ffff:0:0/90", OK},
		{"127.0.0.1", false, "127.9.9.9/8", OK},
		{"127.0.0.1", false, "10.0.0.0/8", ForbiddenAddress},
		{"64:ff9b::127.0.0.1", false, "127.0.0.0/8", ForbiddenAddress},
		{"fe80::1%eth0", false, "fe80::/10", OK},
	} {
		cfg := known(tc.allow)
		if !tc.identity {
			cfg.Contact, cfg.From = "", ""
		}
		var conns open
		c := newClient(t, cfg, Deps{Dial: conns.count(noContent)})
		res := c.Get(t.Context(), Request{URL: "http://example.org/", Addr: netip.MustParseAddr(tc.addr)})
		if res.Class != tc.want || (conns.made.Load() > 0) != (tc.want == OK) {
			t.Errorf("%+v: class %q, err %v, %d dials", tc, res.Class, res.Err, conns.made.Load())
		}
	}
}

// remote is a connection that claims to have reached an address.
type remote struct {
	*link
	addr net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.addr }

func TestGuardLooksAtRemote(t *testing.T) {
	var conns open
	c := newClient(t, testConfig(), Deps{Dial: conns.count(func(context.Context, string, string) (net.Conn, error) {
		near, _ := newLink(0)
		return remote{near, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80}}, nil
	})})
	if res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr}); res.Class != ForbiddenAddress || conns.Load() != 0 {
		t.Errorf("class %q, err %v, %d connections are open", res.Class, res.Err, conns.Load())
	}
}
