package console

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"proxima/node/strict"
)

// Config is the section of the console.
type Config struct {
	// Listen is the host:port of the operators' web page and of the API behind it. Without a host (":8300") only this
	// machine can reach it, but every user of it can. Any other address needs token_file, tls_cert and tls_key. Empty:
	// neither is served.
	Listen string `toml:"listen"`
	// TokenFile lists the tokens that open the page, one per line: a name for the log, and at least 32 characters that
	// nobody can guess (openssl rand -hex 32). Only the node's user may be able to read it. Empty: whoever reaches the
	// address may use the page.
	TokenFile string `toml:"token_file"`
	// TLSCert is the certificate file for https, with the chain to its issuer.
	TLSCert string `toml:"tls_cert"`
	// TLSKey is the file of its private key.
	TLSKey string `toml:"tls_key"`
}

// CheckListen returns an error for an address at which nobody can listen. It may be empty.
func CheckListen(address string) error {
	if _, _, err := strict.HostPort(address); err != nil && address != "" {
		return fmt.Errorf("listen: %w", err)
	}
	return nil
}

// Validate reports the first invalid value.
func (c Config) Validate() error {
	if err := CheckListen(c.Listen); err != nil || c.Listen == "" {
		return err
	}
	host, _, _ := net.SplitHostPort(c.Listen)
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return fmt.Errorf("tls_key: a certificate and its key belong together")
	case !loopback(host) && (c.TLSCert == "" || c.TokenFile == ""):
		return fmt.Errorf("listen: others can reach %s: that needs token_file, tls_cert and tls_key", c.Listen)
	}
	return nil
}

// loopback reports whether only this machine can reach a listening host. Of names, it trusts localhost alone.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || host == "localhost" || err == nil && addr.IsLoopback()
}

// Address returns the address to listen on, which is loopback if no host is given, or "".
func (c Config) Address() string {
	if strings.HasPrefix(c.Listen, ":") {
		return "127.0.0.1" + c.Listen
	}
	return c.Listen
}

// shortest is the minimum length of a token.
const shortest = 32

// tokens reads the token file and maps the digests of tokens to names. It returns nil if none is configured.
func (c Config) tokens() (map[[sha256.Size]byte]string, error) {
	if c.TokenFile == "" {
		return nil, nil
	}
	info, err := os.Stat(c.TokenFile)
	if err == nil {
		err = strict.Private(c.TokenFile, info)
	}
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	text, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("read tokens: %w", err)
	}
	names := map[[sha256.Size]byte]string{}
	for i, line := range strings.Split(string(text), "\n") {
		switch words := strings.Fields(line); {
		case len(words) == 0 || strings.HasPrefix(line, "#"):
		case len(words) != 2 || len(words[1]) < shortest:
			return nil, fmt.Errorf("read tokens: %s:%d: not a name and a token of at least %d characters", c.TokenFile, i+1, shortest)
		default:
			names[sha256.Sum256([]byte(words[1]))] = words[0]
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("read tokens: %s has none", c.TokenFile)
	}
	return names, nil
}

// papers are what the files of a configuration say.
type papers struct {
	names map[[sha256.Size]byte]string // by the digests of tokens; nil admits everybody
	cert  *tls.Certificate             // nil without TLS
}

// papers reads the files. Of what cannot be read, it returns what was read before.
func (c Config) papers(was papers) (papers, error) {
	names, unknown := c.tokens()
	if unknown == nil {
		was.names = names
	}
	if c.TLSCert == "" {
		return was, unknown
	}
	cert, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
	if err != nil {
		return was, errors.Join(unknown, fmt.Errorf("read certificate: %w", err))
	}
	was.cert = &cert
	return was, unknown
}
