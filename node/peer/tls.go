package peer

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync"
	"time"
)

// maxID is the length of the longest id. Ids are DNS labels in certificates.
const maxID = 63

// checkID checks that an id can stand in a certificate: lower-case letters, digits and inner hyphens.
func checkID(id string) error {
	if id == "" || len(id) > maxID || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.Trim(id, "-") != id {
		return fmt.Errorf("node id %q is not 1 to %d lower-case letters, digits and inner hyphens", id, maxID)
	}
	return nil
}

// credentials are what a node shows to peers and what it accepts from them.
type credentials struct {
	leaf tls.Certificate
	ca   *x509.CertPool
	// server admits only holders of a certificate of the cluster.
	server *tls.Config
}

// newCredentials makes the certificate of a node. Every holder of the secret derives the same authority from it, so no
// node asks another for a certificate. The key of the certificate lives as long as the process. Of two secrets, the
// first signs, and both authorities are accepted.
func newCredentials(s *Secret, id string) (*credentials, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	c := &credentials{ca: x509.NewCertPool()}
	for i, key := range s.pairs(forCA) {
		ca, err := newAuthority(key)
		if err != nil {
			return nil, err
		}
		c.ca.AddCert(ca)
		if i == 0 {
			if c.leaf, err = newLeaf(id, ca, key); err != nil {
				return nil, err
			}
		}
	}
	c.server = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.leaf}, NextProtos: []string{"h2", linkProtocol},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.ca, VerifyConnection: verifyID,
		// A session ticket would be accepted without another look at the certificate.
		SessionTicketsDisabled: true,
	}
	return c, nil
}

// lifetime is that of all certificates. Holders of the secret can make one at any time, so expiry would protect
// nothing, and would stop nodes with wrong clocks. RFC 5280 defines the last date as "does not expire".
func lifetime() (from, to time.Time) {
	return time.Unix(0, 0).UTC(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
}

func newAuthority(key ed25519.PrivateKey) (*x509.Certificate, error) {
	from, to := lifetime()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "proxima cluster"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err == nil {
		ca, err = x509.ParseCertificate(der)
	}
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	return ca, nil
}

func newLeaf(id string, ca *x509.Certificate, key ed25519.PrivateKey) (tls.Certificate, error) {
	from, to := lifetime()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make key of certificate: %w", err)
	}
	leaf := &x509.Certificate{ // it gets a random serial number
		Subject: pkix.Name{CommonName: id}, DNSNames: []string{id}, NotBefore: from, NotAfter: to,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, public, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate of %s: %w", id, err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}

// believes reports whether the certificate of a node is signed with an accepted secret.
func (c *credentials) believes(leaf *x509.Certificate) bool {
	_, err := leaf.Verify(x509.VerifyOptions{Roots: c.ca, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

// linkProtocol is the ALPN protocol of connections without calls: links, and the other connections of package relay.
const linkProtocol = "proxima-link/1"

// client returns the TLS configuration to reach the node with an id, and no other.
func (c *credentials) client(to string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{c.leaf}, NextProtos: []string{"h2"},
		RootCAs: c.ca, ServerName: to, VerifyConnection: verifyID,
	}
}

// verifyID refuses certificates that do not name exactly one node. TLS has verified that they are of the cluster.
func verifyID(state tls.ConnectionState) error {
	_, err := idOf(&state)
	return err
}

// idOf returns the id of the node at the other end. The state is nil without TLS.
func idOf(state *tls.ConnectionState) (string, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return "", errors.New("peer has shown no certificate")
	}
	c := state.PeerCertificates[0]
	if len(c.DNSNames) != 1 || c.DNSNames[0] != c.Subject.CommonName || checkID(c.DNSNames[0]) != nil {
		return "", fmt.Errorf("peer's certificate names %q as %q, not one node", c.Subject.CommonName, c.DNSNames)
	}
	return c.DNSNames[0], nil
}

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
