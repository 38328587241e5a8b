package sites

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"proxima/fetch/resolve"
	"proxima/node/netsim"
)

func TestNameServer(t *testing.T) {
	d, err := NewDNS("127.0.0.1:0", map[string]netip.Addr{"www.s1.test": address(1)}, local())
	if err != nil {
		t.Fatal(err)
	}
	defer running(t, d.Run)()
	at := d.conn.LocalAddr().String()
	stray, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer stray.Close()
	stray.Write([]byte("no question"))
	for _, c := range []struct {
		name    string
		kind    uint16
		rcode   int
		answers int
	}{
		{"www.s1.test.", dns.TypeA, dns.RcodeSuccess, 1},
		{"WWW.s1.Test.", dns.TypeA, dns.RcodeSuccess, 1},
		{"www.s1.test.", dns.TypeAAAA, dns.RcodeSuccess, 0},
		{"s1.test.", dns.TypeA, dns.RcodeNameError, 0},
		{"nobody.test.", dns.TypeAAAA, dns.RcodeNameError, 0},
	} {
		m, _, err := (&dns.Client{Timeout: 30 * time.Second}).Exchange(new(dns.Msg).SetQuestion(c.name, c.kind), at)
		if err != nil {
			t.Fatal(err)
		}
		if m.Rcode != c.rcode || len(m.Answer) != c.answers || !m.Authoritative || len(m.Ns)+len(m.Answer) != 1 {
			t.Errorf("%s %s: %v", c.name, dns.TypeToString[c.kind], m)
		}
		if c.answers == 1 && !m.Answer[0].(*dns.A).A.Equal(address(1).AsSlice()) {
			t.Errorf("%s: %v", c.name, m.Answer)
		}
	}
}

// What it does not run, it closes; and a port that is taken is an error.
func TestNameServerThatNeverRuns(t *testing.T) {
	d, err := NewDNS("127.0.0.1:0", nil, local())
	if err != nil {
		t.Fatal(err)
	}
	at := d.conn.LocalAddr().String()
	if _, err := NewDNS(at, nil, local()); err == nil {
		t.Error("two servers at one port")
	}
	release(t, d.Run)
	again, err := NewDNS(at, nil, local())
	if err != nil {
		t.Fatalf("the port is not free: %v", err)
	}
	release(t, again.Run)
}

// The nodes' own resolver asks it over the portable emulation: one round trip, for unknown names, too.
func TestResolverOverThePortableEmulation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := netsim.New(func(a, b netip.Addr) time.Duration { return 10 * time.Millisecond })
		defer network.Close()
		var ends []*netsim.Endpoint
		for _, a := range []netip.Addr{address(53), address(60)} {
			e, err := network.Open(a)
			if err != nil {
				t.Fatal(err)
			}
			ends = append(ends, e)
		}
		d, err := NewDNS(address(53).String()+":53", map[string]netip.Addr{"www.s1.test": address(1)},
			Deps{ListenPacket: ends[0].ListenPacket})
		if err != nil {
			t.Fatal(err)
		}
		defer running(t, d.Run)()
		cfg := resolve.Default()
		cfg.Servers = []string{d.conn.LocalAddr().String()}
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
