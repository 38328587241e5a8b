package ownership

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/bell"
	"proxima/node/lease"
)

// server is the state of a web server at a node's frontier.
type server struct {
	until     time.Time // end of the lease
	withdrawn bool      // no further request
	next      time.Time // when it may be asked again
	busy      bool      // a request is out
	cancel    context.CancelFunc
}

// serverOf returns the web server of a host. Some hosts share one.
func (w *world) serverOf(host string) netip.Addr {
	h, _ := numbers(host, "")
	return netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + h*3/4)})
}

// ask begins a request at a web server. Two requests at a time are an error.
func (w *world) ask(addr netip.Addr, who int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	if other := w.asking[addr]; other != 0 {
		w.t.Errorf("%s: node %d asks %v, and node %d does so already", time.Now().Format("04:05.000"), who, addr, other-1)
	}
	w.asking[addr] = who + 1
}

func (w *world) answered(addr netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.asking, addr)
}

// crawl downloads pages, each under the lease of its server.
func (l *life) crawl(ctx context.Context) error {
	for ctx.Err() == nil {
		_ = bell.Sleep(ctx, 200*time.Millisecond)
		l.gate()
		l.w.mu.Lock()
		paused := l.paused
		l.w.mu.Unlock()
		host, from, ok := l.disk.task(l.w.draw(1 << 30))
		if !ok || paused {
			continue
		}
		addr := l.w.serverOf(host)
		visit, ok := l.reserve(ctx, addr)
		if !ok {
			continue
		}
		l.visits.Go(func() {
			defer l.release(addr)
			l.download(visit, addr, host, from)
		})
	}
	return nil
}

// reserve takes a server for one request if the server is leased to this node and may be asked now. Without a lease it becomes wanted.
func (l *life) reserve(ctx context.Context, addr netip.Addr) (visit context.Context, ok bool) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	s, now := l.server(addr), time.Now()
	switch {
	case s.withdrawn || !s.until.After(now):
		select {
		case l.feed <- addr:
		default:
		}
		return nil, false
	case s.busy || s.next.After(now):
		return nil, false
	}
	s.busy = true
	visit, s.cancel = context.WithCancel(ctx)
	return visit, true
}

func (l *life) release(addr netip.Addr) {
	pause := l.w.upTo(l.w.visit)
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	s := l.server(addr)
	s.cancel()
	s.busy, s.next = false, time.Now().Add(pause)
}

func (l *life) server(addr netip.Addr) *server {
	if l.servers[addr] == nil {
		l.servers[addr] = &server{}
	}
	return l.servers[addr]
}

// download requests a page and reads it. A web server answers within ten seconds, even if the process is frozen and does not read.
func (l *life) download(ctx context.Context, addr netip.Addr, host, from string) {
	w := l.w
	_ = bell.Sleep(ctx, w.upTo(300*time.Millisecond)) // the connection is made
	l.gate()
	if ctx.Err() != nil || l.holder.MayAsk(addr) != nil {
		return
	}
	w.ask(addr, l.at)
	_ = bell.Sleep(ctx, w.upTo(w.visit))
	w.answered(addr)
	l.gate()
	if ctx.Err() == nil {
		l.read(host, from)
	}
}

// read takes the links of a page, and marks it as done.
func (l *life) read(host, from string) {
	if l.owner.Ending(l.w.ctx, frontier.Link{URL: identity.URL{Host: host, Path: from}}) != nil {
		return
	}
	mine, err := l.owner.Route(l.w.ctx, l.w.links(host, from))
	if err != nil {
		return
	}
	l.gate()
	away, ok := l.disk.finish(host, from, mine)
	if len(away) > 0 {
		if l.owner.PassOn(l.w.ctx, away) != nil {
			return
		}
		left := slices.DeleteFunc(mine, func(link frontier.Link) bool {
			return slices.ContainsFunc(away, func(o frontier.Link) bool { return o.URL == link.URL })
		})
		l.gate()
		_, ok = l.disk.finish(host, from, left)
	}
	if ok {
		l.w.mu.Lock()
		defer l.w.mu.Unlock()
		l.w.fetched[host+from] = append(l.w.fetched[host+from], l.at)
	}
}

// heldBy makes the hosts of a server follow to the node that holds it.
func (l *life) heldBy(addr netip.Addr, holder string) {
	for _, host := range l.w.hosts {
		if l.w.serverOf(host) == addr {
			l.owner.Wish(host, holder, "its server is leased there")
		}
	}
}

// leased is the frontier of a life, for its lease.Holder: it implements lease.Frontier.
type leased struct{ *life }

func (l leased) Grant(addr netip.Addr, until time.Time, _ time.Duration) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	s := l.server(addr)
	if s.until, s.withdrawn = until, false; !until.After(time.Now()) && s.busy {
		s.cancel()
	}
}

func (l leased) Withdraw(addr netip.Addr) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.server(addr).withdrawn = true
}

func (l leased) Wanted(ctx context.Context) ([]netip.Addr, error) {
	select {
	case addr := <-l.feed:
		return []netip.Addr{addr}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l leased) SetSpacing(netip.Addr, float64) {}

func (l leased) Servers() []lease.Server {
	wanted := map[netip.Addr]bool{}
	for _, task := range l.disk.tasks() {
		wanted[l.w.serverOf(task[0])] = true
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	var out []lease.Server
	for addr, s := range l.servers {
		state := lease.Server{Addr: addr, Wanted: wanted[addr]}
		if s.busy {
			state.InFlight = 1
		}
		out = append(out, state)
	}
	return out
}
