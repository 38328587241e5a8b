package member_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/member"
	"proxima/node/netsim"
)

// overlay is a set of nodes in a bubble.
type overlay struct {
	t     *testing.T
	net   *netsim.Network
	ends  map[int]*netsim.Endpoint
	rtt   func(a, b int) float64 // ms
	nodes map[int]*node

	mu    sync.Mutex
	disks map[string][]byte // what nodes kept, by their ids
}

// node is one life of a node.
type node struct {
	*member.Members
	place int
	stop  context.CancelFunc
	done  chan error
	// killed and full, which says that its disk is, are guarded by the overlay's lock.
	killed, full bool

	mu     sync.Mutex
	events []member.Event
}

// setup is what a test changes of a node.
type setup func(*member.Config, *member.Deps)

// must ends a test whose set-up has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newOverlay(t *testing.T, rtt func(a, b int) float64) *overlay {
	o := &overlay{t: t, rtt: rtt, nodes: map[int]*node{}, ends: map[int]*netsim.Endpoint{}, disks: map[string][]byte{}}
	o.net = netsim.New(func(a, b netip.Addr) time.Duration {
		return time.Duration(rtt(netsim.PlaceOf(a), netsim.PlaceOf(b)) / 2 * float64(time.Millisecond))
	})
	return o
}

// transport begins a life at a place; the one before it is over.
func (o *overlay) transport(place int) *netsim.Gossip {
	o.t.Helper()
	if e := o.ends[place]; e != nil {
		_ = e.Close()
	}
	e, err := o.net.Open(netsim.Place(place))
	must(o.t, err)
	o.ends[place] = e
	g, err := e.Gossip(netsim.GossipPort)
	must(o.t, err)
	return g
}

// part puts these places on a side of their own.
func (o *overlay) part(places []int) {
	var side []netip.Addr
	for _, i := range places {
		side = append(side, netsim.Place(i))
	}
	o.net.Partition(side)
}

// sent is how many packets a place has sent.
func (o *overlay) sent(place int) int64 {
	n, _ := o.net.Sent(netsim.Place(place))
	return n
}

// flat is the same round trip between all.
func flat(ms float64) func(a, b int) float64 { return func(int, int) float64 { return ms } }

var secret = []byte("0123456789abcdef0123456789abcdef")

// start begins life boot of the node at a place; it joins by place 0.
func (o *overlay) start(place int, boot uint64, change ...setup) *node {
	o.t.Helper()
	n := &node{place: place, done: make(chan error, 1)}
	cfg := member.Default()
	cfg.Preset = member.PresetTestbed
	if place != 0 {
		cfg.Join = []string{netsim.GossipAt(0)}
	}
	deps := member.Deps{
		ID: netsim.ID(place), Boot: boot, Secrets: [][]byte{secret}, Transport: o.transport(place), Label: "test",
		PeerAddr: netsim.GossipAt(place),
		Event: func(e member.Event) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, e)
		},
	}
	for _, f := range change {
		f(&cfg, &deps)
	}
	o.mu.Lock()
	deps.Voters = o.disks[deps.ID]
	o.mu.Unlock()
	deps.Keep = func(b []byte) error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if n.killed { // what a test has to do to end it
			return nil
		}
		if n.full {
			return errors.New("the disk is full")
		}
		o.disks[deps.ID] = b
		return nil
	}
	var err error
	if n.Members, err = member.New(cfg, deps); err != nil {
		o.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	go func() { n.done <- n.Run(ctx) }()
	o.nodes[place] = n
	return n
}

func (o *overlay) startAll(count int, change ...setup) {
	for i := range count {
		o.start(i, 1, change...)
	}
}

// settled runs a test in an overlay of nodes that have settled.
func settled(t *testing.T, rtt func(a, b int) float64, nodes int, test func(t *testing.T, o *overlay), change ...setup) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := newOverlay(t, rtt)
		o.startAll(nodes, change...)
		time.Sleep(2 * time.Minute)
		test(t, o)
		o.close()
	})
}

// kill ends a node without a word.
func (o *overlay) kill(place int) {
	o.t.Helper()
	_ = o.ends[place].Close()
	n := o.nodes[place]
	delete(o.nodes, place)
	o.mu.Lock()
	n.killed = true
	o.mu.Unlock()
	n.stop()
	if err := <-n.done; err != nil {
		o.t.Errorf("node %d, killed: %v", place, err)
	}
}

// leave ends a node in order.
func (o *overlay) leave(place int) {
	o.t.Helper()
	n := o.nodes[place]
	delete(o.nodes, place)
	n.stop()
	if err := <-n.done; err != nil {
		o.t.Errorf("node %d, left: %v", place, err)
	}
}

// close ends all that are left, at once.
func (o *overlay) close() {
	for _, n := range o.nodes {
		n.stop()
	}
	for i, n := range o.nodes {
		if err := <-n.done; err != nil {
			o.t.Errorf("node %d: %v", i, err)
		}
	}
	time.Sleep(time.Minute) // until the last timers of memberlist have run out
}

func ids(places ...int) (ids []string) {
	for _, p := range places {
		ids = append(ids, netsim.ID(p))
	}
	return ids
}

func upTo(n int) (places []int) {
	for i := range n {
		places = append(places, i)
	}
	return places
}

// expect checks who is alive and settled, and the majority, at the given places.
func (o *overlay) expect(when string, at, living, settled []int, majority bool) {
	o.t.Helper()
	for _, i := range at {
		v := o.nodes[i].View()
		if got := v.Alive; !slices.Equal(got, ids(living...)) {
			o.t.Errorf("%s: node %d sees alive %v, want %v", when, i, got, ids(living...))
		}
		if !slices.Equal(v.Settled, ids(settled...)) {
			o.t.Errorf("%s: node %d sees settled %v, want %v", when, i, v.Settled, ids(settled...))
		}
		if v.Majority != majority {
			o.t.Errorf("%s: node %d sees majority %v (%s), want %v", when, i, v.Majority, v.Reason, majority)
		}
	}
}

// agreed waits until all nodes see the given settled members, and returns how long that took.
func (o *overlay) agreed(settled []int, limit time.Duration) time.Duration {
	o.t.Helper()
	want := ids(settled...)
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		all := true
		for _, n := range o.nodes {
			all = all && slices.Equal(n.View().Settled, want)
		}
		if all {
			return time.Since(begin)
		}
		if time.Since(begin) > limit {
			for i, n := range o.nodes {
				o.t.Logf("node %d: settled %d, %v", i, len(n.View().Settled), n.View().Settled)
			}
			o.t.Fatalf("not agreed on %v after %v", want, limit)
		}
	}
}

func (n *node) count(kind, id string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if e.Kind == kind && (id == "" || e.ID == id) {
			count++
		}
	}
	return count
}

// world is a matrix of round trips: places in a plane and the way to it, the kind of which coordinates are made.
func world(n int, seed uint64) func(a, b int) float64 {
	rnd := rand.New(rand.NewPCG(seed, 1))
	x, y, h := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		x[i], y[i], h[i] = rnd.Float64()*200, rnd.Float64()*100, 1+rnd.ExpFloat64()*5
	}
	return func(a, b int) float64 {
		a, b = a%n, b%n
		return math.Hypot(x[a]-x[b], y[a]-y[b]) + h[a] + h[b]
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// sees is what a node sees of a member.
func (n *node) sees(place int) member.Peer {
	for _, p := range n.View().Members {
		if p.ID == netsim.ID(place) {
			return p
		}
	}
	return member.Peer{}
}
