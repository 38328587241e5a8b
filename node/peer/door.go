package peer

import (
	"context"
	"crypto/ed25519"
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

// door is a listener for connections that have shown a certificate of the cluster. The others wait in a lobby, for
// DialTimeout at most, and the HTTP server never sees them.
type door struct {
	net.Listener
	server *Server
	lobby  *lobby.Lobby
	proven chan net.Conn
	failed chan error
	once   sync.Once
	quit   chan struct{}
	work   sync.WaitGroup
}

// open opens the door. Its goroutines end some time after Close; wait waits for them.
func (s *Server) open() *door {
	d := &door{Listener: s.deps.Listener, server: s, lobby: lobby.New(unproven, ofMember, s.deps.Known),
		proven: make(chan net.Conn), failed: make(chan error), quit: make(chan struct{})}
	d.work.Go(d.listen)
	return d
}

// listen accepts connections until the listener is closed.
func (d *door) listen() {
	for {
		conn, err := d.Listener.Accept()
		if err == nil {
			guest := d.lobby.Enter(conn)
			d.work.Go(func() { d.prove(guest) })
			continue
		}
		// The HTTP server pauses before it accepts again, or closes the door.
		select {
		case d.failed <- err:
		case <-d.quit:
			return
		}
	}
}

// prove admits a guest with a certificate of the cluster.
func (d *door) prove(guest *lobby.Guest) {
	s := d.server
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DialTimeout)
	defer cancel()
	entrant := &entrant{Guest: guest, server: s}
	conn := tls.Server(entrant, s.believed().server)
	err := conn.HandshakeContext(ctx)
	refuse := func(kind, reason string) {
		s.refusals.add(Refusal{Peer: lobby.Host(guest.RemoteAddr()), Kind: kind, Reason: reason})
		conn.Close() //nolint:errcheck // it is unwanted
	}
	switch in := guest.Leave(); {
	case !in:
		refuse(KindHandshake, "too many connections had not proved themselves")
	case errors.Is(err, context.DeadlineExceeded):
		refuse(KindHandshake, fmt.Sprintf("no handshake within %v", s.cfg.DialTimeout))
	case err != nil:
		refuse(KindHandshake, err.Error())
	default:
		if kind, why := s.admit(entrant, conn.ConnectionState()); kind != "" {
			refuse(kind, why)
			return
		}
		if conn.ConnectionState().NegotiatedProtocol == linkProtocol {
			s.link(conn)
			return
		}
		select {
		case d.proven <- conn:
		case <-d.quit:
			conn.Close() //nolint:errcheck // the server has ended
		}
	}
}

// link passes on a connection without calls.
func (s *Server) link(conn *tls.Conn) {
	id, err := idOf(conn.ConnectionState())
	if s.deps.Link == nil || err != nil {
		conn.Close() //nolint:errcheck // it is unwanted
		return
	}
	s.deps.Link(conn, id)
}

// Accept returns the next connection that has proved itself.
func (d *door) Accept() (net.Conn, error) {
	select {
	case conn := <-d.proven:
		return conn, nil
	case err := <-d.failed:
		return nil, err
	case <-d.quit:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and all connections that have not proved themselves.
func (d *door) Close() (err error) {
	d.once.Do(func() {
		close(d.quit)
		err = d.Listener.Close()
		d.lobby.Close()
	})
	return err
}

func (d *door) wait() { d.work.Wait() }

// admit registers a connection, or says why it is refused.
func (s *Server) admit(e *entrant, state tls.ConnectionState) (kind, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.authority = authorityOf(state)
	switch {
	case !s.credentials.believes(e.authority):
		return KindHandshake, "its secret was dropped meanwhile"
	case len(s.conns) >= s.cfg.Connections:
		return KindBusy, "too many connections of peers"
	}
	s.conns[e] = struct{}{}
	return "", ""
}

// believed returns the current credentials.
func (s *Server) believed() *credentials {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credentials
}

// Rekey changes the secret of a running server. It closes connections admitted with a secret that is no longer
// accepted.
func (s *Server) Rekey(secret *Secret) error {
	c, err := newCredentials(secret, s.deps.ID)
	if err != nil {
		return fmt.Errorf("change secret of server: %w", err)
	}
	var out []*entrant
	s.mu.Lock()
	s.credentials = c
	for e := range s.conns {
		if !c.believes(e.authority) {
			out = append(out, e)
		}
	}
	s.mu.Unlock()
	for _, e := range out {
		e.Close() //nolint:errcheck // it is unwanted
	}
	return nil
}

// entrant is a connection that counts as a peer's from its proof until it is closed.
type entrant struct {
	*lobby.Guest
	server    *Server
	authority ed25519.PublicKey // guarded by the server's mu
}

func (e *entrant) Close() error {
	err := e.Guest.Close()
	e.server.mu.Lock()
	defer e.server.mu.Unlock()
	delete(e.server.conns, e)
	return err
}
