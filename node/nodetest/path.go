package nodetest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Path is what lies between a node and a server.
type Path struct {
	// RTT is the round trip: connecting takes one, every answer another.
	RTT time.Duration
	// Rate is how many bytes a second come from the server; 0 is no bound.
	Rate float64
	// Extra is how much longer than elsewhere the server thinks before it answers this node.
	Extra time.Duration
}

// From is how a node dials the servers of the web. path is asked at every connection, request and answer: what it says
// may change at any time. The node's name stands in its visits.
func (w *Web) From(name string, path func(server netip.Addr) Path) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		fail := func(err error) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(at), Err: err}
		}
		trip := time.NewTimer(path(at.Addr()).RTT)
		defer trip.Stop()
		select {
		case <-trip.C:
		case <-ctx.Done():
			return fail(ctx.Err())
		}
		w.mu.Lock()
		up, cut := w.addrs[at.Addr()] && !w.down[at.Addr()], w.cut[name]
		if !up && !cut {
			w.failed = append(w.failed, Visit{From: name, Server: at.Addr(), Start: time.Now(), End: time.Now()})
		}
		w.mu.Unlock()
		switch {
		case cut:
			return fail(syscall.ENETUNREACH)
		case !up:
			return fail(syscall.ECONNREFUSED)
		}
		near, far := connect(name, at, path)
		w.mu.Lock()
		w.lines[far] = true
		w.mu.Unlock()
		server := net.Conn(far)
		if at.Port() == 443 {
			server = tls.Server(far, w.tls)
		}
		select {
		case w.conns <- server:
			return near, nil
		case <-ctx.Done():
			return fail(ctx.Err())
		case <-w.closed:
			return fail(syscall.ECONNREFUSED)
		}
	}
}

// Cut takes a node that dials by From off the web, or lets it back on. Its connections break at once.
func (w *Web) Cut(name string, cut bool) {
	w.mu.Lock()
	var broken []*end
	w.cut[name] = cut
	for e := range w.lines {
		if cut && e.from == name {
			broken = append(broken, e)
		}
	}
	w.mu.Unlock()
	for _, e := range broken {
		e.reset()
	}
}

// lineOf is the server's end of a connection made by From; nil for others.
func lineOf(c net.Conn) *end {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	e, _ := c.(*end)
	return e
}

// lineKey is where the server's end of a connection stands in the context of a request.
type lineKey struct{}

// remember puts it there.
func remember(ctx context.Context, c net.Conn) context.Context {
	if e := lineOf(c); e != nil {
		return context.WithValue(ctx, lineKey{}, e)
	}
	return ctx
}

// watch notes the end of a visit when the last byte of the answer has left, and forgets connections that ended.
func (w *Web) watch(c net.Conn, s http.ConnState) {
	e := lineOf(c)
	if e == nil || s == http.StateNew || s == http.StateActive {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.visit > 0 {
		w.visits[e.visit-1].End = time.Now()
		e.visit = 0
	}
	if s != http.StateIdle {
		delete(w.lines, e)
	}
}
