package node_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node"
	"proxima/node/member"
	"proxima/node/netsim"
	"proxima/node/ownership"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// point is a place on a plane whose distances are round trips in ms; access comes on top at both ends, in ms.
type point struct{ x, y, access float64 }

// trip is the round trip between two places. Every way is a detour of up to a quarter: no plane fits them all.
func (p point) trip(q point) time.Duration {
	_, detour := math.Modf(math.Abs(math.Sin(p.x*q.x+p.y*q.y)+p.x+q.x+p.y+q.y) * 7)
	ms := 1 + math.Hypot(p.x-q.x, p.y-q.y)*(1+detour/4) + p.access + q.access
	return time.Duration(ms * float64(time.Millisecond))
}

// bed is an overlay of whole nodes in a bubble: real stores, and two networks in memory. Gossip and the peer protocol
// take half a round trip one way; the web is reached over each node's own paths.
type bed struct {
	*Web
	t       *testing.T
	cfg     func(i int, c *node.Config) // changes a node's configuration before it starts
	seeds   func(i int) []string        // a node's seeds; nil gives all front pages to the last one
	net     *netsim.Network             // of gossip and the peer protocol
	nodes   []*bedNode
	names   nameServer                          // asked for names that are no site's, or that Fetch.DNS.Hosts lacks
	six     func(i int) bool                    // nodes whose address is of IPv6
	moved   map[int]int                         // nodes that are at the address of another place
	early   func()                              // called before the last node starts
	free    func(i int)                         // called when a node asks for the free space of its disk
	shield  map[int][2]bool                     // nodes that no connection, or no datagram, of others gets in to
	barred  func(i int, server netip.Addr) bool // servers that a node cannot reach
	guests  []func()                            // end those that are no nodes
	known   []Visit                             // of robots.txt files, by earlier lives in another bubble
	servers map[netip.Addr]point
	sites   []string
	secret  string
	dir     string
	began   time.Time
}

// bedNode is one place of the overlay, whatever lives it has.
type bedNode struct {
	at   point
	rate atomic.Int64 // bytes a second of its access
	dead atomic.Bool  // off all networks
	mute atomic.Bool  // dials no peer
	full atomic.Int64 // MiB that are free on its disk; 0 for a TiB
	jump atomic.Int64 // how far its wall clock was set
	stop context.CancelFunc
	done chan struct{} // closed when its life has ended
	end  node.End
	err  error
	node *node.Node
	here *netsim.Endpoint
}

func (b *bed) name(i int) string { return fmt.Sprintf("n%d", i) }

// place is the address of a node.
func (b *bed) place(i int) netip.Addr {
	if at, ok := b.moved[i]; ok {
		i = at
	}
	if b.six != nil && b.six(i) {
		return netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 14: byte(i >> 8), 15: byte(i)})
	}
	return netsim.Place(i)
}

func (b *bed) gossipAt(i int) string {
	return netip.AddrPortFrom(b.place(i), netsim.GossipPort).String()
}

// inBed runs a test with nodes at some points. They start when the test says so.
func inBed(t *testing.T, at []point, test func(b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		web, err := NewWeb()
		must(t, err)
		defer web.Close()
		b := &bed{Web: web, t: t, servers: map[netip.Addr]point{}, dir: t.TempDir(), began: time.Now()}
		places := append(slices.Clone(at), point{100, 60, 1}) // one more than nodes: somebody may come uninvited
		b.net = netsim.New(func(from, to netip.Addr) time.Duration {
			return places[netsim.PlaceOf(from)].trip(places[netsim.PlaceOf(to)]) / 2
		})
		defer b.net.Close() //nolint:errcheck // it has none
		for i, p := range at {
			b.nodes = append(b.nodes, &bedNode{at: p})
			b.nodes[i].rate.Store(2e6)
		}
		b.secret = filepath.Join(b.dir, "secret")
		must(t, peer.Keygen(b.secret))
		defer func() {
			b.stopAll()
			time.Sleep(time.Minute) // until the last timers of memberlist have run out
			for _, end := range b.guests {
				end()
			}
		}()
		test(b)
		judge(t, append(b.known, b.Visits(nil)...), 0, false)
	})
}

