package peer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"proxima/node/strict"
)

// secretPrefix opens each line of a secret file: name and version.
const secretPrefix = "proxima-secret-1 "

// SecretEvery is how often a running node checks whether its secret file has changed.
const SecretEvery = 3 * time.Second

// Purposes of derived keys (RFC 5869). One key reveals nothing about another.
const (
	forGossip = "proxima 1 gossip"
	forCA     = "proxima 1 certificate authority"
	forName   = "proxima 1 fingerprint"
	forSites  = "proxima 1 signature of requests"
	forOwners = "proxima 1 tokens of web masters"
)

// Secret is what all nodes of one cluster share and nobody else knows. It is never sent, and it prints as "(secret)",
// so no log shows it. While it is being changed (Rotate) it is two secrets: the first is used, both are accepted. The
// zero Secret is not usable.
type Secret struct {
	keys [][32]byte
	// mark says what the second key is for: markNext or markOld.
	mark string
}

// Marks of a second secret: it will be used, or was used.
const (
	markNext = "next"
	markOld  = "old"
)

// NewSecret makes a secret of 32 random bytes.
func NewSecret(key [32]byte) *Secret { return &Secret{keys: [][32]byte{key}} }

// Format hides the secret, whatever verb prints it.
func (s Secret) Format(f fmt.State, _ rune) {
	io.WriteString(f, "(secret)") //nolint:errcheck // Format cannot return it
}

// GossipKeys returns the keys that encrypt gossip, 32 bytes each for AES-256: the first is used, all are accepted.
func (s *Secret) GossipKeys() [][]byte { return s.each(forGossip) }

// SiteKeys returns the keys that sign requests to web servers: the first is used, all are in the directory.
func (s *Secret) SiteKeys() []ed25519.PrivateKey { return s.pairs(forSites) }

// OwnerKeys returns the keys of the tokens by which web masters prove what is theirs: the first is used, all are
// accepted.
func (s *Secret) OwnerKeys() [][]byte { return s.each(forOwners) }

// each derives a key of 32 bytes from each secret for one purpose.
func (s *Secret) each(purpose string) (keys [][]byte) {
	for _, key := range s.keys {
		keys = append(keys, derive(key, purpose, 32))
	}
	return keys
}

// pairs derives a key pair from each secret for one purpose.
func (s *Secret) pairs(purpose string) (keys []ed25519.PrivateKey) {
	for _, seed := range s.each(purpose) {
		keys = append(keys, ed25519.NewKeyFromSeed(seed))
	}
	return keys
}

// Describe names the accepted secrets by fingerprint, the one in use first.
func (s *Secret) Describe() string {
	if len(s.keys) < 2 {
		return fingerprint(s.keys[0])
	}
	return fmt.Sprintf("%s, %s %s", fingerprint(s.keys[0]), s.mark, fingerprint(s.keys[1]))
}

// Equal reports whether two secrets are used and accepted alike.
func (s *Secret) Equal(o *Secret) bool { return s.mark == o.mark && slices.Equal(s.keys, o.keys) }

// Follow returns why a running node with this secret must not change to next, or nil: its peers must already accept
// what it would use.
func (s *Secret) Follow(next *Secret) error {
	if slices.Contains(s.keys, next.keys[0]) {
		return nil
	}
	return fmt.Errorf("its first secret, %s, is none of those that were accepted until now (%s)", fingerprint(next.keys[0]), s.Describe())
}

func fingerprint(key [32]byte) string { return hex.EncodeToString(derive(key, forName, 4)) }

// derive makes a key by HKDF-SHA256 (RFC 5869). The secret is uniformly random, so it needs no salt.
func derive(key [32]byte, purpose string, size int) []byte {
	derived, _ := hkdf.Key(sha256.New, key[:], nil, purpose, size) // only sizes above 255 hashes fail
	return derived
}

// Keygen writes a new secret to a file that only its owner can read. It never overwrites a file.
func Keygen(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make secret file: %s is there already, and is not overwritten: -rotate changes the secret of running nodes", path)
	}
	if err != nil {
		return fmt.Errorf("make secret file: %w", err)
	}
	_, err = f.Write(NewSecret(newKey()).text())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write secret file %s: %w", path, err), os.Remove(path))
	}
	return nil
}

func newKey() (key [32]byte) {
	_, _ = rand.Read(key[:]) // never fails
	return key
}

// text returns the content of the file: a line for each secret, the second with its mark.
func (s *Secret) text() []byte {
	var b []byte
	for i, key := range s.keys {
		b = append(b, secretPrefix+base64.StdEncoding.EncodeToString(key[:])...)
		if i > 0 {
			b = append(b, " "+s.mark...)
		}
		b = append(b, '\n')
	}
	return b
}

