package peer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
)

// secretPrefix opens the line of a secret file: its name and version.
const secretPrefix = "proxima-secret-1 "

// What keys are made for, after RFC 5869: a key says nothing about another.
const (
	forGossip = "proxima 1 gossip"
	forCA     = "proxima 1 certificate authority"
)

// Secret is what all nodes of one cluster share and nobody else knows. It is never sent. It prints as a word, so that
// no log shows it. The zero Secret is not usable.
type Secret struct {
	key [32]byte
}

// NewSecret makes a secret of 32 random bytes.
func NewSecret(key [32]byte) *Secret { return &Secret{key: key} }

// Format hides the secret, whatever it is printed with.
func (s Secret) Format(f fmt.State, _ rune) {
	io.WriteString(f, "(secret)") //nolint:errcheck // fmt has no place for it
}

// GossipKey returns the 32 bytes that encrypt gossip, AES-256.
func (s *Secret) GossipKey() ([]byte, error) { return s.derive(forGossip, 32) }

// caKey signs the certificates of all nodes.
func (s *Secret) caKey() (ed25519.PrivateKey, error) {
	seed, err := s.derive(forCA, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// derive makes a key by HKDF-SHA256 (RFC 5869). The secret is uniformly random: it needs no salt.
func (s *Secret) derive(purpose string, size int) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, s.key[:], nil, purpose, size)
	if err != nil {
		return nil, fmt.Errorf("derive key for %s: %w", purpose, err)
	}
	return key, nil
}

// Keygen writes a new secret to a file that only its owner can read. It never overwrites one.
func Keygen(path string) error {
	var key [32]byte
	if _, err := rand.Read(key[:]); err != nil {
		return fmt.Errorf("make secret: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make secret file: %w", err)
	}
	_, err = f.WriteString(secretPrefix + base64.StdEncoding.EncodeToString(key[:]) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write secret file %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// Load reads a secret file. One that others on the machine may read is refused.
func Load(path string) (*Secret, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open secret file: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("look at secret file %s: %w", path, err)
	} else if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("secret file %s is open to others (%v): chmod 600 %s", path, mode, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return nil, fmt.Errorf("read secret file %s: %w", path, err)
	}
	s, err := ParseSecret(text)
	if err != nil {
		return nil, fmt.Errorf("read secret file %s: %w", path, err)
	}
	return s, nil
}

// ParseSecret reads the text of a secret file. Its errors do not show the text.
func ParseSecret(text []byte) (*Secret, error) {
	line := bytes.TrimRight(text, "\r\n")
	coded, ok := bytes.CutPrefix(line, []byte(secretPrefix))
	if !ok {
		return nil, fmt.Errorf("it does not begin with %q: no secret of this version", secretPrefix)
	}
	s := &Secret{}
	// Decode skips line breaks of its own accord; a secret has none.
	if len(coded) != base64.StdEncoding.EncodedLen(len(s.key)) || bytes.ContainsAny(coded, "\r\n") {
		return nil, fmt.Errorf("a secret of %d characters, not %d", len(coded), base64.StdEncoding.EncodedLen(len(s.key)))
	}
	key, err := base64.StdEncoding.Strict().DecodeString(string(coded))
	if err != nil || len(key) != len(s.key) {
		return nil, errors.New("the secret is not base64")
	}
	copy(s.key[:], key)
	return s, nil
}
