package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"proxima/node/lobby"
)

const (
	// unproven is how many connections may be handshaking, at about 20 KiB each. If 50 addresses flood the node, each
	// has five.
	unproven = 256
	// ofMember is how many of them a member may have before it counts like a stranger. Nodes may share machines.
	ofMember = 64
)

// handshakes is a listener for connections that have shown a certificate of the cluster. The others wait in a lobby, for
// dialTime at most, and the HTTP server never sees them.
type handshakes struct {
	net.Listener
	server *Server
	lobby  *lobby.Lobby
	proven chan net.Conn
	failed chan error
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	work   sync.WaitGroup
}

// newHandshakes begins to accept connections. Its goroutines end some time after Close.
func newHandshakes(s *Server) *handshakes {
	h := &handshakes{Listener: s.deps.Listener, server: s, lobby: lobby.New(unproven, ofMember, s.deps.Known),
		proven: make(chan net.Conn), failed: make(chan error)}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.work.Go(h.listen)
	h.work.Go(h.takeCarried)
	return h
}

// listen accepts connections until the listener is closed.
func (h *handshakes) listen() {
	for {
		conn, err := h.Listener.Accept()
		if err == nil {
			h.enter(conn)
			continue
		}
		// The HTTP server pauses before it accepts again, or closes the listener.
		select {
		case h.failed <- err:
		case <-h.ctx.Done():
			return
		}
	}
}

// takeCarried takes the connections that a relay has carried to this node.
func (h *handshakes) takeCarried() {
	for {
		select {
		case conn := <-h.server.deps.Carried:
			h.enter(conn)
		case <-h.ctx.Done():
			return
		}
	}
}

// enter lets a connection prove itself.
func (h *handshakes) enter(conn net.Conn) {
	guest := h.lobby.Enter(conn)
	h.work.Go(func() { h.prove(guest) })
}

// prove admits a guest with a certificate of the cluster.
func (h *handshakes) prove(guest *lobby.Guest) {
	s := h.server
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	below := &trustedConn{Conn: guest, trust: s.trust}
	conn := tls.Server(below, s.trust.credentials().server)
	err := conn.HandshakeContext(ctx)
	refuse := func(kind, reason string) {
		s.refusals.add(Refusal{Peer: lobby.Host(guest.RemoteAddr()), Kind: kind, Reason: reason})
		conn.Close() //nolint:errcheck // it is unwanted
	}
	switch in := guest.Leave(); {
	case !in:
		refuse(KindHandshake, "too many connections had not proved themselves")
	case errors.Is(err, context.DeadlineExceeded):
		refuse(KindHandshake, fmt.Sprintf("no handshake within %v", dialTime))
	case err != nil:
		refuse(KindHandshake, err.Error())
	default:
		state := conn.ConnectionState()
		if kind, why := below.admit(state, s.cfg.Connections); kind != "" {
			refuse(kind, why)
			return
		}
		if state.NegotiatedProtocol == linkProtocol {
			id, _ := idOf(&state) // TLS has verified it
			s.deps.Link(conn, id)
			return
		}
		select {
		case h.proven <- conn:
		case <-h.ctx.Done():
			conn.Close() //nolint:errcheck // the server has ended
		}
	}
}

// Accept returns the next connection that has proved itself.
func (h *handshakes) Accept() (net.Conn, error) {
	select {
	case conn := <-h.proven:
		return conn, nil
	case err := <-h.failed:
		return nil, err
	case <-h.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the listener and all connections that have not proved themselves.
func (h *handshakes) Close() error {
	h.stop()
	h.lobby.Close()
	return h.Listener.Close()
}

// Rekey changes the secret of a running server. It closes connections admitted with a secret that is no longer
// accepted.
func (s *Server) Rekey(secret *Secret) error { return s.trust.change(secret) }
