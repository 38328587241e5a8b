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
	// unproven is how many connections may be under way to their handshake, at some 20 KiB each: with 50 addresses that
	// flood, each has five.
	unproven = 256
	// ofMember is how many of them a member may have before it counts like a stranger: nodes share machines.
	ofMember = 64
)

// door is a listener whose connections have shown a certificate of the cluster. The others wait in a lobby, for the
// DialTimeout at most, and are no business of the server beneath.
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

// open makes a door. Its goroutines end some time after Close; wait waits for them.
func (s *Server) open() *door {
	d := &door{Listener: s.deps.Listener, server: s, lobby: lobby.New(unproven, ofMember, s.deps.Known),
		proven: make(chan net.Conn), failed: make(chan error), quit: make(chan struct{})}
	d.work.Go(d.listen)
	return d
}

// listen takes connections until the listener is closed.
func (d *door) listen() {
	for {
		conn, err := d.Listener.Accept()
		if err == nil {
			guest := d.lobby.Enter(conn)
			d.work.Go(func() { d.prove(guest) })
			continue
		}
		// The server waits before it accepts again, or closes the door.
		select {
		case d.failed <- err:
		case <-d.quit:
			return
		}
	}
}

// prove lets a guest in that has a certificate of the cluster.
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
			conn.Close() //nolint:errcheck // the server ends
		}
	}
}

// link hands a connection over that carries no calls.
func (s *Server) link(conn *tls.Conn) {
	id, err := idOf(conn.ConnectionState())
	if s.deps.Link == nil || err != nil {
		conn.Close() //nolint:errcheck // it is unwanted
		return
	}
	s.deps.Link(conn, id)
}

// Accept is the next connection that has proved itself.
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

// Close ends the listener and shows all out who have not proved themselves.
func (d *door) Close() (err error) {
	d.once.Do(func() {
		close(d.quit)
		err = d.Listener.Close()
		d.lobby.Close()
	})
	return err
}

// wait waits for the goroutines of a closed door.
func (d *door) wait() { d.work.Wait() }

// admit lets a connection in, or says why not.
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

// believed are the credentials of the moment.
func (s *Server) believed() *credentials {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.credentials
}

// Rekey changes the secret of a server that runs. Connections that were let in with a secret that is not accepted any
// more are closed.
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

// entrant is a connection that counts as one of the peers' from its proof until it is closed.
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
