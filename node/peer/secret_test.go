package peer_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"proxima/node/peer"
)

// A secret is made once. All nodes derive the same keys from it, and others from another one.
func TestKeygenMakesASecretOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	var keys [][]byte
	for life := range 2 {
		if err := peer.Keygen(path); (err == nil) != (life == 0) {
			t.Fatalf("life %d: %v", life, err)
		}
		s, err := peer.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, s.GossipKeys()...)
	}
	if len(keys) != 2 || len(keys[0]) != 32 || !bytes.Equal(keys[0], keys[1]) || bytes.Equal(keys[0], secretOf(9).GossipKeys()[0]) {
		t.Errorf("gossip keys %x", keys)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(text), "proxima-secret-1 ") || bytes.Count(text, []byte("\n")) != 1 {
		t.Errorf("%v, %d bytes", err, len(text))
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
}

func TestSecretDoesNotPrint(t *testing.T) {
	s := peer.NewSecret([32]byte([]byte("Sesame open! Sesame open! Sesame")))
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).Info("secret", "s", s)
	fmt.Fprintf(&b, "%v %+v %#v %s %x %d", s, s, s, s, s, *s)
	if t.Logf("%s", b.String()); strings.Contains(b.String(), "Sesame") || strings.Contains(b.String(), "536573") ||
		strings.Contains(b.String(), "83 101") {
		t.Error("the secret is shown")
	}
}

func TestParseSecretRefuses(t *testing.T) {
	good := "proxima-secret-1 " + strings.Repeat("A", 43) + "="
	if _, err := peer.ParseSecret([]byte(good + "\n")); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "\n", "proxima-secret-2 " + strings.Repeat("A", 43) + "=", good + "=", good[:40],
		strings.Replace(good, "A=", "A\n", 1), "proxima-secret-1 " + strings.Repeat("A", 42) + "B=", good + "\n" + good,
		strings.Replace(good, "A", "?", 1)} {
		_, err := peer.ParseSecret([]byte(text))
		if err == nil {
			t.Errorf("%q is a secret", text)
		} else if strings.Contains(err.Error(), strings.Repeat("A", 20)) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func FuzzParseSecret(f *testing.F) {
	f.Add([]byte("proxima-secret-1 " + strings.Repeat("A", 43) + "=\n"))
	f.Add([]byte("proxima-secret-1 \r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := peer.ParseSecret(text)
		if (s == nil) == (err == nil) {
			t.Fatalf("%v and %v", s, err)
		}
	})
}

func TestValidateReportsEverything(t *testing.T) {
	if err := peer.Default().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		listen, secret string
		ok             bool
	}{
		{"127.0.0.1:1", "", true}, {"[::1]:1", "", true}, {"localhost:0", "", true}, {":7947", "", false},
		{"0.0.0.0:7947", "", false}, {"192.0.2.1:7947", "", false}, {"example.org:1", "", false},
		{":7947", "file", false}, {"192.0.2.1:7947", "file", true}, {"7947", "file", false},
	} {
		cfg := peer.Default()
		cfg.Listen, cfg.Secret = c.listen, c.secret
		if err := cfg.Validate(); (err == nil) != c.ok {
			t.Errorf("listen %q with secret %q: %v", c.listen, c.secret, err)
		}
	}
}

// A secret is for its owner only. A credential of systemd looks as if a group might read it.
func TestWhoMayReadASecret(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has other permissions")
	}
	path := filepath.Join(t.TempDir(), "proxima.secret")
	if err := peer.Keygen(path); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode        os.FileMode
		credentials string
		ok          bool
	}{
		{0o600, "", true}, {0o640, "", false}, {0o604, "", false}, {0o440, "", false},
		{0o440, filepath.Dir(path), true}, {0o460, filepath.Dir(path), false}, {0o444, filepath.Dir(path), false},
	} {
		t.Setenv("CREDENTIALS_DIRECTORY", c.credentials)
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := peer.Load(path); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("of mode %v, with credentials in %q: %v", c.mode, c.credentials, err)
		}
	}
}
