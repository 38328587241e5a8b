// Package sign lets servers see who asks: it signs requests after Web Bot Auth (draft-meunier-web-bot-auth-architecture), which are HTTP
// Message Signatures (RFC 9421) with a key that the operator publishes.
//
// A signature covers the server's name and the place of the directory of keys, so it is of no use at another server. It says nothing of the
// path or the body: it tells who asks, not what for.
//
// The package makes headers and directories. It keeps no key on disk, fetches nothing and verifies nothing. A Signer may be used by several
// goroutines at a time.
package sign

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Validity is how long a signature may be used, from the moment of signing: a connection may have to be made meanwhile, and clocks differ.
const Validity = 5 * time.Minute

// label names the one signature of a request, and the one member of Signature-Agent.
const label = "sig1"

// Signer signs requests with the first of its keys.
type Signer struct {
	key   ed25519.PrivateKey
	keyID string
	agent string
}

// CheckAgent says why agent cannot be where a directory of keys is found: that is an https URL of a host alone.
func CheckAgent(agent string) error {
	u, err := url.Parse(agent)
	if err != nil || u.Scheme != "https" || u.Host == "" || agent != "https://"+u.Host {
		return fmt.Errorf("%q is not of the form https://bot.example.org", agent)
	}
	return nil
}

// New makes a signer. The directory below agent, an https URL of a host alone, must have the public half of key.
func New(agent string, key ed25519.PrivateKey) (*Signer, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, errors.New("make signer: not an Ed25519 key")
	}
	if err := CheckAgent(agent); err != nil {
		return nil, fmt.Errorf("make signer: %w", err)
	}
	return &Signer{key: key, keyID: Thumbprint(key.Public().(ed25519.PublicKey)), agent: agent}, nil
}

// Sign returns a copy of a request's header with a signature for the server of that authority (RFC 9421 section 2.2.3: the host, and the
// port where it is not the scheme's own).
func (s *Signer) Sign(h http.Header, authority string, now time.Time) http.Header {
	var nonce [64]byte
	rand.Read(nonce[:]) //nolint:errcheck // it never fails (crypto/rand)
	input, signature := s.sign(label, label, authority, base64.StdEncoding.EncodeToString(nonce[:]), now, now.Add(Validity))
	h = h.Clone()
	h.Set("Signature-Agent", fmt.Sprintf("%s=%q", label, s.agent))
	h.Set("Signature-Input", input)
	h.Set("Signature", signature)
	return h
}

// sign is the Signature-Input and the Signature of a request whose Signature-Agent has the member agentKey.
func (s *Signer) sign(label, agentKey, authority, nonce string, created, expires time.Time) (input, signature string) {
	params := fmt.Sprintf(`("@authority" "signature-agent";key=%q);created=%d;keyid=%q;alg="ed25519";expires=%d;nonce=%q;tag="web-bot-auth"`,
		agentKey, created.Unix(), s.keyID, expires.Unix(), nonce)
	base := fmt.Sprintf("\"@authority\": %s\n\"signature-agent\";key=%q: %q\n\"@signature-params\": %s", authority, agentKey, s.agent, params)
	return label + "=" + params, fmt.Sprintf("%s=:%s:", label, base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, []byte(base))))
}

// jwk is a public key (RFC 8037 section 2). The first three members are, in this order, what its thumbprint is of.
type jwk struct {
	Curve string `json:"crv"`
	Type  string `json:"kty"`
	X     string `json:"x"`
	ID    string `json:"kid,omitempty"`
	Use   string `json:"use,omitempty"`
}

func jwkOf(key ed25519.PublicKey) jwk {
	return jwk{Curve: "Ed25519", Type: "OKP", X: base64.RawURLEncoding.EncodeToString(key)}
}

// Thumbprint names a public key (RFC 7638; RFC 8037 appendix A.3).
func Thumbprint(key ed25519.PublicKey) string {
	b, err := json.Marshal(jwkOf(key))
	if err != nil {
		panic(err) // three strings
	}
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Directory is the directory of some keys, JSON.
func Directory(keys []ed25519.PrivateKey) ([]byte, error) {
	var d struct {
		Keys []jwk `json:"keys"`
	}
	for _, key := range keys {
		public := key.Public().(ed25519.PublicKey)
		k := jwkOf(public)
		k.ID, k.Use = Thumbprint(public), "sig"
		d.Keys = append(d.Keys, k)
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode directory of keys: %w", err)
	}
	return append(b, '\n'), nil
}
