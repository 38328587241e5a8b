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
	"time"
)

// maxID is the length of the longest id: ids stand in certificates as DNS labels.
const maxID = 63

// checkID says whether an id can stand in a certificate: lower case letters, digits and inner hyphens.
func checkID(id string) error {
	if id == "" || len(id) > maxID || id[0] == '-' || id[len(id)-1] == '-' {
		return fmt.Errorf("node id %q has not 1 to %d letters and digits", id, maxID)
	}
	for _, c := range []byte(id) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("node id %q has other than lower case letters, digits and hyphens", id)
		}
	}
	return nil
}

// credentials are what a node shows to peers and believes of them.
type credentials struct {
	leaf tls.Certificate
	ca   *x509.CertPool
	// server lets in only those who hold a certificate of the cluster.
	server *tls.Config
}

// newCredentials makes the certificate of a node. Every holder of the secret derives the same authority from it, so no node
// asks another for a certificate, and none has to be distributed. The key of the leaf lives as long as the process.
func newCredentials(s *Secret, id string) (*credentials, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	key, err := s.caKey()
	if err != nil {
		return nil, err
	}
	// Whoever holds the secret can make a certificate at any time: an expiry would protect nothing, and stop nodes whose
	// clocks are wrong. RFC 5280 has this date for "does not expire".
	from, to := time.Unix(0, 0).UTC(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "proxima cluster"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	if ca, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key of certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial of certificate: %w", err)
	}
	leaf := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: id}, DNSNames: []string{id}, NotBefore: from, NotAfter: to,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if der, err = x509.CreateCertificate(rand.Reader, leaf, ca, public, key); err != nil {
		return nil, fmt.Errorf("make certificate of %s: %w", id, err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	i := &credentials{leaf: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, ca: pool}
	i.server = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.leaf}, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: i.ca, VerifyConnection: verifyID,
		// A ticket would be accepted without the certificate being looked at again.
		SessionTicketsDisabled: true,
	}
	return i, nil
}

// client speaks only with the node of that id.
func (i *credentials) client(to string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{i.leaf}, NextProtos: []string{"h2"},
		RootCAs: i.ca, ServerName: to, VerifyConnection: verifyID,
	}
}

// verifyID refuses certificates that do not name exactly one node. That they are of the cluster was verified before.
func verifyID(state tls.ConnectionState) error {
	_, err := idOf(state)
	return err
}

// idOf is the node at the other end of a connection.
func idOf(state tls.ConnectionState) (string, error) {
	if len(state.PeerCertificates) == 0 {
		return "", errors.New("peer has shown no certificate")
	}
	c := state.PeerCertificates[0]
	if len(c.DNSNames) != 1 || c.DNSNames[0] != c.Subject.CommonName || checkID(c.DNSNames[0]) != nil {
		return "", fmt.Errorf("peer's certificate names %q as %q, not one node", c.Subject.CommonName, c.DNSNames)
	}
	return c.DNSNames[0], nil
}
