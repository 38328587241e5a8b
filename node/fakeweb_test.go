package node_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"proxima/node/netsim"
)

// Visit is one request to a site.
type Visit struct {
	// Site is the authority requested; Scheme and Path complete the URL, query included.
	Scheme, Site, Path string
	Server             netip.Addr
	// From is the name of the node that asked, if it dials by Web.From.
	From string
	// Start is when the handler began, End when the last byte left, zero before that.
	Start, End time.Time
}

// URL returns the URL requested.
func (v Visit) URL() string { return v.Scheme + "://" + v.Site + v.Path }

// Path is the network path between a node and a server.
type Path struct {
	// RTT is the round trip.
	RTT time.Duration
	// Rate is how many bytes per second the node can take from all servers together; 0 is unlimited.
	Rate float64
}

// Web is a small web for tests: sites with names, addresses and pages on a network of their own. It records every
// request with its times and judges nothing: tests assert what a crawler may do. It is safe for concurrent use.
type Web struct {
	net    *netsim.Network
	server *http.Server
	tls    *tls.Config

	// pathsMu guards paths, which the network reads for delays.
	pathsMu sync.Mutex
	paths   map[netip.Addr]func(server netip.Addr) Path // by the node's address

	// mu guards what follows.
	mu      sync.Mutex
	sites   map[string]*Site // by authority
	servers map[netip.Addr]*webServer
	nodes   map[string]*netsim.Endpoint
	names   map[netip.Addr]string
	cut     map[string]bool  // nodes cut off from the web
	at      map[net.Conn]int // index of the current visit, plus one
	visits  []Visit
	failed  []Visit
}

// webServer is an address of the web with its listeners by port, nil while it is down.
type webServer struct {
	place *netsim.Endpoint
	ports map[uint16]net.Listener
	down  bool
	// noTLS says that port 443 speaks HTTP without TLS, closed that nothing listens there.
	noTLS, closed bool
}

// NewWeb makes an empty web. In a bubble, close it before the bubble ends.
func NewWeb() (*Web, error) {
	cert, err := certificate()
	if err != nil {
		return nil, err
	}
	w := &Web{
		tls:   &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}},
		paths: map[netip.Addr]func(netip.Addr) Path{}, sites: map[string]*Site{}, servers: map[netip.Addr]*webServer{},
		nodes: map[string]*netsim.Endpoint{}, names: map[netip.Addr]string{}, cut: map[string]bool{}, at: map[net.Conn]int{},
	}
	w.net = netsim.New(w.delay)
	w.server = &http.Server{Handler: w, ConnContext: remember, ConnState: w.watch, ErrorLog: log.New(io.Discard, "", 0)}
	return w, nil
}

// delay returns half of a node's round trip to a server.
func (w *Web) delay(from, to netip.Addr) time.Duration {
	w.pathsMu.Lock()
	path, server := w.paths[from], to
	if path == nil {
		path, server = w.paths[to], from
	}
	w.pathsMu.Unlock()
	if path == nil {
		return 0
	}
	return path(server).RTT / 2
}

// certificate makes a certificate for clients that verify nothing.
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
	_ = w.server.Close()
	_ = w.net.Close()
}

// Site adds a site at an authority ("a.test", "a.test:8080") with the addresses of its name.
func (w *Web) Site(authority string, addrs ...string) *Site {
	s := &Site{web: w, name: authority, addrs: addrs, handlers: map[string]http.HandlerFunc{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites[authority] = s
	_, port, ok := strings.Cut(authority, ":")
	if !ok {
		port = "80"
	}
	at := netip.MustParseAddrPort("0.0.0.0:" + port)
	for _, text := range addrs {
		server := w.serverAt(netip.MustParseAddr(text))
		server.ports[at.Port()] = server.ports[at.Port()]
		w.up(server)
	}
	return s
}

// serverAt returns the server at an address, and makes it if need be. It needs mu held.
func (w *Web) serverAt(a netip.Addr) *webServer {
	if w.servers[a] == nil {
		w.servers[a] = &webServer{place: w.enter(a), ports: map[uint16]net.Listener{80: nil, 443: nil}}
	}
	return w.servers[a]
}

func (w *Web) enter(a netip.Addr) *netsim.Endpoint {
	place, err := w.net.Open(a)
	if err != nil {
		panic(fmt.Errorf("enter at %s: %w", a, err))
	}
	return place
}

// up makes a server listen at all its ports. It needs mu held.
func (w *Web) up(s *webServer) {
	for port, l := range s.ports {
		if l != nil || s.down || port == 443 && s.closed {
			continue
		}
		l, err := s.place.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			panic(fmt.Errorf("listen at port %d: %w", port, err))
		}
		s.ports[port] = l
		if port == 443 && !s.noTLS {
			l = tls.NewListener(l, w.tls)
		}
		go w.server.Serve(l) //nolint:errcheck // it ends with Close
	}
}

// Names returns the addresses of all sites by name.
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

// BreakTLS closes port 443 of a server, or makes it speak plain HTTP.
func (w *Web) BreakTLS(addr string, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.serverAt(netip.MustParseAddr(addr))
	if l := s.ports[443]; l != nil {
		_ = l.Close()
	}
	s.ports[443], s.noTLS, s.closed = nil, true, closed
	w.up(s)
}

// Down makes a server refuse connections, or accept them again. Existing connections stay.
func (w *Web) Down(addr string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.serverAt(netip.MustParseAddr(addr))
	s.down = down
	for port, l := range s.ports {
		if down && l != nil {
			_ = l.Close()
			s.ports[port] = nil
		}
	}
	w.up(s)
}

// Visits returns the requests so far for which keep is true (nil: all), by start.
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

// Refused returns the refused connections; they have a From, a Server, a Start and an End.
func (w *Web) Refused() []Visit {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.failed)
}

