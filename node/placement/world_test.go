package placement

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node/lease"
	"proxima/node/runlog"
)

// world is everything around a home: its frontier, leases, peers and their web. While batches run, tests must lock mu to read it: a
// batch may begin at the instant of the fake clock at which the test looks.
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
	next           time.Time // when it may be asked again
	knows          time.Time // the same as the frontier has it, which does not hear of remote fetches
	alone          time.Time // until when a node that is taken for dead may be downloading
	violations     int
	wake           chan struct{}
	given          []string
	tasks          int
	holdFor        time.Duration
	former         bool // an earlier life of this node holds its lease
}

func newWorld(t *testing.T) *world {
	return &world{t: t, self: "home", gap: time.Second, hosts: make(map[string]*fakeHost), servers: make(map[netip.Addr]*fakeServer),
		nodes: map[string]bool{"home": true, "n1": true, "n2": true, "n3": true}, out: make(map[*frontier.Task]bool), memories: make(map[netip.Addr]*assign.Memory),
		ms: func(node string, addr netip.Addr) float64 {
			// One node is near to the server, and the others are farther and farther away.
			names := []string{"home", "n1", "n2", "n3"}
			i := slices.Index(names, node)
			return 15 + 60*float64((i-int(addr.As4()[3])%4+4)%4)
		},
	}
}

func addrOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }

// nearestTo returns the nearest node to a server, by the default ms.
func nearestTo(addr netip.Addr) string {
	return []string{"home", "n1", "n2", "n3"}[int(addr.As4()[3])%4]
}

func (w *world) addHost(name string, addr netip.Addr, urls int) *fakeHost {
	h := &fakeHost{name: name, addr: addr, resolves: true, owner: w.self, finished: make(map[string]frontier.Outcome)}
	for i := range urls {
		h.urls = append(h.urls, identity.URL{Host: name, Path: fmt.Sprintf("/%d", i)})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[name] = h
	if w.servers[addr] == nil {
		w.servers[addr] = &fakeServer{addr: addr, wake: make(chan struct{}, 1)}
	}
	return h
}

// oneServer makes a world with one host, http://a.example, and the server of that host.
func oneServer(t *testing.T, urls int) (*world, *fakeHost, *server) {
	w := newWorld(t)
	h := w.addHost("http://a.example", addrOf(1), urls)
	return w, h, &server{Placement: New(cycle(), w.deps()), addr: h.addr, hosts: []*host{{name: h.name}}, turns: make(chan struct{}, 1)}
}

// pagesOf returns pages of that host to repeat.
func pagesOf(t *testing.T, paths ...string) (pages []page) {
	for _, path := range paths {
		pages = append(pages, page{url: mustURL(t, "http://a.example"+path), host: "http://a.example"})
	}
	return pages
}

func (w *world) view() assign.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	var v assign.View
	for id := range w.nodes {
		c := ncoord.Coordinate{Height: 1, Error: 0.3}
		for i, name := range []string{"home", "n1", "n2", "n3"} {
			if name == id {
				c.Vec[i] = 60
			}
		}
		v.Nodes = append(v.Nodes, assign.Node{ID: id, Coord: c})
	}
	return v
}

// Ready implements Frontier.
func (w *world) Ready(after string, minURLs, most int) (hosts []frontier.ReadyHost, next string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name := range w.hosts {
		names = append(names, name)
	}
	slices.Sort(names)
	looked := 0
	for _, name := range names {
		if name <= after {
			continue
		}
		if looked == most {
			return hosts, next, nil
		}
		looked++
		next = name
		if h := w.hosts[name]; h.owner == w.self && len(h.urls) >= minURLs {
			hosts = append(hosts, frontier.ReadyHost{Host: name, Pending: len(h.urls)})
		}
	}
	return hosts, "", nil
}

// Servers implements Frontier.
func (w *world) Servers() (states []frontier.ServerState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for addr := range w.servers {
		s := frontier.ServerState{Addr: addr}
		for name, h := range w.hosts {
			if h.addr == addr && len(s.Hosts) < 4 {
				s.Hosts = append(s.Hosts, name)
			}
		}
		slices.Sort(s.Hosts)
		states = append(states, s)
	}
	return states
}

// Reserve implements Frontier.
func (w *world) Reserve(addr netip.Addr, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[addr].reserved = on
}

