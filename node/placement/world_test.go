package placement

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node/runlog"
)

// world is everything around a home: its frontier, leases, peers and their web (world_fake_test.go). While batches run, tests must lock mu
// to read it: a batch may begin at the instant of the fake clock at which the test looks.
type world struct {
	t    *testing.T
	self string
	gap  time.Duration

	mu       sync.Mutex
	hosts    map[string]*fakeHost
	servers  map[netip.Addr]*fakeServer
	nodes    map[string]bool // alive
	ms       func(node string, addr netip.Addr) float64
	do       func(ctx context.Context, node string, e RemoteFetch) (Result, error, bool) // false leaves the result to the world
	handOff  func(host, to string) error
	asked    []request
	log      []string // of leases, hand-offs and wishes
	decided  []runlog.Assign
	placed   []string // labels, servers, and how many downloads are known
	dropped  []string
	troubles []error
	slow     []bool
	crawled  int
	out      map[*frontier.Task]bool
	memories map[netip.Addr]*assign.Memory
}

type request struct {
	node string
	RemoteFetch
	at time.Time
}

type fakeHost struct {
	name     string
	addr     netip.Addr
	urls     []identity.URL
	robots   bool // known
	resolves bool
	active   bool
	owner    string
	finished map[string]frontier.Outcome
}

type fakeServer struct {
	addr           netip.Addr
	holder         string
	reserved       bool
	inFlight, most int
	downloads      int       // by the crawl, which are under way
	next           time.Time // when it may be asked again
	knows          time.Time // the same as the frontier has it, which does not hear of remote fetches
	alone          time.Time // until when a node that is taken for dead may be downloading
	violations     int
	given          []string
	tasks          int
	holdFor        time.Duration
	former         bool // an earlier life of this node holds its lease
}

// must ends a test whose set-up has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, self: "home", gap: time.Second, hosts: make(map[string]*fakeHost), servers: make(map[netip.Addr]*fakeServer),
		nodes: make(map[string]bool), out: make(map[*frontier.Task]bool), memories: make(map[netip.Addr]*assign.Memory),
		ms: func(node string, addr netip.Addr) float64 {
			// One node is near to the server, and the others are farther and farther away.
			return 15 + 60*float64((slices.Index(names(), node)-int(addr.As4()[3])%4+4)%4)
		},
	}
	for _, id := range names() {
		w.nodes[id] = true
	}
	return w
}

// names returns the nodes of a world.
func names() []string { return []string{"home", "n1", "n2", "n3"} }

func addrOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }

// nearestTo returns the nearest node to a server, by the default ms.
func nearestTo(addr netip.Addr) string { return names()[int(addr.As4()[3])%4] }

// inWorld runs a test on a fake clock, in a world that has so many hosts h0, h1, ... of 60 URLs at the servers
// addrOf(1), addrOf(2), ...
func inWorld(t *testing.T, hosts int, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addHosts(hosts, 60)
		test(t, w)
	})
}

// addHosts adds hosts, each at a server of its own.
func (w *world) addHosts(n, urls int) {
	for i := range n {
		w.addHost(hostName(i), addrOf(1+i), urls)
	}
}

func hostName(i int) string { return fmt.Sprintf("http://h%d.example", i) }

func (w *world) addHost(name string, addr netip.Addr, urls int) *fakeHost {
	h := &fakeHost{name: name, addr: addr, resolves: true, owner: w.self, finished: make(map[string]frontier.Outcome)}
	for i := range urls {
		h.urls = append(h.urls, identity.URL{Host: name, Path: fmt.Sprintf("/%d", i)})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[name] = h
	if w.servers[addr] == nil {
		w.servers[addr] = &fakeServer{addr: addr}
	}
	return h
}

// withServer runs a test on a fake clock, in a world that has one host, http://a.example, with the server of that host.
func withServer(t *testing.T, urls int, test func(t *testing.T, w *world, h *fakeHost, s *server)) {
	t.Helper()
	inWorld(t, 0, func(t *testing.T, w *world) {
		h := w.addHost("http://a.example", addrOf(1), urls)
		p := New(cycle(), w.deps())
		p.SetView(w.view(), "")
		test(t, w, h, &server{Placement: p, addr: h.addr, hosts: []*host{{name: h.name}}, estimating: make(chan struct{}, 1)})
	})
}

// pagesOf returns pages of that host to repeat.
func pagesOf(t *testing.T, paths ...string) (pages []*frontier.Task) {
	for _, path := range paths {
		pages = append(pages, &frontier.Task{URL: mustURL(t, "http://a.example"+path), Host: "http://a.example"})
	}
	return pages
}

// locked calls a function while nothing happens in the world.
func (w *world) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) ownerOf(host string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hosts[host].owner
}