// Load reads a secret file. It refuses one that other users may read.
func Load(path string) (*Secret, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no secret file %s: proxima keygen %[1]s makes one", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open secret file: %w", err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err := f.Stat(); err != nil {
		return nil, fmt.Errorf("look at secret file %s: %w", path, err)
	} else if info.IsDir() {
		return nil, fmt.Errorf("secret file %s is no file", path)
	} else if err := strict.Private(path, info); err != nil {
		return nil, fmt.Errorf("secret file %w", err)
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

// ParseSecret parses the text of a secret file. Its errors do not show the text.
func ParseSecret(text []byte) (*Secret, error) {
	s := &Secret{}
	for line := range bytes.SplitSeq(bytes.TrimRight(text, "\r\n"), []byte("\n")) {
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(s.keys) == 1 {
			for _, mark := range []string{markNext, markOld} {
				if rest, ok := bytes.CutSuffix(line, []byte(" "+mark)); ok {
					line, s.mark = rest, mark
				}
			}
			if s.mark == "" {
				return nil, fmt.Errorf("its second line does not end in %q or %q", markNext, markOld)
			}
		}
		key, err := parseKey(line)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(s.keys, key):
			return nil, errors.New("it has one secret twice")
		case len(s.keys) == 2:
			return nil, errors.New("it has more than two secrets")
		}
		s.keys = append(s.keys, key)
	}
	return s, nil
}

func parseKey(line []byte) (key [32]byte, err error) {
	coded, ok := bytes.CutPrefix(line, []byte(secretPrefix))
	if !ok {
		return key, fmt.Errorf("it does not begin with %q: no secret of this version", secretPrefix)
	}
	// Decode ignores line breaks; a secret has none.
	if len(coded) != base64.StdEncoding.EncodedLen(len(key)) || bytes.ContainsAny(coded, "\r\n") {
		return key, fmt.Errorf("a secret of %d characters, not %d", len(coded), base64.StdEncoding.EncodedLen(len(key)))
	}
	b, err := base64.StdEncoding.Strict().DecodeString(string(coded))
	if err != nil || len(b) != len(key) {
		return key, errors.New("the secret is not base64")
	}
	copy(key[:], b)
	return key, nil
}

// Rotate takes a secret file one step further towards a new secret, and returns what to do next. Nodes at neighbouring
// steps understand each other, so the file may reach them one by one:
//
//  1. A new secret is added. Nodes accept it and use the old one.
//  2. The two change places. Nodes use the new one and accept the old one.
//  3. The old one is dropped.
func Rotate(path string) (next string, err error) {
	// Replace the file, not a link to it.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("find secret file: %w", err)
	}
	s, err := Load(path)
	if err != nil {
		return "", err
	}
	var step string
	switch {
	case len(s.keys) == 1:
		s = &Secret{keys: [][32]byte{s.keys[0], newKey()}, mark: markNext}
		step = "Step 1 of 3: a new secret is accepted, and not used yet."
	case s.mark == markNext:
		s = &Secret{keys: [][32]byte{s.keys[1], s.keys[0]}, mark: markOld}
		step = "Step 2 of 3: the new secret is used, and the old one still accepted."
	default:
		s = NewSecret(s.keys[0])
		step = "Step 3 of 3: the old secret is dropped."
	}
	if err := replace(path, s.text()); err != nil {
		return "", err
	}
	step += fmt.Sprintf(`
Now copy %s to every node. Running nodes read it within %v, without a stop; then
"proxima status" says there: secret %s
`, path, SecretEvery, s.Describe())
	if s.mark == "" {
		return step + "A node that does not get the file is shut out from then on. That is all.\n", nil
	}
	return step + `When all nodes say so, and no sooner, run this again for the next step. A node that is away
meanwhile needs the file before it comes back.
`, nil
}

// replace replaces a file in one step: after a crash it is either the old one or the new one. Its owner stays the same: root may take a step
// for a node that runs as another user.
func replace(path string, text []byte) error {
	var was unix.Stat_t
	if err := unix.Stat(path, &was); err != nil {
		return fmt.Errorf("look at secret file %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // nobody else may read it
	if err != nil {
		return fmt.Errorf("make secret file: %w", err)
	}
	_, err = f.Write(text)
	if os.Geteuid() == 0 {
		err = errors.Join(err, f.Chown(int(was.Uid), int(was.Gid)))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write secret file %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
