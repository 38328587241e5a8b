package lease

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"proxima/assign"
	"proxima/node/netsim"
	"proxima/node/view"
	"proxima/node/wire"
)

// world is a set of nodes with a network that loses, delays and repeats messages, and a ledger of who may dial which server. It lives in a
// synctest bubble.
type world struct {
	t   testing.TB
	cfg Config

	loss   float64       // share of requests, and of answers, that are lost
	repeat float64       // share of requests delivered twice
	delay  time.Duration // longest delay of a message, unless it is late
	late   float64       // share of requests that take up to half a minute
	// seen hears of answers of grantors, heard of what nodes are told by OnHeld.
	seen  func(from, to string, req *wire.LeaseRequest, res *wire.LeaseResponse)
	heard func(id string, addr netip.Addr, by string)

	mu     sync.Mutex
	rnd    *rand.Rand
	calm   bool // no loss, no repetition, nothing late
	nodes  map[string]*fakeNode
	shelf  map[string]*netsim.Shelf
	boots  map[string]uint64
	cut    map[[2]string]bool
	ledger map[netip.Addr]map[string]time.Time // node → until
	out    map[netip.Addr]map[string]time.Time // the same for requests that were under way when a lease was withdrawn
	grants int
	sum    Status // the counts of the lives that have ended
	wg     sync.WaitGroup
}

// fakeNode is one life of a node: its grantor, its holder and its frontier.
type fakeNode struct {
	w       *world
	id      string
	boot    uint64
	grantor *Grantor
	holder  *Holder
	clock   *Clock
	stop    context.CancelFunc
	ended   chan struct{}
	calls   sync.Map // grantors that it calls now

	mu     sync.Mutex
	dead   bool
	wants  map[netip.Addr]bool
	states map[netip.Addr]Server
	until  map[netip.Addr]time.Time
	msgs   uint64
	sent   []*assign.Memory
	remote []Remote
	feed   chan netip.Addr // servers for Wanted
	spaced map[netip.Addr]float64
	jumped time.Duration // how far the wall clock was set
	frozen chan struct{} // closed when the node runs again; nil while it runs
}

func newWorld(t testing.TB, cfg Config, seed uint64) *world {
	return &world{t: t, cfg: cfg, delay: 100 * time.Millisecond, rnd: rand.New(rand.NewPCG(seed, 7)),
		seen: func(string, string, *wire.LeaseRequest, *wire.LeaseResponse) {}, heard: func(string, netip.Addr, string) {},
		nodes: map[string]*fakeNode{}, shelf: map[string]*netsim.Shelf{}, boots: map[string]uint64{},
		cut: map[[2]string]bool{}, ledger: map[netip.Addr]map[string]time.Time{}, out: map[netip.Addr]map[string]time.Time{}}
}

// start begins a new life of a node.
func (w *world) start(id string) *fakeNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boots[id]++
	if w.shelf[id] == nil {
		w.shelf[id] = new(netsim.Shelf)
	}
	n := &fakeNode{w: w, id: id, boot: w.boots[id], ended: make(chan struct{}), wants: map[netip.Addr]bool{},
		states: map[netip.Addr]Server{}, until: map[netip.Addr]time.Time{},
		feed: make(chan netip.Addr, 1000), spaced: map[netip.Addr]float64{}}
	n.clock = NewClock(n.jump)
	n.grantor = NewGrantor(w.cfg, GrantorDeps{Clock: n.clock, Rights: n.Rights, Boot: n.boot, Shelf: w.shelf[id], Trouble: func(err error) { w.t.Error(err) }})
	n.holder = NewHolder(w.cfg, HolderDeps{Clock: n.clock, Boot: n.boot, Remote: n.remotes, Lease: n.Lease, Frontier: n, Seed: w.rnd.Uint64(),
		Moved: n.onMoved, OnHeld: func(addr netip.Addr, by string) { w.heard(n.id, addr, by) }})
	ctx, stop := context.WithCancel(w.t.Context())
	n.stop = stop
	w.nodes[id] = n
	w.wg.Go(func() {
		defer close(n.ended)
		var rest sync.WaitGroup
		rest.Go(func() {
			if err := n.clock.Run(ctx); err != nil {
				w.t.Error(err)
			}
		})
		rest.Go(func() {
			if err := n.grantor.Run(ctx); err != nil {
				w.t.Error(err)
			}
		})
		if err := n.holder.Run(ctx); err != nil {
			w.t.Error(err)
		}
		rest.Wait()
		s := Status{n.grantor.Status(), n.holder.Status()}
		w.mu.Lock()
		w.sum.Refused += s.Refused
		w.sum.Expired += s.Expired
		w.sum.Released += s.Released
		w.mu.Unlock()
	})
	return n
}

