package peer

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"sync"
)

// trust is whom one end believes, and the connections that rest on that. It is safe for concurrent use.
type trust struct {
	id string

	// mu guards what follows.
	mu    sync.Mutex
	now   *credentials
	conns map[*trustedConn]struct{}
}

func newTrust(s *Secret, id string) (*trust, error) {
	c, err := newCredentials(s, id)
	return &trust{id: id, now: c, conns: map[*trustedConn]struct{}{}}, err
}

func (t *trust) credentials() *credentials {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now
}

// change changes the secret, and closes the connections whose secret is no longer accepted.
func (t *trust) change(s *Secret) error {
	c, err := newCredentials(s, t.id)
	if err != nil {
		return fmt.Errorf("change secret: %w", err)
	}
	// Not under the lock: it may take seconds if another node relays the connection.
	var closing sync.WaitGroup
	defer closing.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.now = c
	for conn := range t.conns {
		if !c.believes(conn.leaf) {
			closing.Go(func() { conn.Close() }) //nolint:errcheck // it is unwanted
		}
	}
	return nil
}

// trustedConn is a connection below TLS. From its admission until it is closed it rests on a secret.
type trustedConn struct {
	net.Conn
	trust *trust
	leaf  *x509.Certificate // of the other end; guarded by the trust's mu
}

// admit registers a connection after its handshake, or says why it is refused. There may be most of them.
func (c *trustedConn) admit(state tls.ConnectionState, most int) (kind, why string) {
	t := c.trust
	t.mu.Lock()
	defer t.mu.Unlock()
	switch c.leaf = state.PeerCertificates[0]; {
	case !t.now.believes(c.leaf):
		return KindHandshake, "its secret was dropped meanwhile"
	case len(t.conns) >= most:
		return KindBusy, "too many connections of peers"
	}
	t.conns[c] = struct{}{}
	return "", ""
}

func (c *trustedConn) Close() error {
	err := c.Conn.Close()
	c.trust.mu.Lock()
	defer c.trust.mu.Unlock()
	delete(c.trust.conns, c)
	return err
}