// At selects the visits of a site.
func At(authority string) func(Visit) bool {
	return func(v Visit) bool { return v.Site == authority }
}

// On selects the visits of a server.
func On(addr string) func(Visit) bool {
	a := netip.MustParseAddr(addr)
	return func(v Visit) bool { return v.Server == a }
}

// Dial connects to a server of the web without delay, with TLS at port 443.
func (w *Web) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return w.From("", func(netip.Addr) Path { return Path{} })(ctx, network, address)
}

// From returns how a node dials the servers of the web. path is called again and again, so its results may change at
// any time. The node's name is recorded in its visits.
func (w *Web) From(name string, path func(server netip.Addr) Path) func(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	here := w.nodes[name]
	if here == nil {
		here = w.enter(netsim.Place(len(w.nodes)))
		w.nodes[name], w.names[here.Addr()] = here, name
	}
	w.mu.Unlock()
	w.pathsMu.Lock()
	w.paths[here.Addr()] = path
	w.pathsMu.Unlock()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", address, err)
		}
		// A host without a site refuses connections; if there were no host, nobody would answer.
		w.net.Add(at.Addr())
		w.pace(here.Addr(), at.Addr())
		c, err := here.DialContext(ctx, network, address)
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case w.cut[name]:
			if c != nil {
				_ = c.Close()
			}
			return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(at), Err: syscall.ENETUNREACH}
		case errors.Is(err, syscall.ECONNREFUSED):
			w.failed = append(w.failed, Visit{From: name, Server: at.Addr(), Start: time.Now(), End: time.Now()})
		}
		return c, err
	}
}

// pace sets a node's bandwidth to that of this moment.
func (w *Web) pace(node, server netip.Addr) {
	w.pathsMu.Lock()
	path := w.paths[node]
	w.pathsMu.Unlock()
	w.net.SetBandwidth(node, 0, path(server).Rate/1000)
}

// Cut takes a node that dials by From off the web, breaking its connections, or puts it back.
func (w *Web) Cut(name string, cut bool) {
	w.mu.Lock()
	w.cut[name] = cut
	w.mu.Unlock()
	if cut {
		w.Reset(name)
	}
}

// Reset breaks the connections of a node.
func (w *Web) Reset(name string) {
	w.mu.Lock()
	here := w.nodes[name]
	w.mu.Unlock()
	if here != nil {
		w.net.Reset(here.Addr(), netip.Addr{})
	}
}

// connKey is the context key of the server's end of a request's connection.
type connKey struct{}

func remember(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, ofNetwork(c))
}

// ofNetwork returns the simulated connection beneath a connection.
func ofNetwork(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}

// addrOf returns the address of an end of a connection.
func addrOf(a net.Addr) netip.Addr { return a.(*net.TCPAddr).AddrPort().Addr() }

// watch records the end of a visit when the last byte of the answer has left.
func (w *Web) watch(c net.Conn, s http.ConnState) {
	if s == http.StateNew || s == http.StateActive {
		return
	}
	line := ofNetwork(c)
	line.(interface{ Drained() }).Drained()
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := w.at[line]; at > 0 {
		w.visits[at-1].End = time.Now()
		delete(w.at, line)
	}
}

// ServeHTTP answers for the requested site and records the visit.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	line := r.Context().Value(connKey{}).(net.Conn)
	v := Visit{Scheme: "http", Site: r.Host, Path: r.URL.RequestURI(), Server: addrOf(line.LocalAddr()), Start: time.Now()}
	if r.TLS != nil {
		v.Scheme = "https"
	}
	w.mu.Lock()
	v.From = w.names[addrOf(line.RemoteAddr())]
	site := w.sites[r.Host]
	w.visits = append(w.visits, v)
	w.at[line] = len(w.visits)
	w.mu.Unlock()
	w.pace(addrOf(line.RemoteAddr()), v.Server)
	if site == nil {
		http.Error(rw, "no such site", http.StatusMisdirectedRequest)
		return
	}
	site.serve(rw, r)
}
