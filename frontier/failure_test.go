package frontier

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// ends waits for the end of a frontier that fails, and returns why it has ended.
func (l *life) ends() error {
	l.over <- <-l.over
	return l.halt()
}

// After a write that failed nothing is accepted any more. The frontier ends with the first error.
func TestFailedWriteEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t)(testConfig())
		l.add(page("http://h1.test", 1))
		synctest.Wait() // otherwise the ledger may see the failure, and close, before the next request
		l.ledger.fail(errBroken)
		l.ledger.fail(errors.New("another"))
		if _, err := l.Add(t.Context(), pages("http://h2.test", 1, 1)); !errors.Is(err, errBroken) {
			t.Errorf("a link is added: %v", err)
		}
		if err := l.ends(); !errors.Is(err, errBroken) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// A drop that fails between two of its transactions ends all: what is in memory is no longer what is on disk.
func TestHalfADropEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		cfg, polite := testConfig()
		cfg.MaxHostURLs = 0
		l, arm := breaking(t, "", cfg, polite, true)
		n := 2*maxAtomicKeys + 1
		for i := range n {
			l.add(page(host, i)) // each in a block of its own
		}
		arm(1)
		if _, err := l.DropHost(t.Context(), host, "test"); !errors.Is(err, errBroken) {
			t.Fatalf("the host is dropped with %v", err)
		}
		if v, err := l.Add(t.Context(), pages(host, 0, n)); err == nil {
			t.Errorf("%d of %d URLs are known, although many blocks are gone", count(v, Duplicate), n)
		}
		if err := l.halt(); !errors.Is(err, errBroken) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// A request that the store refuses fails, and the next ones do not.
func TestRefusedWriteFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t)(testConfig())
		for _, op := range []func(b *batch, key []byte){func(b *batch, key []byte) { b.set(key, nil) }, func(b *batch, key []byte) { b.del(key) }} {
			err := l.ledger.do(t.Context(), together, func(b *batch) error {
				op(b, make([]byte, 1<<17)) // a key that is too long
				op(b, []byte{keyVersion, kindShelf, 'x'})
				return nil
			})
			if err == nil || !strings.Contains(err.Error(), "write to store") {
				t.Errorf("a key that is too long was written: %v", err)
			}
			if err := l.ledger.do(t.Context(), together, func(*batch) error { return nil }); err != nil {
				t.Errorf("the next request: %v", err)
			}
		}
	})
}

// A part that fails ends the frontier with its error.
func TestFailedPartEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.MinFreeMiB = 1
		for _, good := range []int{0, 3} {
			l := begin(t, "", cfg, polite, Deps{FreeBytes: func() (uint64, error) {
				if good--; good < 0 {
					return 0, errBroken
				}
				return 1 << 40, nil
			}})
			time.Sleep(time.Minute)
			if len(l.over) == 0 {
				t.Fatal("it goes on")
			}
			if err := l.halt(); !errors.Is(err, errBroken) {
				t.Errorf("it ends with %v", err)
			}
		}
	})
}