// site adds a site of n pages besides its front page, at a point.
func (b *bed) site(name, addr string, at point, n, weight int) {
	b.servers[netip.MustParseAddr(addr)] = at
	b.Site(name, addr).Took(20 * time.Millisecond).Weight(weight).Pages(n)
	b.sites = append(b.sites, name)
}

// sitesBeside adds sites s0.example, s1.example and so on, of n pages besides their front pages, each beside a node.
func (b *bed) sitesBeside(sites, n, weight int) {
	for i := range sites {
		b.site(fmt.Sprintf("s%d.example", i), address(i), beside(b.nodes[i%len(b.nodes)].at), n, weight)
	}
}

func (b *bed) path(i int) func(netip.Addr) Path {
	return func(server netip.Addr) Path {
		n := b.nodes[i]
		return Path{RTT: n.at.trip(b.servers[server]), Rate: float64(n.rate.Load())}
	}
}

// config is that of a node.
func (b *bed) config(i int) node.Config {
	c := small(filepath.Join(b.dir, b.name(i)))
	c.Crawl.Fetchers = 8
	c.Fetch.DNS.Hosts = b.Names()
	c.Peer.Secret, c.Peer.Listen = b.secret, netip.AddrPortFrom(b.place(i), 7947).String()
	c.Member.Bind = b.gossipAt(i)
	if i > 0 {
		c.Member.Join = []string{b.gossipAt(0)}
	} else if len(b.nodes) > 1 && b.nodes[1].node != nil {
		c.Member.Join = []string{b.gossipAt(1)}
	}
	c.Termination.ExpectedNodes = len(b.nodes)
	if b.cfg != nil {
		b.cfg(i, &c)
	}
	if errs := c.Validate(); errs != nil {
		b.t.Fatal(errs)
	}
	return c
}

// enter begins a life at a place of the network.
func (b *bed) enter(i int) *netsim.Gossip {
	b.t.Helper()
	here, err := b.net.Open(b.place(i))
	must(b.t, err)
	gossip, err := here.Gossip(netsim.GossipPort)
	must(b.t, err)
	if i < len(b.nodes) {
		b.nodes[i].here = here
	}
	if s, ok := b.shield[i]; ok {
		b.net.Shield(b.place(i), s[0], s[1])
	}
	return gossip
}

// start begins a life of a node.
func (b *bed) start(i int) {
	b.t.Helper()
	c, n, name := b.config(i), b.nodes[i], b.name(i)
	id := filepath.Join(c.Node.Data, "node.json")
	if _, err := os.Stat(id); err != nil { // ids in the order of the places
		must(b.t, os.MkdirAll(c.Node.Data, 0o700))
		must(b.t, os.WriteFile(id, fmt.Appendf(nil, `{"v":1,"node":%q,"boot":0}`, netsim.ID(i)), 0o600))
	}
	n.dead.Store(false)
	b.Cut(name, false)
	gossip := b.enter(i)
	deps := node.Deps{
		Dial:    b.barring(i, b.From(name, b.path(i))),
		DialDNS: b.names.dial,
		FreeBytes: func() (uint64, error) {
			if b.free != nil {
				b.free(i)
			}
			return cmp.Or(uint64(n.full.Load())<<20, 1<<40), nil
		},
		Listen: n.here.Listen,
		DialPeer: func(ctx context.Context, network, address string) (net.Conn, error) {
			if n.mute.Load() {
				return nil, errors.New("no route to host")
			}
			return n.here.DialContext(ctx, network, address)
		},
		Gossip: gossip,
		Jump:   func() time.Duration { return time.Duration(n.jump.Load()) },
		Config: func() (node.Config, error) { return c, nil },
	}
	var urls []string
	switch {
	case b.seeds != nil:
		urls = b.seeds(i)
	case i == len(b.nodes)-1: // the last to come
		urls = b.fronts()
	}
	var err error
	if n.node, err = node.New(c, seeds(b.t, strings.Join(urls, "\n")), deps); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	n.stop, n.done = cancel, make(chan struct{})
	go func() {
		defer close(n.done)
		n.end, n.err = n.node.Run(ctx)
	}()
}

