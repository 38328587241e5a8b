package placement

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node/bell"
	"proxima/node/lease"
	"proxima/node/ownership"
	"proxima/node/runlog"
)

func (w *world) deps() Deps {
	return Deps{
		Self: w.self, Boot: 3, Assign: assign.Default(), Frontier: w, Leases: w, Owners: w, Crawler: w, Fetch: w.fetch,
		Locate: func(netip.Addr) *ncoord.Location { return nil }, JoinEvery: time.Minute, LeaseFor: 75 * time.Second,
		Assigned: func(d runlog.Assign) { w.locked(func() { w.decided = append(w.decided, d) }) },
		Placed: func(label string, server netip.Addr, m *assign.Memory) {
			w.locked(func() { w.placed = append(w.placed, fmt.Sprintf("%s %s %d", label, server, m.Downloads())) })
		},
		LeftOut: func(host, _ string, urls int) {
			w.locked(func() { w.dropped = append(w.dropped, fmt.Sprintf("%s %d", host, urls)) })
		},
		Trouble: func(err error) { w.locked(func() { w.troubles = append(w.troubles, err) }) },
	}
}

// Ready implements Frontier.
func (w *world) Ready(after string, minURLs, most int) (hosts []frontier.ReadyHost, next string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name := range w.hosts {
		if name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > most {
		names = names[:most]
		next = names[most-1]
	}
	for _, name := range names {
		if h := w.hosts[name]; h.owner == w.self && len(h.urls) >= minURLs {
			hosts = append(hosts, frontier.ReadyHost{Host: name, Pending: len(h.urls)})
		}
	}
	return hosts, next, nil
}

// Activate implements Frontier. A host that does not resolve is not even read from disk in time.
func (w *world) Activate(ctx context.Context, host string) error {
	w.mu.Lock()
	h := w.hosts[host]
	resolves := h.resolves
	w.mu.Unlock()
	if !resolves {
		return bell.Sleep(ctx, time.Hour)
	}
	time.AfterFunc(300*time.Millisecond, func() { w.locked(func() { h.active = h.resolves }) })
	return nil
}

// Placed implements Frontier.
func (w *world) Placed(host string) ([]netip.Addr, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.hosts[host]; h.active {
		return []netip.Addr{h.addr}, true
	}
	return nil, false
}

// Servers implements Frontier. It names the first four hosts of a server.
func (w *world) Servers() (states []frontier.ServerState) {
	w.mu.Lock()
	inFlight := make(map[netip.Addr]int)
	for addr, s := range w.servers {
		inFlight[addr] = s.inFlight + s.downloads
	}
	w.mu.Unlock()
	for addr, n := range inFlight {
		hosts := w.HostsAt(addr)
		states = append(states, frontier.ServerState{Addr: addr, Hosts: hosts[:min(4, len(hosts))], InFlight: n})
	}
	return states
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
	slices.Sort(hosts)
	return hosts
}

// Reserve implements Frontier.
func (w *world) Reserve(addr netip.Addr, on bool) { w.locked(func() { w.servers[addr].reserved = on }) }

// TakeFrom implements Frontier.
func (w *world) TakeFrom(ctx context.Context, host string, addr netip.Addr) (*frontier.Task, error) {
	for {
		task, wait, err := w.takeNow(host, addr)
		if task != nil || err != nil {
			return task, err
		}
		if err := bell.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// takeNow returns a task, or how long to wait for one.
func (w *world) takeNow(host string, addr netip.Addr) (task *frontier.Task, wait time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, s := w.hosts[host], w.servers[addr]
	switch wait = time.Until(s.knows); {
	case !s.reserved:
		return nil, 0, frontier.ErrNotReserved
	case h.addr != addr:
		return nil, 0, frontier.ErrElsewhere
	case len(h.urls) == 0:
		return nil, 0, frontier.ErrNoURL
	case s.tasks > 0:
		w.t.Error("a second task of a server was asked for before the first was finished")
		return nil, 0, frontier.ErrNoURL
	case wait > 0:
		return nil, wait, nil
	}
	task = &frontier.Task{Host: host, Server: addr}
	if !h.robots {
		h.robots = true
		task.Kind, task.URL = frontier.Robots, identity.URL{Host: host, Path: "/robots.txt"}
	} else {
		task.URL, h.urls = h.urls[0], h.urls[1:]
	}
	s.tasks++
	w.out[task] = true
	return task, 0, nil
}

// Gap implements Frontier. It is longer than the world demands if the server was slow or asks for more.
func (w *world) Gap(_ string, _ netip.Addr, elapsed, retryAfter time.Duration) time.Duration {
	return w.gap + elapsed/10 + retryAfter
}

// OwnServer implements Frontier.
func (w *world) OwnServer(addr netip.Addr) bool { return addr.As4()[3] < 200 }

// SetSlow implements Frontier.
func (w *world) SetSlow(on bool) { w.locked(func() { w.slow = append(w.slow, on) }) }

// Do implements Crawler.
func (w *world) Do(ctx context.Context, task *frontier.Task) error {
	w.locked(func() { w.request(task.Server) })
	time.Sleep(100 * time.Millisecond)
	w.locked(func() { w.crawled++ })
	return w.Finish(context.WithoutCancel(ctx), task, frontier.Outcome{Ending: frontier.Done, Asked: true, Links: linksOf(task.URL)})
}

// request notes whether a request comes too early.
func (w *world) request(addr netip.Addr) {
	if s := w.servers[addr]; time.Now().Before(s.next) || time.Now().Before(s.alone) {
		s.violations++
	}
}

// Refuse implements Crawler.
func (w *world) Refuse(_ context.Context, task *frontier.Task) (string, error) {
	if strings.HasSuffix(task.URL.Path, "7") {
		return "robots.txt disallows", nil
	}
	return "", nil
}

// Finish implements Crawler. A task that is out must end even while the node stops.
func (w *world) Finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		w.t.Errorf("%s cannot end: %v", task.URL, ctx.Err())
	}
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
	if err := bell.Sleep(ctx, wait); err != nil {
		return nil, err
	}
	if former || holder != "" && holder != w.self {
		return nil, &lease.HeldError{Addr: addr, Holder: holder}
	}
	w.locked(func() { s.holder = w.self })
	m, _ := w.Memory(addr)
	return m, nil
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
	w.locked(func() { w.memories[addr].Fail(node, time.Now()) })
}

// fetch is Deps.Fetch.
func (w *world) fetch(ctx context.Context, node string, e RemoteFetch) (res Result, err error) {
	w.mu.Lock()
	s := w.servers[e.Server]
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	w.request(e.Server)
	w.asked = append(w.asked, request{node, e, time.Now()})
	alive, do, ms := w.nodes[node], w.do, w.ms(node, e.Server)
	w.mu.Unlock()
	defer w.locked(func() {
		s.inFlight--
		if !res.Unmade {
			s.next = time.Now().Add(w.gap)
		}
		if end := time.Now().Add(res.Lingers); res.Lingers > 0 && end.After(s.alone) {
			s.alone = end
		}
	})
	if do != nil {
		if r, err, ok := do(ctx, node, e); ok {
			return r, err
		}
	}
	if !alive {
		return Result{}, errors.New("gone")
	}
	r := Result{Outcome: frontier.Outcome{Asked: true, Links: linksOf(e.URL)}, Status: 200, HTML: true, Coord: coordOf(node),
		Timing: pageOver(time.Duration(ms * float64(time.Millisecond)))}
	if err := bell.Sleep(ctx, r.Timing.Total+200*time.Millisecond); err != nil {
		return Result{}, err
	}
	return r, nil
}

// Mine implements Owners.
func (w *world) Mine(host string) bool { return w.ownerOf(host) == w.self }

// Record implements Owners.
func (w *world) Record(host string) (ownership.Record, bool, error) {
	return ownership.Record{Epoch: 7, Assigned: strings.HasPrefix(w.ownerOf(host), "assigned:")}, true, nil
}

// Wish implements Owners.
func (w *world) Wish(host, to, reason string) {
	w.locked(func() { w.log = append(w.log, fmt.Sprintf("wish %s %s: %s", host, to, reason)) })
}

// HandOff implements Owners.
func (w *world) HandOff(_ context.Context, host, to string, assigned bool, reason string) error {
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
	if h.owner = to; assigned {
		h.owner = "assigned:" + to
	}
	w.log = append(w.log, fmt.Sprintf("hand %s %s: %s", host, to, reason))
	return nil
}
