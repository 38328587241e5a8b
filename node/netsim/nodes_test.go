package netsim_test

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/cmd/proxima/testbed/sites"
	"proxima/frontier/identity"
	"proxima/node"
	"proxima/node/netsim"
)

// Whole nodes crawl a web over the emulation, with names asked by DNS, gossip and the peer protocol on the same links: every page
// once, one request at a time for each server.
func TestNodesCrawlOverIt(t *testing.T) {
	const nodes, hosts, pages = 3, 4, 12
	synctest.Test(t, func(t *testing.T) {
		at := func(kind, i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(kind), byte(i + 1)}) }
		network := netsim.New(func(a, b netip.Addr) time.Duration {
			return time.Duration(10+(int(a.As4()[3])*7+int(b.As4()[3])*7)%20) * time.Millisecond
		})
		open := func(up, down float64, addrs ...netip.Addr) *netsim.Endpoint {
			for _, a := range addrs {
				if err := network.Add(a, up, down); err != nil {
					t.Fatal(err)
				}
			}
			e, err := network.Open(addrs...)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		run := func(what string, f func(context.Context) error) {
			all.Go(func() {
				if err := f(ctx); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		web := sites.Config{Seed: 1}
		names := map[string][]netip.Addr{}
		var servers []netip.Addr
		for i := range hosts {
			s := sites.Site{Host: fmt.Sprintf("www.site%d.test", i), Addr: at(1, i/2), Pages: pages, Think: 20 * time.Millisecond,
				Content: sites.DefaultContent()}
			web.Sites, names[s.Host] = append(web.Sites, s), []netip.Addr{s.Addr}
			if i%2 == 0 {
				servers = append(servers, s.Addr)
			}
		}
		w, err := sites.New(web, sites.Deps{Listen: open(12_500, 0, servers...).Listen})
		if err != nil {
			t.Fatal(err)
		}
		run("sites", w.Run)
		dns := open(0, 0, at(2, 0))
		d, err := sites.NewDNS(sites.DNSConfig{Listen: at(2, 0).String() + ":53", Names: names},
			sites.Deps{Listen: dns.Listen, ListenPacket: dns.ListenPacket})
		if err != nil {
			t.Fatal(err)
		}
		run("DNS", d.Run)

		dir := t.TempDir()
		secret := filepath.Join(dir, "secret")
		if err := node.Keygen(secret); err != nil {
			t.Fatal(err)
		}
		var seeds []identity.URL
		for _, front := range w.Fronts() {
			u, err := identity.Parse(front)
			if err != nil {
				t.Fatal(err)
			}
			seeds = append(seeds, u)
		}
		var crawl sync.WaitGroup
		for i := range nodes {
			e := open(2500, 2500, at(3, i))
			gossip, err := e.Gossip(7946)
			if err != nil {
				t.Fatal(err)
			}
			c := node.Default()
			// A path too long for a socket: a listener of the system is nothing that a bubble waits for.
			c.Node.Data = filepath.Join(dir, fmt.Sprint(i), strings.Repeat("long", 30))
			c.Crawl.Fetchers, c.Crawl.Resolvers = 8, 2
			c.Node.MemoryMiB, c.Frontier.MinFreeMiB = 64, 0
			c.Fetch.AllowPrefixes = []string{"198.18.0.0/15"}
			c.Fetch.DNS.Servers = []string{d.Addr().String()}
			c.Politeness.Own = []string{"198.18.0.0/15"}
			c.Politeness.OwnGap = 500 * time.Millisecond
			c.Peer.Secret, c.Peer.Listen = secret, at(3, i).String()+":7947"
			c.Member.Bind = at(3, i).String() + ":7946"
			c.Member.Join = []string{at(3, 0).String() + ":7946"}
			c.Termination.ExpectedNodes = nodes
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			var own []identity.URL
			if i == nodes-1 {
				own = seeds
			}
			n, err := node.New(c, own, node.Deps{Dial: e.DialContext, DialDNS: e.DialContext, Listen: e.Listen, DialPeer: e.DialContext,
				Gossip: gossip, FreeBytes: func() (uint64, error) { return 1 << 40, nil }})
			if err != nil {
				t.Fatal(err)
			}
			crawl.Go(func() {
				if end, err := n.Run(ctx); err != nil || end.Reason != "idle" {
					t.Errorf("node %d: %s, %v", i, end.Reason, err)
				}
			})
		}
		crawl.Wait()
		requests := map[string]int{}
		for addr, visits := range w.Visits() {
			for i, v := range visits {
				requests[v.URL]++
				if i > 0 && v.Begin.Sub(visits[i-1].End) < 490*time.Millisecond {
					t.Errorf("%v: a request came %v after the end of the one before it", addr, v.Begin.Sub(visits[i-1].End))
				}
			}
		}
		for u := range w.URLs() {
			if requests[u] != 1 {
				t.Errorf("%s: %d requests", u, requests[u])
			}
		}
		t.Logf("%d URLs were requested, %+v", len(requests), network.Stats())
		stop()
		all.Wait()
		if err := network.Close(); err != nil {
			t.Error(err)
		}
	})
}
