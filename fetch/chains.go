package fetch

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// chains verifies the certificates of servers as crypto/tls does, and remembers those between theirs and the authorities. Some servers leave
// these out. Browsers do not mind, as they know them from other servers or fetch them. It is safe for concurrent use.
type chains struct {
	roots *x509.CertPool // nil means the system's

	// mu guards what follows.
	mu    sync.Mutex
	known *simplelru.LRU[[sha256.Size]byte, *x509.Certificate] // each was part of a chain to an authority
}

const (
	// maxKnown bounds the remembered certificates, some 5 KB each. Few more are in use on the web.
	maxKnown = 1000
	// maxChain is how many certificates of a server are completed.
	maxChain = 10
)

func newChains(roots *x509.CertPool) *chains {
	known, _ := simplelru.NewLRU[[sha256.Size]byte, *x509.Certificate](maxKnown, nil) // it fails only for a size below one
	return &chains{roots: roots, known: known}
}

// verifier returns what tls.Config calls to verify the server of a name. That must take the place of its own verification.
func (c *chains) verifier(name string) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		certs := state.PeerCertificates
		opts := x509.VerifyOptions{Roots: c.roots, DNSName: name, Intermediates: x509.NewCertPool()}
		for _, cert := range certs[1:] {
			opts.Intermediates.AddCert(cert)
		}
		found, err := certs[0].Verify(opts)
		if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
			for _, cert := range c.missing(certs) {
				opts.Intermediates.AddCert(cert)
			}
			found, err = certs[0].Verify(opts)
		}
		if err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: certs, Err: err}
		}
		c.remember(found[0])
		return nil
	}
}

// missing returns remembered certificates that may have signed those of a server, or each other.
func (c *chains) missing(certs []*x509.Certificate) []*x509.Certificate {
	certs = slices.Clone(certs[:min(len(certs), maxChain)])
	had := len(certs)
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.known.Values()
	for i := 0; i < len(certs); i++ {
		for _, known := range all {
			if bytes.Equal(known.RawSubject, certs[i].RawIssuer) && !slices.Contains(certs, known) {
				certs = append(certs, known)
			}
		}
	}
	return certs[had:]
}

// remember keeps what is between the two ends of a chain.
func (c *chains) remember(chain []*x509.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 1; i < len(chain)-1; i++ {
		c.known.Add(sha256.Sum256(chain[i].Raw), chain[i])
	}
}
