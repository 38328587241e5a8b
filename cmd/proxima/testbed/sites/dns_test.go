package sites

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"proxima/fetch/resolve"
	"proxima/node/netsim"
)

// named runs a test with a name server on loopback.
func named(t *testing.T, names map[string][]netip.Addr, test func(d *DNS)) {
	t.Helper()
	d, err := NewDNS(DNSConfig{Listen: "127.0.0.1:0", Names: names}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	defer running(t, d.Run)()
	test(d)
}

func TestNameServer(t *testing.T) {
	six := netip.MustParseAddr("2001:db8::7")
	var many []netip.Addr
	for i := range 100 {
		many = append(many, address(i))
	}
	named(t, map[string][]netip.Addr{"www.s1.test": {address(1), six}, "Many.test": many}, func(d *DNS) {
		for _, c := range []struct {
			network, name string
			kind          uint16
			rcode         int
			answers       int
			truncated     bool
		}{
			{"udp", "www.s1.test.", dns.TypeA, dns.RcodeSuccess, 1, false},
			{"tcp", "www.s1.test.", dns.TypeA, dns.RcodeSuccess, 1, false},
			{"udp", "WWW.s1.Test.", dns.TypeA, dns.RcodeSuccess, 1, false},
			{"udp", "www.s1.test.", dns.TypeAAAA, dns.RcodeSuccess, 1, false},
			{"udp", "www.s1.test.", dns.TypeMX, dns.RcodeSuccess, 0, false},
			{"tcp", "many.test.", dns.TypeAAAA, dns.RcodeSuccess, 0, false},
			{"tcp", "many.test.", dns.TypeA, dns.RcodeSuccess, 100, false},
			{"udp", "many.test.", dns.TypeA, dns.RcodeSuccess, 30, true},
			{"udp", "s1.test.", dns.TypeA, dns.RcodeNameError, 0, false},
			{"tcp", "nobody.test.", dns.TypeAAAA, dns.RcodeNameError, 0, false},
		} {
			t.Run(fmt.Sprintf("%s %s %s", c.network, c.name, dns.TypeToString[c.kind]), func(t *testing.T) {
				q := new(dns.Msg).SetQuestion(c.name, c.kind)
				m, _, err := (&dns.Client{Net: c.network, Timeout: 30 * time.Second}).Exchange(q, d.packets.LocalAddr().String())
				if err != nil {
					t.Fatal(err)
				}
				if m.Rcode != c.rcode || len(m.Answer) != c.answers || m.Truncated != c.truncated || !m.Authoritative {
					t.Errorf("%s, %d answers, truncated %v, authoritative %v", dns.RcodeToString[m.Rcode], len(m.Answer), m.Truncated, m.Authoritative)
				}
				if negative := len(m.Ns) == 1; negative != (c.answers == 0) {
					t.Errorf("authority: %v", m.Ns)
				}
				for _, a := range m.Answer {
					switch a := a.(type) {
					case *dns.A:
						if got, _ := netip.AddrFromSlice(a.A.To4()); c.answers == 1 && got != address(1) {
							t.Errorf("got %v", a)
						}
					case *dns.AAAA:
						if got, _ := netip.AddrFromSlice(a.AAAA); got != six {
							t.Errorf("got %v", a)
						}
					}
				}
			})
		}
	})
}

// What it does not run, it closes; and a port that is taken is an error.
func TestNameServerThatNeverRuns(t *testing.T) {
	d, err := NewDNS(DNSConfig{Listen: "127.0.0.1:0"}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	at := d.packets.LocalAddr().String()
	if _, err := NewDNS(DNSConfig{Listen: at}, Deps{}); err == nil {
		t.Error("two servers at one port")
	}
	release(t, d.Run)
	again, err := NewDNS(DNSConfig{Listen: at}, Deps{})
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	release(t, again.Run)
}

// Any port means one that streams find free, of which there are fewer: packets follow.
func TestNameServerAtAnyPort(t *testing.T) {
	var asked string
	d, err := NewDNS(DNSConfig{Listen: "127.0.0.1:0"}, Deps{ListenPacket: func(network, address string) (net.PacketConn, error) {
		asked = address
		return net.ListenPacket(network, address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if at := d.packets.LocalAddr().String(); asked != at || strings.HasSuffix(at, ":0") {
		t.Errorf("packets were to come to %s, and come to %s", asked, at)
	}
	release(t, d.Run)
}

// The nodes' own resolver asks it over the portable emulation: one round trip, for unknown names, too.
func TestResolverOverThePortableEmulation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := netsim.New(func(a, b netip.Addr) time.Duration { return 10 * time.Millisecond })
		defer network.Close()
		var ends []*netsim.Endpoint
		for _, a := range []netip.Addr{address(53), address(60)} {
			if err := network.Add(a, 0, 0); err != nil {
				t.Fatal(err)
			}
			e, err := network.Open(a)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, e)
		}
		d, err := NewDNS(DNSConfig{Listen: address(53).String() + ":53", Names: map[string][]netip.Addr{"www.s1.test": {address(1)}}},
			Deps{Listen: ends[0].Listen, ListenPacket: ends[0].ListenPacket})
		if err != nil {
			t.Fatal(err)
		}
		defer running(t, d.Run)()
		cfg := resolve.Default()
		cfg.Servers = []string{d.packets.LocalAddr().String()}
		r, err := resolve.New(cfg, resolve.Deps{Dial: ends[1].DialContext})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			ok   bool
		}{{"www.s1.test", true}, {"www.s2.test", false}} {
			begin := time.Now()
			got, err := r.Lookup(t.Context(), c.name)
			if (err == nil) != c.ok || c.ok && (len(got.Addrs) != 1 || got.Addrs[0] != address(1)) {
				t.Errorf("%s: %v, %v", c.name, got, err)
			}
			if took := time.Since(begin); took != 20*time.Millisecond {
				t.Errorf("%s took %v", c.name, took)
			}
		}
		r.Close()
	})
}