// startAll starts nodes that see one another.
func (w *world) startAll(ids ...string) []*fakeNode {
	var nodes []*fakeNode
	for _, id := range ids {
		nodes = append(nodes, w.start(id))
	}
	for _, n := range nodes {
		n.see(ids, true)
	}
	return nodes
}

// see gives a node a view with these settled nodes. The running ones are alive.
func (n *fakeNode) see(settled []string, majority bool) {
	n.w.mu.Lock()
	alive := slices.Collect(maps.Keys(n.w.nodes))
	n.w.mu.Unlock()
	if !slices.Contains(alive, n.id) {
		alive = append(alive, n.id)
	}
	v := view.View{Self: n.id, Settled: settled, Alive: alive, Majority: majority, Version: uint64(time.Now().UnixNano())}
	n.grantor.SetView(v)
	n.holder.SetView(v)
}

// kill ends a node's life at once: it sends nothing and dials nothing any more.
func (n *fakeNode) kill() {
	n.mu.Lock()
	n.dead = true
	n.mu.Unlock()
	n.w.mu.Lock()
	for _, all := range []map[netip.Addr]map[string]time.Time{n.w.ledger, n.w.out} { // its requests end with it
		for _, by := range all {
			delete(by, n.id)
		}
	}
	if n.w.nodes[n.id] == n {
		delete(n.w.nodes, n.id)
	}
	n.w.mu.Unlock()
	n.stop()
	n.thaw()
	<-n.ended
}

// shutdown stops all nodes in order.
func (w *world) shutdown() {
	w.mu.Lock()
	nodes := slices.Collect(maps.Values(w.nodes))
	w.mu.Unlock()
	for _, n := range nodes {
		n.stop()
		n.thaw()
	}
	w.wg.Wait()
}

func (n *fakeNode) isDead() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

// Grant implements Frontier, and checks that no other node may dial the server.
func (n *fakeNode) Grant(addr netip.Addr, until time.Time, _ time.Duration) {
	if n.isDead() {
		return
	}
	now := time.Now()
	n.w.mu.Lock()
	by := n.w.ledger[addr]
	if by == nil {
		by = map[string]time.Time{}
		n.w.ledger[addr] = by
	}
	if until.After(now) {
		n.w.grants++
		for other, t := range by {
			if other != n.id && t.After(now) {
				n.w.t.Errorf("%v: %v is leased to %s, and to %s for another %v", now.Format("04:05.000"), addr, n.id, other, t.Sub(now))
			}
		}
		for other, t := range n.w.out[addr] {
			if other != n.id && t.After(now) {
				n.w.t.Errorf("%v: %v is leased to %s, and a request of %s may go on for %v", now.Format("04:05.000"), addr, n.id, other, t.Sub(now))
			}
		}
	}
	by[n.id] = until
	delete(n.w.out[addr], n.id)
	n.w.mu.Unlock()

	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.states[addr]
	s.Addr, n.until[addr] = addr, until
	n.states[addr] = s
}

// Withdraw implements Frontier. A request under way may go on.
func (n *fakeNode) Withdraw(addr netip.Addr) {
	n.mu.Lock()
	until, out := n.until[addr], n.states[addr].InFlight > 0
	n.mu.Unlock()
	n.Grant(addr, time.Time{}, 0)
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if out && n.w.nodes[n.id] == n { // otherwise it was killed
		if n.w.out[addr] == nil {
			n.w.out[addr] = map[string]time.Time{}
		}
		n.w.out[addr][n.id] = until
	}
}