// TakeFrom implements Frontier.
func (w *world) TakeFrom(ctx context.Context, host string, addr netip.Addr) (*frontier.Task, error) {
	for {
		w.mu.Lock()
		h, s := w.hosts[host], w.servers[addr]
		var wait time.Duration
		switch {
		case !s.reserved:
			w.mu.Unlock()
			return nil, frontier.ErrNotReserved
		case h.addr != addr:
			w.mu.Unlock()
			return nil, frontier.ErrElsewhere
		case len(h.urls) == 0:
			w.mu.Unlock()
			return nil, frontier.ErrNoURL
		case s.tasks > 0:
			w.mu.Unlock()
			w.t.Error("a second task of a server was asked for before the first was finished")
			return nil, frontier.ErrNoURL
		default:
			wait = time.Until(s.knows)
		}
		if wait <= 0 {
			task := &frontier.Task{Host: host, Server: addr}
			if !h.robots {
				h.robots = true
				task.Kind, task.URL = frontier.Robots, identity.URL{Host: host, Path: "/robots.txt"}
			} else {
				task.URL, h.urls = h.urls[0], h.urls[1:]
			}
			s.tasks++
			w.out[task] = true
			w.mu.Unlock()
			return task, nil
		}
		w.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Finish implements Crawler.
func (w *world) Finish(_ context.Context, task *frontier.Task, out frontier.Outcome) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.out[task] {
		w.t.Errorf("%s was finished twice", task.URL)
	}
	delete(w.out, task)
	h, s := w.hosts[task.Host], w.servers[task.Server]
	s.tasks--
	if next := time.Now().Add(out.Lingers + w.gap); out.Asked && next.After(s.knows) {
		s.knows = next
		if next.After(s.next) {
			s.next = next
		}
	}
	switch {
	case task.Kind != frontier.Page:
	case out.Ending == frontier.Again && out.Trouble == frontier.Interrupted:
		h.urls = slices.Insert(h.urls, 0, task.URL)
	case out.Ending == frontier.Again:
		h.urls = append(h.urls, task.URL)
	default:
		h.finished[task.URL.Path] = out
		if out.Ending == frontier.Done && !slices.Equal(out.Links, linksOf(task.URL)) {
			w.t.Errorf("%s ended with the links %v", task.URL, out.Links)
		}
	}
	return nil
}

// Hold implements Leases.
func (w *world) Hold(ctx context.Context, addr netip.Addr) (*assign.Memory, error) {
	w.mu.Lock()
	s := w.servers[addr]
	holder, wait, former := s.holder, s.holdFor, s.former
	w.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if former || holder != "" && holder != w.self {
		return nil, &lease.HeldError{Addr: addr, Holder: holder}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.holder = w.self
	return nil, nil
}

// Give implements Leases.
func (w *world) Give(addr netip.Addr, successor string, m *assign.Memory) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.servers[addr]
	if s.holder != w.self {
		return
	}
	if s.inFlight > 0 {
		w.t.Errorf("%s was given away while a request was under way", addr)
	}
	if successor != w.self && s.alone.After(s.next) {
		w.t.Errorf("%s was given away, and the lease does not say that it must be left alone", addr)
	}
	if s.holder = successor; m != nil {
		w.memories[addr] = m
	}
	s.given = append(s.given, successor)
	w.log = append(w.log, fmt.Sprintf("give %s %s", addr, successor))
}

// linksOf returns the links of a page.
func linksOf(u identity.URL) []frontier.Link {
	return []frontier.Link{{URL: identity.URL{Host: u.Host, Path: u.Path + "/more"}, Depth: 1}}
}

// pageOver is the timing of a page over that round trip.
func pageOver(rtt time.Duration) assign.Timing {
	return assign.Timing{Connect: rtt, FirstByte: rtt + 20*time.Millisecond, Total: 3*rtt + 25*time.Millisecond, Bytes: 20_000, Fresh: true}
}

func (w *world) fetch(ctx context.Context, node string, e RemoteFetch) (res Result, err error) {
	w.mu.Lock()
	s := w.servers[e.Server]
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	now := time.Now()
	if now.Before(s.next) || now.Before(s.alone) {
		s.violations++
	}
	w.asked = append(w.asked, request{node, e, now})
	alive, do := w.nodes[node], w.do
	ms := w.ms(node, e.Server)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		s.inFlight--
		if !res.Unmade {
			s.next = time.Now().Add(w.gap)
		}
		if end := time.Now().Add(res.Lingers); res.Lingers > 0 && end.After(s.alone) {
			s.alone = end
		}
	}()
	if do != nil {
		if r, err, ok := do(ctx, node, e); ok {
			return r, err
		}
	}
	if !alive {
		return Result{}, errors.New("gone")
	}
	connect := time.Duration(ms * float64(time.Millisecond))
	r := Result{Asked: true, Status: 200, HTML: true, Coord: w.coordOf(node), Links: linksOf(e.URL),
		Timing: pageOver(connect)}
	select {
	case <-time.After(r.Timing.Total + 200*time.Millisecond):
		return r, nil
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
}

func (w *world) coordOf(node string) ncoord.Coordinate {
	for _, n := range w.view().Nodes {
		if n.ID == node {
			return n.Coord
		}
	}
	return ncoord.Coordinate{}
}

// Held implements Leases.
func (w *world) Held() (held []netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for addr, s := range w.servers {
		if s.holder == w.self {
			held = append(held, addr)
		}
	}
	return held
}

// Memory implements Leases.
func (w *world) Memory(addr netip.Addr) (*assign.Memory, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.memories[addr]
	if m == nil {
		return nil, false
	}
	c := m.Clone()
	return &c, true
}

// Observed implements Leases.
func (w *world) Observed(addr netip.Addr, node string, coord ncoord.Coordinate, t assign.Timing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.memories[addr]; m != nil {
		m.Observe(node, coord, t, time.Now())
	}
}

// Failed implements Leases.
func (w *world) Failed(addr netip.Addr, node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.memories[addr].Fail(node, time.Now())
}

// HostsAt implements Frontier.
func (w *world) HostsAt(addr netip.Addr) (hosts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, h := range w.hosts {
		if h.addr == addr {
			hosts = append(hosts, name)
		}
	}
	return hosts
}

// Gap implements Frontier. It is longer than the world demands if the server was slow or asks for more.
func (w *world) Gap(_ string, _ netip.Addr, elapsed, retryAfter time.Duration) time.Duration {
	return w.gap + elapsed/10 + retryAfter
}

// OwnServer implements Frontier.
func (w *world) OwnServer(addr netip.Addr) bool { return addr.As4()[3] < 200 }

// SetSlow implements Frontier.
func (w *world) SetSlow(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = append(w.slow, on)
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
		time.Sleep(time.Second) // for the goroutines of the world
		w.checkRest()
	}
}

// checkRest checks that no task is out, nothing is reserved or held, and that servers were asked politely.
func (w *world) checkRest() {
	w.t.Helper()
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

func cycle() Config {
	c := Default()
	c.Mode = ModeCycle
	return c
}