// asks counts the requests from the given one on by a key. Those without a key do not count.
func (w *world) asks(from int, key func(r request) string) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := make(map[string]int)
	for _, r := range w.asked[from:] {
		if k := key(r); k != "" {
			counts[k]++
		}
	}
	return counts
}

// assignedKey returns the key of a download for a comparison, a round or an exploration, "" for an estimate.
func assignedKey(r request, key string) string {
	if r.Assigned {
		return key
	}
	return ""
}

// requests returns how many requests there were.
func (w *world) requests() (n int) {
	w.locked(func() { n = len(w.asked) })
	return n
}

// die takes a node away.
func (w *world) die(p *Placement, id string) {
	w.locked(func() { delete(w.nodes, id) })
	p.SetView(w.view(), "")
}

// until waits for something, for an hour at most.
func until(t *testing.T, there func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Hour); !there(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it does not come")
		}
	}
}

func (w *world) view() assign.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	var v assign.View
	for id := range w.nodes {
		v.Nodes = append(v.Nodes, assign.Node{ID: id, Coord: coordOf(id)})
	}
	return v
}

func coordOf(node string) ncoord.Coordinate {
	c := ncoord.Coordinate{Height: 1, Error: 0.3}
	c.Vec[slices.Index(names(), node)] = 60
	return c
}

// linksOf returns the links of a page.
func linksOf(u identity.URL) []frontier.Link {
	return []frontier.Link{{URL: identity.URL{Host: u.Host, Path: u.Path + "/more"}, Depth: 1}}
}

// pageOver is the timing of a page over that round trip.
func pageOver(rtt time.Duration) assign.Timing {
	return assign.Timing{Connect: rtt, FirstByte: rtt + 20*time.Millisecond, Total: 3*rtt + 25*time.Millisecond, Bytes: 20_000}
}

// start runs the batches of the world's home until stop is called, which also checks what must always hold at the end.
func (w *world) start(cfg Config) (p *Placement, stop func()) {
	w.t.Helper()
	p = New(cfg, w.deps())
	p.SetView(w.view(), "")
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	return p, func() {
		w.t.Helper()
		cancel()
		if err := <-ran; err != nil {
			w.t.Errorf("Run: %v", err)
		}
		w.checkRest()
	}
}

// checkRest checks that no task is out, nothing is reserved or held, and that servers were asked politely.
func (w *world) checkRest() {
	w.t.Helper()
	time.Sleep(time.Second) // for the goroutines of the world
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.out) > 0 {
		w.t.Errorf("%d tasks were never finished", len(w.out))
	}
	for addr, s := range w.servers {
		if s.reserved || s.inFlight > 0 || s.tasks > 0 {
			w.t.Errorf("%s: reserved %v, %d requests, %d tasks", addr, s.reserved, s.inFlight, s.tasks)
		}
		if s.most > 1 || s.violations > 0 {
			w.t.Errorf("%s had %d requests at once, and %d too early", addr, s.most, s.violations)
		}
	}
}

// cycle returns the configuration of mode cycle.
func cycle() Config { return modeWith(ModeCycle, Default().CompareURLs) }

// modeWith returns a configuration: the mode, compare_urls, and the assigners if they are not the default ones.
func modeWith(mode string, compareURLs int, assigners ...string) Config {
	c := Default()
	c.Mode, c.CompareURLs = mode, compareURLs
	if len(assigners) > 0 {
		c.Assigners = assigners
	}
	return c
}
