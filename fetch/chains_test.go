package fetch

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// authority is a certificate that signs others.
type authority struct {
	*x509.Certificate
	key *ecdsa.PrivateKey
}

// sign makes a certificate; the zero authority signs itself. It is that of an authority, or of a server of this name.
func (a authority) sign(t *testing.T, subject string, isCA bool) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: subject}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature}
	if isCA {
		cert.KeyUsage = x509.KeyUsageCertSign
	} else {
		cert.DNSNames = []string{subject}
	}
	if a.Certificate == nil {
		a = authority{cert, key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, cert, a.Certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// A server that leaves out the certificates between its own and the authority is believed once others have sent them, and only for its name. A
// certificate that only claims to come from there is not.
func TestIncompleteChains(t *testing.T) {
	root := authority{}.sign(t, "root", true)
	first := root.sign(t, "first", true)
	second := first.sign(t, "second", true)
	forged := authority{}.sign(t, "root", true).sign(t, "first", true).sign(t, "second", true)
	whole, bare := second.sign(t, "whole.example", false), second.sign(t, "bare.example", false)
	half, liar := second.sign(t, "half.example", false), forged.sign(t, "liar.example", false)
	servers := map[string]dialer{}
	for name, sent := range map[string][]authority{"whole": {whole, second, first}, "bare": {bare}, "half": {half, second}, "liar": {liar}, "lone": {first.sign(t, "lone.example", false)}} {
		cert := tls.Certificate{PrivateKey: sent[0].key}
		for _, c := range sent {
			cert.Certificate = append(cert.Certificate, c.Raw)
		}
		servers[name] = serveTLS(t, cert, "http/1.1", 0, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	}
	roots := x509.NewCertPool()
	roots.AddCert(root.Certificate)
	var to string
	c := newClient(t, testConfig(), Deps{RootCAs: roots, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		return servers[to](ctx, network, address)
	}})
	for _, step := range []struct {
		server, name string
		want         Class
	}{
		{"bare", "bare", TLS}, {"half", "half", TLS}, {"lone", "lone", TLS},
		{"whole", "other", TLS}, {"half", "half", TLS}, // what is refused teaches nothing
		{"whole", "whole", OK},
		{"bare", "bare", OK}, {"half", "half", OK}, {"lone", "lone", OK},
		{"bare", "half", TLS}, {"liar", "liar", TLS},
	} {
		to = step.server
		res := c.Get(t.Context(), Request{URL: "https://" + step.name + ".example/", Addr: testAddr, Fresh: true})
		if res.Class != step.want || step.want == TLS && !strings.Contains(res.Err.Error(), "x509: ") {
			t.Errorf("%s asked for %s: class %q, %v", step.server, step.name, res.Class, res.Err)
		}
		res.Release()
	}
}

// What is remembered is bounded, and so is the work on what a server sends.
func TestChainsAreBounded(t *testing.T) {
	c := newChains(nil)
	issuer := []byte("issuer")
	for i := range maxKnown + 10 {
		c.remember([]*x509.Certificate{nil, {Raw: big.NewInt(int64(i)).Bytes(), RawSubject: issuer, RawIssuer: issuer}, nil})
	}
	certs := make([]*x509.Certificate, 100)
	for i := range certs {
		certs[i] = &x509.Certificate{}
	}
	certs[maxChain].RawIssuer = issuer
	if n := c.known.Len(); n != maxKnown || len(c.missing(certs)) > 0 {
		t.Errorf("%d are remembered, %d completed", n, len(c.missing(certs)))
	}
	certs[maxChain-1].RawIssuer = issuer
	if n := len(c.missing(certs)); n != maxKnown {
		t.Errorf("%d of %d found", n, maxKnown)
	}
}
