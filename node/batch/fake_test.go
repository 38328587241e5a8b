package batch

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is everything around a home, in memory: its frontier, its keeper, its peers and their web. While batches run a test
// reads it under mu only: the next batch may begin at the very instant, on the fake clock, at which the test looks.
type world struct {
	t    *testing.T
	self string
	gap  time.Duration

	mu       sync.Mutex
	hosts    map[string]*fakeHost
	servers  map[netip.Addr]*fakeServer
	nodes    map[string]bool // alive
	ms       func(node string, addr netip.Addr) float64
	do       func(ctx context.Context, node string, e Errand) (Result, error, bool) // true: it decided
	handOff  func(host, to string) error
	asked    []request1
	log      []string // leases and hand-offs in order
	decided  []Decision
	dropped  []string
	troubles []error
	trickle  []float64
	crawled  int
	out      map[*frontier.Task]bool
}

type request1 struct {
	node string
	Errand
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
	next           time.Time
	alone          time.Time // until then a node may be at work that is taken for dead
	violations     int
	wake           chan struct{}
	given          []string
	tasks          int
	holdFor        time.Duration
}

func newWorld(t *testing.T) *world {
	return &world{t: t, self: "home", gap: time.Second, hosts: make(map[string]*fakeHost), servers: make(map[netip.Addr]*fakeServer),
		nodes: map[string]bool{"home": true, "n1": true, "n2": true, "n3": true}, out: make(map[*frontier.Task]bool),
		ms: func(node string, addr netip.Addr) float64 {
			// One node is near to each server, the others are ever farther.
			names := []string{"home", "n1", "n2", "n3"}
			i := slices.Index(names, node)
			return 15 + 60*float64((i-int(addr.As4()[3])%4+4)%4)
		},
	}
}

func addrOf(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }

// nearestTo is the node that the default ms puts nearest.
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
		v.Nodes = append(v.Nodes, assign.Node{ID: id, Coord: c, Self: id == w.self})
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

// Activate implements Frontier.
func (w *world) Activate(_ context.Context, host string) error {
	go func() {
		time.Sleep(300 * time.Millisecond)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hosts[host].active = w.hosts[host].resolves
	}()
	return nil
}

// Placed implements Frontier.
func (w *world) Placed(host string) ([]netip.Addr, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[host]
	return []netip.Addr{h.addr}, h.active
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
			wait = time.Until(s.next)
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

// Finish implements Frontier.
func (w *world) Finish(_ context.Context, task *frontier.Task, out frontier.Outcome) (frontier.Finished, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.out[task] {
		w.t.Errorf("%s was finished twice", task.URL)
	}
	delete(w.out, task)
	h, s := w.hosts[task.Host], w.servers[task.Server]
	s.tasks--
	if next := time.Now().Add(out.Lingers + w.gap); out.Asked && next.After(s.next) {
		s.next = next
	}
	switch {
	case task.Kind != frontier.Page:
	case out.Ending == frontier.Again && out.Trouble == frontier.Interrupted:
		h.urls = slices.Insert(h.urls, 0, task.URL)
	case out.Ending == frontier.Again:
		h.urls = append(h.urls, task.URL)
	default:
		h.finished[task.URL.Path] = out
	}
	return frontier.Finished{}, nil
}

type heldError struct{ holder string }

func (e heldError) Error() string { return "held by " + e.holder }

// Hold implements Keeper.
func (w *world) Hold(ctx context.Context, addr netip.Addr) (*assign.Memory, error) {
	w.mu.Lock()
	s := w.servers[addr]
	holder, wait := s.holder, s.holdFor
	w.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if holder != "" && holder != w.self {
		return nil, heldError{holder}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.holder = w.self
	return nil, nil
}

// Give implements Keeper.
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
	s.holder = successor
	s.given = append(s.given, successor)
	w.log = append(w.log, fmt.Sprintf("give %s %s", addr, successor))
}

func (w *world) request(ctx context.Context, node string, e Errand) (res Result, err error) {
	w.mu.Lock()
	s := w.servers[e.Server]
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	now := time.Now()
	if now.Before(s.next) || now.Before(s.alone) {
		s.violations++
	}
	w.asked = append(w.asked, request1{node, e, now})
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
	r := Result{Asked: true, Status: 200, HTML: true, Placed: true, Coord: w.coordOf(node),
		Timing: assign.Timing{Connect: connect, FirstByte: connect + 20*time.Millisecond, Total: 3*connect + 25*time.Millisecond, Bytes: 20_000, Fresh: true}}
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

func (w *world) deps() Deps {
	return Deps{
		Self: w.self, Boot: 3, Assign: assign.Default(), Frontier: w, Keeper: w,
		Holder: func(err error) (string, bool) {
			var held heldError
			ok := errors.As(err, &held)
			return held.holder, ok
		},
		Do: w.request,
		Mine: func(host string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.hosts[host].owner == w.self
		},
		HandOff: func(ctx context.Context, host, to, reason string) error {
			time.Sleep(50 * time.Millisecond)
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.handOff != nil {
				if err := w.handOff(host, to); err != nil {
					return err
				}
			}
			h := w.hosts[host]
			if w.servers[h.addr].tasks > 0 {
				w.t.Errorf("%s was handed off with a task out", host)
			}
			h.owner = "assigned:" + to
			w.log = append(w.log, fmt.Sprintf("hand %s %s", host, to))
			return nil
		},
		Crawl: func(ctx context.Context, task *frontier.Task) error {
			time.Sleep(100 * time.Millisecond)
			w.mu.Lock()
			w.crawled++
			w.mu.Unlock()
			_, err := w.Finish(ctx, task, frontier.Outcome{Ending: frontier.Done, Asked: true})
			return err
		},
		Refuse: func(task *frontier.Task) (string, error) {
			if strings.HasSuffix(task.URL.Path, "7") {
				return "robots.txt disallows", nil
			}
			return "", nil
		},
		Gap:     func(string, netip.Addr, time.Duration, time.Duration) time.Duration { return w.gap },
		OnLapse: func(*frontier.Task, func()) {},
		Assigned: func(d Decision) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.decided = append(w.decided, d)
		},
		LeftOut: func(host, reason string, urls int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.dropped = append(w.dropped, fmt.Sprintf("%s %d", host, urls))
		},
		Trouble: func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.troubles = append(w.troubles, err)
		},
		Trickle: func(share float64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.trickle = append(w.trickle, share)
		},
		Own: func(addr netip.Addr) bool { return addr.As4()[3] < 200 },
	}
}

// start runs the batches of the world's home until stop is called, which also checks what must always hold at the end.
func (w *world) start(cfg Config) (b *Batches, stop func()) {
	w.t.Helper()
	b, err := New(cfg, w.deps())
	if err != nil {
		w.t.Fatal(err)
	}
	b.SetView(w.view())
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- b.Run(ctx) }()
	return b, func() {
		w.t.Helper()
		cancel()
		if err := <-ran; err != nil {
			w.t.Errorf("Run: %v", err)
		}
		time.Sleep(time.Second) // what the world itself has under way
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
