package peer_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

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
		must(t, err)
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
	must(t, peer.Keygen(path))
	for _, c := range []struct {
		mode        os.FileMode
		credentials string
		ok          bool
	}{
		{0o600, "", true}, {0o640, "", false}, {0o604, "", false}, {0o440, "", false},
		{0o440, filepath.Dir(path), true}, {0o460, filepath.Dir(path), false}, {0o444, filepath.Dir(path), false},
	} {
		t.Setenv("CREDENTIALS_DIRECTORY", c.credentials)
		must(t, os.Chmod(path, c.mode))
		if _, err := peer.Load(path); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("of mode %v, with credentials in %q: %v", c.mode, c.credentials, err)
		}
	}
}

// steps are the secrets of all steps from one secret to the next, the first and the last included.
func steps(t *testing.T) (all []*peer.Secret) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	must(t, peer.Keygen(path))
	for step := range 4 {
		if step > 0 {
			if _, err := peer.Rotate(path); err != nil {
				t.Fatal(err)
			}
		}
		s, err := peer.Load(path)
		must(t, err)
		all = append(all, s)
	}
	return all
}

// The file that a link names changes in three steps, each of which is told without the secret. It stays its owner's when root takes a step: a
// node that runs as another user must read it.
func TestRotateTakesThreeSteps(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "secret"), filepath.Join(dir, "link")
	if _, err := peer.Rotate(path); err == nil {
		t.Error("a file that is not there was rotated")
	}
	must(t, errors.Join(peer.Keygen(path), os.Symlink(path, link)))
	root := os.Geteuid() == 0 // only root can give files away
	if root {
		must(t, os.Chown(path, 1234, 1235))
	}
	read := func() string {
		text, err := os.ReadFile(path)
		must(t, err)
		return string(text)
	}
	first, second := strings.TrimSpace(read()), ""
	for i, want := range []string{"FIRST\nSECOND next\n", "SECOND\nFIRST old\n", "SECOND\n"} {
		next, err := peer.Rotate(link)
		text := read()
		if i == 0 {
			second = strings.TrimSuffix(strings.TrimPrefix(text, first+"\n"), " next\n")
		}
		s, unread := peer.Load(path)
		if err := errors.Join(err, unread); err != nil || text != strings.NewReplacer("FIRST", first, "SECOND", second).Replace(want) {
			t.Fatalf("step %d: %q, want %q; %v", i+1, text, want, err)
		}
		if !strings.HasPrefix(next, fmt.Sprintf("Step %d of 3", i+1)) || strings.Contains(next, first[17:40]) ||
			!strings.Contains(next, "secret "+s.Describe()+"\n") {
			t.Errorf("step %d says %q, and not %s", i+1, next, s.Describe())
		}
	}
	var is unix.Stat_t
	if err := unix.Stat(path, &is); err != nil || is.Mode&0o777 != 0o600 || root && (is.Uid != 1234 || is.Gid != 1235) {
		t.Errorf("mode %o, it belongs to %d:%d, %v", is.Mode, is.Uid, is.Gid, err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("%v is left, %v", all, err)
	}
}

// A node that runs goes from step to step, and nowhere else: its peers would not understand it.
func TestFollow(t *testing.T) {
	s := steps(t)
	for from := range s {
		for to := range s {
			ok := from == 1 || from == 2 || from == 0 && to <= 1 || from == 3 && to >= 2
			if err := s[from].Follow(s[to]); (err == nil) != ok || s[from].Equal(s[to]) != (from == to) {
				t.Errorf("from step %d to %d: %v; taken for equal: %v", from, to, err, s[from].Equal(s[to]))
			}
		}
	}
}

// Peers that are at neighbouring steps call each other, and calls go on while they change; who has not followed at the
// end is out, its open connections included.
func TestCallsGoOnWhileTheSecretChanges(t *testing.T) {
	s := steps(t)
	inBubble(t, func(t *testing.T, w *world) {
		w.every = 10 * time.Millisecond
		var all []*testNode
		for _, id := range []string{"a", "b", "c", "old"} {
			all = append(all, w.node(id, who{secret: s[0]}))
		}
		a, old := all[0], all[3]
		all = all[:3]
		call := func() {
			for _, from := range all {
				for _, to := range all {
					if from != to {
						from.reaches(to.id)
					}
				}
			}
		}
		call()
		old.reaches("a")
		a.reaches("old")
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { // calls all the time, on whatever connections there are
			defer close(done)
			for {
				select {
				case <-stop:
					return
				case <-time.After(7 * time.Millisecond):
					call()
				}
			}
		}()
		for step, secret := range s[1:] {
			for _, n := range all {
				if err := errors.Join(n.server.Rekey(secret), n.client.Rekey(secret)); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				if step == 0 {
					old.reaches("a")
				} else {
					old.ask("a") //nolint:errcheck // which opens connections, as long as it is let in
				}
			}
			time.Sleep(15 * time.Second) // the lines of the step before have ended
		}
		close(stop)
		<-done
		old.fails("a", peer.ErrRefused)
		a.fails("old", peer.ErrRefused)
		for _, n := range all[1:] {
			if f := n.client.Counts().Failures; len(f) > 0 {
				t.Errorf("%s counts %v", n.id, f)
			}
		}
		synctest.Wait()
	})
}

// reluctant accepts connections that take 5 s to close, as those do that a stuck peer relays.
type reluctant struct{ net.Listener }

type reluctantConn struct{ net.Conn }

func (l reluctant) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return reluctantConn{c}, err
}

func (c reluctantConn) Close() error {
	time.Sleep(5 * time.Second)
	return c.Conn.Close()
}

// Calls go on while the connections of a dropped secret close, and these close at once, not one after the other.
func TestClosingConnectionsHoldUpNobody(t *testing.T) {
	s := steps(t)
	inBubble(t, func(t *testing.T, w *world) {
		b := w.node("b", who{secret: s[2], accepts: func(l net.Listener) net.Listener { return reluctant{l} }})
		for _, id := range []string{"x", "y", "z"} {
			if _, err := w.node(id, who{secret: s[1]}).ask("b"); err != nil {
				t.Fatal(err)
			}
		}
		a := w.node("a", who{secret: s[3]})
		begin, changed := time.Now(), make(chan time.Duration)
		go func() {
			if err := b.server.Rekey(s[3]); err != nil {
				t.Error(err)
			}
			changed <- time.Since(begin)
		}()
		synctest.Wait()
		a.reaches("b")
		within(t, "the call", time.Since(begin), 0, time.Second)
		within(t, "the change", <-changed, 5*time.Second, 6*time.Second)
		w.stop()
		time.Sleep(10 * time.Second) // until the other connections have closed
	})
}