// goesOn reports whether a request that was under way when its lease was withdrawn still goes on.
func (n *fakeNode) goesOn(addr netip.Addr) bool {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.out[addr][n.id].After(time.Now())
}

// Servers implements Frontier.
func (n *fakeNode) Servers() []Server {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	all := map[netip.Addr]Server{}
	for addr := range n.wants {
		all[addr] = n.states[addr]
	}
	for addr, s := range n.states {
		if n.until[addr].After(now) || s.InFlight > 0 {
			all[addr] = s
		}
	}
	var out []Server
	for addr, s := range all {
		s.Addr, s.Wanted = addr, n.wants[addr]
		out = append(out, s)
	}
	return out
}

// Wanted implements Frontier.
func (n *fakeNode) Wanted(ctx context.Context) ([]netip.Addr, error) {
	select {
	case addr := <-n.feed:
		return []netip.Addr{addr}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// SetSpacing implements Frontier.
func (n *fakeNode) SetSpacing(addr netip.Addr, factor float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spaced[addr] = factor
}

// spacing returns the factor that the frontier was told.
func (n *fakeNode) spacing(addr netip.Addr) float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(1, n.spaced[addr])
}

// onMoved notes a sent memory.
func (n *fakeNode) onMoved(_ netip.Addr, m *assign.Memory) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent = append(n.sent, m)
}

// sentMemories returns how many downloads each memory has that onMoved noted.
func (n *fakeNode) sentMemories() (downloads []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.sent {
		downloads = append(downloads, m.Downloads())
	}
	return downloads
}

// part cuts two nodes off from each other.
func (w *world) part(a, b string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[[2]string{a, b}] = true
}

// heal ends all cuts.
func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cut)
}

// want makes the node's frontier want servers, or no longer want them.
func (n *fakeNode) want(on bool, addrs ...netip.Addr) {
	for _, addr := range addrs {
		n.mu.Lock()
		if on {
			n.wants[addr] = true
		} else {
			delete(n.wants, addr)
		}
		n.mu.Unlock()
		if on {
			n.feed <- addr
		}
	}
}

// set changes the state of a server at the frontier.
func (n *fakeNode) set(addr netip.Addr, change func(*Server)) {
	n.mu.Lock()
	s := n.states[addr]
	change(&s)
	n.states[addr] = s
	n.mu.Unlock()
	if s.InFlight == 0 {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		delete(n.w.out[addr], n.id)
	}
}

func (n *fakeNode) has(addr netip.Addr) bool { return n.w.holder(addr) == n.id }

// askers returns the nodes that may send a request to a server at this instant. Frozen nodes do not send any.
func (w *world) askers(addr netip.Addr) (ids []string) {
	w.mu.Lock()
	nodes := slices.Collect(maps.Values(w.nodes))
	w.mu.Unlock()
	for _, n := range nodes {
		if !n.isFrozen() && n.holder.MayAsk(addr) == nil {
			ids = append(ids, n.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// holder returns the node that may dial a server now, "" if there is none.
func (w *world) holder(addr netip.Addr) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, until := range w.ledger[addr] {
		if until.After(time.Now()) {
			return id
		}
	}
	return ""
}

func (w *world) random() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.Float64()
}

// misfortune returns true with a probability, unless all is calm.
func (w *world) misfortune(p float64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p > 0 && !w.calm && w.rnd.Float64() < p
}

func (w *world) chance(p float64) bool    { return w.random() < p }
func (w *world) oneWay() time.Duration    { return time.Duration(w.random() * float64(w.delay)) }
func (w *world) pick(ids []string) string { return ids[int(w.random()*float64(len(ids)))] }

// server returns the i-th server of a test.
func server(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}) }

func servers(n int) []netip.Addr {
	var all []netip.Addr
	for i := range n {
		all = append(all, server(i+1))
	}
	return all
}

func names(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("node%02d", i))
	}
	return ids
}

// grantedBy returns a server whose grantor among some nodes is one of them.
func grantedBy(t testing.TB, id string, ids []string) netip.Addr {
	for i := range 10_000 {
		if assign.Rendezvous(server(i).String(), ids) == id {
			return server(i)
		}
	}
	t.Fatal("no server is kept by " + id)
	return netip.Addr{}
}