// fronts are the front pages of all sites.
func (b *bed) fronts() []string {
	var urls []string
	for _, s := range b.sites {
		urls = append(urls, "http://"+s+"/")
	}
	return urls
}

// startAll starts all nodes, one after the other, and gives them time to find their places before the last one comes.
func (b *bed) startAll(settle time.Duration) {
	for i := range b.nodes {
		if i == len(b.nodes)-1 {
			if b.early != nil {
				b.early()
			}
			time.Sleep(settle)
		}
		b.start(i)
		time.Sleep(200 * time.Millisecond)
	}
}

// kill ends a node's life at once: nothing that it says or asks from now on leaves it, and it neither gives up its vote nor settles what it was
// granted of the limits.
func (b *bed) kill(i int) {
	b.t.Helper()
	n, kept := b.nodes[i], map[string][]byte{}
	n.dead.Store(true)
	n.here.Close() //nolint:errcheck // it has none
	b.Cut(b.name(i), true)
	for _, name := range []string{"voters", "quota-book", "quota-mine"} {
		file := filepath.Join(b.config(i).Node.Data, name)
		if text, err := os.ReadFile(file); !errors.Is(err, os.ErrNotExist) {
			must(b.t, err)
			kept[file] = text
		}
	}
	n.stop()
	<-n.done
	for file, text := range kept {
		must(b.t, os.WriteFile(file, text, 0o600))
	}
}

// stopAll ends all lives in order.
func (b *bed) stopAll() {
	for _, n := range b.nodes {
		if n.stop != nil {
			n.stop()
		}
	}
	for i, n := range b.nodes {
		if n.done != nil {
			<-n.done
			if n.err != nil && !n.dead.Load() {
				b.t.Errorf("%s: %v", b.name(i), n.err)
			}
		}
	}
}

// await waits until something holds, and says whether it did in time.
func (b *bed) await(what string, most time.Duration, holds func() bool) time.Duration {
	b.t.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > most {
			b.t.Fatalf("%s: not within %v", what, most)
		}
		time.Sleep(time.Second)
	}
	return time.Since(began)
}

// awaitPages waits until some pages have been asked for.
func (b *bed) awaitPages(n int) {
	b.t.Helper()
	b.await(fmt.Sprint(n, " pages"), time.Hour, func() bool { return len(pages(b.Visits(nil))) >= n })
}

// leave stops a node in order. It is not waited for any more.
func (b *bed) leave(i int) {
	n := b.nodes[i]
	n.stop()
	<-n.done
	n.dead.Store(true)
}

// hasEnded says whether the life of a node has ended.
func (n *bedNode) hasEnded() bool {
	select {
	case <-n.done:
		return true
	default:
		return false
	}
}

// ended says whether all nodes that live have ended.
func (b *bed) ended() bool {
	return !slices.ContainsFunc(b.nodes, func(n *bedNode) bool { return !n.dead.Load() && !n.hasEnded() })
}

// awaitEnd waits until all nodes that live have ended by themselves.
func (b *bed) awaitEnd(most time.Duration) {
	b.t.Helper()
	b.await("the end of the crawl", most, b.ended)
	for i, n := range b.nodes {
		if !n.dead.Load() && (n.err != nil || n.end.Reason != "idle" || n.end.Unfinished != 0) {
			b.t.Errorf("%s ended as %q with %d URLs unfinished: %v", b.name(i), n.end.Reason, n.end.Unfinished, n.err)
		}
		over := false
		for _, m := range logged[runlog.Member](b, i, runlog.LogMember) {
			over = over || m.Change == member.EventLeave && m.Reason == "the crawl is over"
			if over && m.Change == string(ownership.Took) {
				b.t.Errorf("%s took %s from a node that left because the crawl is over", b.name(i), m.Host)
			}
		}
	}
}

// events are what a node logs of itself.
func (b *bed) events(i int) events { return logged[runlog.Event](b, i, runlog.LogNode) }

// operator is that of a node.
func (b *bed) operator(i int) *node.Operator { return b.nodes[i].node.Operator() }

// logged reads one log of a node.
func logged[E any, P interface {
	*E
	runlog.Entry
}](b *bed, i int, name string) (all []E) {
	b.t.Helper()
	return readLog[E, P](b.t, b.nodes[i].node.LogDir(), name)
}