// Sync returns when all is on the medium. It is not begun for a caller who has gone. Once it has failed, nothing is known to be there.
func TestSync(t *testing.T) {
	cfg, polite := testConfig()
	for dir, flushed := range map[string]uint64{t.TempDir(): 1, "": 0} {
		f, err := Open(dir, cfg, polite, Deps{})
		must(t, err)
		f.store.written.Store(1)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.Sync(over); !errors.Is(err, context.Canceled) {
			t.Errorf("it goes on without its caller: %v", err)
		}
		if f.store.flushed != 0 {
			t.Error("it syncs for nobody")
		}
		if err := f.store.sync(); err != nil || f.store.flushed != flushed {
			t.Errorf("in %q: %d of %d writes are on the medium, %v", dir, f.store.flushed, flushed, err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		if err := f.Sync(t.Context()); err != nil {
			t.Error(err)
		}
		f.store.syncing.Lock()
		f.store.failure = errBroken
		f.store.written.Add(1)
		f.store.syncing.Unlock()
		if err := f.Sync(t.Context()); !errors.Is(err, errBroken) {
			t.Errorf("after a failure: %v", err)
		}
		if err := <-ended; !errors.Is(err, errBroken) {
			t.Errorf("it ends with %v", err)
		}
		end()
	}
}

// Of several logs of memtables each is synced, also that of one that waits to become a table. The one in use is left out only if it is alone.
func TestSyncOfAllLogs(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir, 4, 2)
	must(t, err)
	must(t, s.syncLogs())
	later, older := filepath.Join(dir, "99999.mem"), filepath.Join(dir, "00000.mem")
	must(t, os.Symlink("/dev/null", later)) // a file that cannot be synced
	if err := s.syncLogs(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("the second log was left out: %v", err)
	}
	must(t, os.Remove(later))
	for _, name := range "abcdefgh" { // they have just become tables
		must(t, os.Symlink("none", filepath.Join(dir, string(name)+".mem")))
	}
	must(t, s.sync())
	must(t, os.Symlink("/dev/null", older))
	s.written.Add(1)
	if err := s.sync(); err == nil || s.failure == nil {
		t.Error("an older log is not synced, or nobody will know")
	}
	must(t, s.close())
}

// The space of several directories is that of the fullest. Without a directory it has no bound.
func TestFreeBytes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		dirs      []string
		ok, bound bool
	}{
		{nil, true, false}, {[]string{""}, true, false}, {[]string{dir}, true, true}, {[]string{dir, ""}, true, true}, {[]string{"", dir}, true, true},
		{[]string{dir, filepath.Join(dir, "none")}, false, false},
	} {
		free, err := FreeBytes(c.dirs...)
		if (err == nil) != c.ok || c.ok && (free < math.MaxUint64) != c.bound || c.bound && free == 0 || !c.ok && free != 0 {
			t.Errorf("%q: %d bytes, %v", c.dirs, free, err)
		}
	}
	one, _ := FreeBytes(dir, "/proc") // where nothing is free
	if other, _ := FreeBytes("/proc", dir); one != other {
		t.Errorf("%d bytes, and in another order %d", one, other)
	}
}

// What cannot be is refused, and leaves nothing behind.
func TestImpossibleRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		cfg, polite := testConfig()
		l := begin(t, "", cfg, polite, Deps{})
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for what, err := range map[string]error{
			"an unknown role": l.SetRole(t.Context(), host, roles), "an unknown origin": second(l.Import(t.Context(), host, Chunk{}, origins)),
			"a part without URLs":           fourth(l.Export(t.Context(), host, Cursor{}, 0, 1)),
			"a part without bytes":          fourth(l.Export(t.Context(), host, Cursor{}, 1, 0)),
			"the role of a host for nobody": third(l.RoleOf(over, host)), "the state for nobody": second(l.StateOf(over, host)),
		} {
			if err == nil {
				t.Errorf("%s is not refused", what)
			}
		}
		err := l.ledger.onHost(t.Context(), alone, host, func(b *batch, h *hostEntry) error { return l.ledger.decideNext(b, h, 5) })
		if err != nil { // the host has been removed since it was found to be due
			t.Error(err)
		}
		l.roleIs(host, Owned, false)
		if s, err := l.StateOf(t.Context(), host); s != nil || err != nil {
			t.Errorf("a host nobody knows has state %v, %v", s, err)
		}
	})
	cfg, polite := testConfig()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	bad, badly := cfg, polite
	bad.MaxHostURLs, badly.MinGap = -1, -1
	for what, err := range map[string]error{
		"a configuration": second(Open("", bad, polite, Deps{})), "a politeness": second(Open("", cfg, badly, Deps{})),
		"a directory below a file": second(Open(filepath.Join(file, "data"), cfg, polite, Deps{})),
	} {
		if err == nil || errors.Is(err, ErrDamaged) {
			t.Errorf("with %s that cannot be it opens: %v", what, err)
		}
	}
}

// The reason why a host was given up is cut between two letters if it is too long.
func TestLongReasonStaysText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t)(testConfig())
		const host = "http://h1.test"
		l.add(page(host, 1))
		must(t, second(l.DropHost(t.Context(), host, strings.Repeat("x", maxEndReason-1)+"\u00e9")))
		err := l.ledger.onHost(t.Context(), readOnly, host, func(_ *batch, h *hostEntry) error {
			if want := strings.Repeat("x", maxEndReason-1); h.rec.endReason != want {
				t.Errorf("the reason is kept as %q", h.rec.endReason)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
