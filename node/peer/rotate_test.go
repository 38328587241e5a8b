package peer_test

import (
	"bytes"
	"errors"
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

// steps are the secrets of all steps from one secret to the next, the first and the last included.
func steps(t *testing.T) (all []*peer.Secret) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := peer.Keygen(path); err != nil {
		t.Fatal(err)
	}
	for step := range 4 {
		if step > 0 {
			if _, err := peer.Rotate(path); err != nil {
				t.Fatal(err)
			}
		}
		s, err := peer.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

func TestRotateTakesThreeSteps(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	if _, err := peer.Rotate(path); err == nil {
		t.Error("a file that is not there was rotated")
	}
	if err := peer.Keygen(path); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	read := func() (lines [][]byte) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	}
	first := read()[0]
	step := func(begins string) (next string) {
		next, err := peer.Rotate(link)
		if err != nil || !strings.HasPrefix(next, begins) || strings.Contains(next, string(first[17:40])) {
			t.Errorf("%q, %v", next, err)
		}
		s, err := peer.Load(path)
		if err != nil || !strings.Contains(next, "secret "+s.Describe()+"\n") {
			t.Errorf("%q does not say %v, %v", next, s, err)
		}
		return next
	}
	step("Step 1 of 3")
	lines := read()
	if len(lines) != 2 || !bytes.Equal(lines[0], first) || !bytes.HasSuffix(lines[1], []byte(" next")) {
		t.Fatalf("step 1: %q", lines)
	}
	second := bytes.TrimSuffix(lines[1], []byte(" next"))
	step("Step 2 of 3")
	if lines = read(); len(lines) != 2 || !bytes.Equal(lines[0], second) || string(lines[1]) != string(first)+" old" {
		t.Fatalf("step 2: %q", lines)
	}
	step("Step 3 of 3")
	if lines = read(); len(lines) != 1 || !bytes.Equal(lines[0], second) {
		t.Fatalf("step 3: %q", lines)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
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
			ok := from == to || from == 1 || from == 2 || to == from+1
			switch {
			case from == 0:
				ok = to <= 1
			case from == 3:
				ok = to >= 2
			}
			if err := s[from].Follow(s[to]); (err == nil) != ok {
				t.Errorf("from step %d to %d: %v", from, to, err)
			}
			if s[from].Equal(s[to]) != (from == to) {
				t.Errorf("steps %d and %d are taken for equal, or not", from, to)
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
			n := w.node(id, who{secret: s[0]})
			all = append(all, n)
		}
		call := func(when string) {
			for _, from := range all[:3] {
				for _, to := range all[:3] {
					if from == to {
						continue
					}
					if _, err := from.ask(to.id); err != nil {
						t.Errorf("%s: %s to %s: %v", when, from.id, to.id, err)
					}
				}
			}
		}
		call("before")
		if _, err := all[3].ask("a"); err != nil {
			t.Error(err)
		}
		if _, err := all[0].ask("old"); err != nil {
			t.Error(err)
		}
		stop, done := make(chan struct{}), make(chan struct{})
		go func() { // calls all the time, on whatever connections there are
			defer close(done)
			for {
				select {
				case <-stop:
					return
				case <-time.After(7 * time.Millisecond):
					call("meanwhile")
				}
			}
		}()
		for step, secret := range s[1:] {
			for _, n := range all[:3] {
				if err := errors.Join(n.server.Rekey(secret), n.client.Rekey(secret)); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Second)
				if _, err := all[3].ask("a"); step == 0 && err != nil {
					t.Errorf("a node without the new secret, at step 1: %v", err)
				}
			}
			time.Sleep(15 * time.Second) // the lines of the step before have ended
		}
		close(stop)
		<-done
		if _, err := all[3].ask("a"); !errors.Is(err, peer.ErrRefused) {
			t.Errorf("the old one calls: %v", err)
		}
		if _, err := all[0].ask("old"); !errors.Is(err, peer.ErrRefused) {
			t.Errorf("the old one is called: %v", err)
		}
		for _, n := range all[:3] {
			if f := n.client.Counts().Failures; n != all[0] && len(f) > 0 {
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
		if _, err := a.ask("b"); err != nil {
			t.Error(err)
		}
		within(t, "the call", time.Since(begin), 0, time.Second)
		within(t, "the change", <-changed, 5*time.Second, 6*time.Second)
		w.stop()
		time.Sleep(10 * time.Second) // until the other connections have closed
	})
}

// The file stays its owner's when root takes a step: a node that runs as another user must read it.
func TestRotateKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := peer.Keygen(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 1234, 1235); err != nil {
		t.Fatal(err)
	}
	if _, err := peer.Rotate(path); err != nil {
		t.Fatal(err)
	}
	var is unix.Stat_t
	if err := unix.Stat(path, &is); err != nil || is.Uid != 1234 || is.Gid != 1235 {
		t.Errorf("it belongs to %d:%d, %v", is.Uid, is.Gid, err)
	}
}
