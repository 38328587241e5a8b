// Package nodetest is a small web for tests of whole nodes: sites with names, addresses and pages, reached by Dial
// without a network. It works on the fake clock of a testing/synctest bubble and notes every request with its times. It
// judges nothing: what a crawler may do is asserted by the tests.
package nodetest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Visit is one request that a site got.
type Visit struct {
	// Site is the authority asked for, Scheme and Path what of it, the query included.
	Scheme, Site, Path string
	Server             netip.Addr
	// From is the node that asked, where it dials by Web.From.
	From string
	// Start and End are when the handler began and ended; End is zero while it is at work. Of what From dials, End is when
	// the last byte left.
	Start, End time.Time
}

// URL is what was asked for.
func (v Visit) URL() string { return v.Scheme + "://" + v.Site + v.Path }

// Web is a set of sites. Safe for concurrent use.
type Web struct {
	server *http.Server
	tls    *tls.Config
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once

	// mu guards what follows.
	mu     sync.Mutex
	sites  map[string]*Site // by authority
	addrs  map[netip.Addr]bool
	down   map[netip.Addr]bool
	cut    map[string]bool // nodes that are off the web
	lines  map[*end]bool   // the servers' ends of connections made by From
	visits []Visit
	failed []Visit
}

// New makes an empty web. In a bubble it must be closed before the bubble ends.
func New() (*Web, error) {
	cert, err := certificate()
	if err != nil {
		return nil, err
	}
	w := &Web{
		tls:   &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}},
		conns: make(chan net.Conn), closed: make(chan struct{}),
		sites: map[string]*Site{}, addrs: map[netip.Addr]bool{}, down: map[netip.Addr]bool{},
		cut: map[string]bool{}, lines: map[*end]bool{},
	}
	w.server = &http.Server{Handler: w, ConnContext: remember, ConnState: w.watch, ErrorLog: log.New(io.Discard, "", 0)}
	go w.server.Serve((*listener)(w)) //nolint:errcheck // it ends with Close
	return w, nil
}

// certificate is for connections whose client verifies nothing.
func certificate() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make key: %w", err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(1000 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, public, private)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}

// Close ends all connections.
func (w *Web) Close() {
	w.once.Do(func() { close(w.closed) })
	w.server.Close()
}

// Site adds a site at an authority ("a.test", "a.test:8080") and the addresses of its name.
func (w *Web) Site(authority string, addrs ...string) *Site {
	s := &Site{web: w, name: authority, addrs: addrs, handlers: map[string]http.HandlerFunc{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites[authority] = s
	for _, a := range addrs {
		w.addrs[netip.MustParseAddr(a)] = true
	}
	return s
}

// Names are the addresses of all sites by name.
func (w *Web) Names() map[string][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := map[string][]string{}
	for authority, s := range w.sites {
		name, _, _ := strings.Cut(authority, ":")
		names[name] = s.addrs
	}
	return names
}

// Down makes a server refuse connections, or take them again.
func (w *Web) Down(addr string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[netip.MustParseAddr(addr)] = down
}

// Visits are the requests so far that keep wants (nil: all), by their starts.
func (w *Web) Visits(keep func(Visit) bool) []Visit {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Visit
	for _, v := range w.visits {
		if keep == nil || keep(v) {
			out = append(out, v)
		}
	}
	return out
}

// Refused are the connections that were refused; they have a Server, a Start and an End.
func (w *Web) Refused() []Visit {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Visit(nil), w.failed...)
}

// At keeps the visits of a site.
func At(authority string) func(Visit) bool {
	return func(v Visit) bool { return v.Site == authority }
}

// On keeps the visits of a server.
func On(addr string) func(Visit) bool {
	a := netip.MustParseAddr(addr)
	return func(v Visit) bool { return v.Server == a }
}

// Dial connects to a server of the web: at port 443 by TLS.
func (w *Web) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	w.mu.Lock()
	up := w.addrs[at.Addr()] && !w.down[at.Addr()]
	if !up {
		w.failed = append(w.failed, Visit{Server: at.Addr(), Start: time.Now(), End: time.Now()})
	}
	w.mu.Unlock()
	if !up {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(at), Err: syscall.ECONNREFUSED}
	}
	near, far := net.Pipe()
	client, server := conn{near, at, at}, net.Conn(conn{far, at, at})
	if at.Port() == 443 {
		server = tls.Server(server, w.tls)
	}
	select {
	case w.conns <- server:
		return client, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-w.closed:
		err = syscall.ECONNREFUSED
	}
	return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(at), Err: err}
}

// conn is an end of a pipe with addresses.
type conn struct {
	net.Conn
	local, remote netip.AddrPort
}

func (c conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// listener hands the far ends of Dial to the server.
type listener Web

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	(*Web)(l).once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// ServeHTTP answers for the site that is asked, and notes the visit.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	v := Visit{Scheme: "http", Site: r.Host, Path: r.URL.RequestURI(), Start: time.Now()}
	if r.TLS != nil {
		v.Scheme = "https"
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		v.Server = a.AddrPort().Addr().Unmap()
	}
	line, far := r.Context().Value(lineKey{}).(*end)
	if far {
		v.From = line.from
	}
	w.mu.Lock()
	site := w.sites[r.Host]
	i := len(w.visits)
	w.visits = append(w.visits, v)
	if far {
		line.visit = i + 1
	}
	w.mu.Unlock()
	if far {
		pause(r.Context(), line.Path().Extra)
	} else {
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.visits[i].End = time.Now()
		}()
	}
	if site == nil {
		http.Error(rw, "no such site", http.StatusMisdirectedRequest)
		return
	}
	site.serve(rw, r)
}
