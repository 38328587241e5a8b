package frontier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// A kill between the making of a file of the store and its first write leaves it empty. That is no damage.
func TestOpenAfterAKillThatLeftEmptyFiles(t *testing.T) {
	for _, names := range [][]string{{"000002.vlog"}, {"00099.mem"}, {"000002.vlog", "00099.mem", "00100.mem"}} {
		cfg, polite := testConfig()
		dir := t.TempDir()
		l := begin(t, dir, cfg, polite, Deps{})
		l.add(page("http://h1.test", 1), page("http://h2.test", 2))
		l.stop()
		for _, name := range names {
			must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		}
		l = begin(t, dir, cfg, polite, Deps{})
		if n := l.Status().Pending; n != 2 {
			t.Errorf("%v: %d of 2 URLs are left", names, n)
		}
	}
}

// What a killed process had in memory fits into the memory of the next one, though node.memory_mib is lower, and it is killed while it opens.
func TestLessMemoryAfterAKill(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir, 32, 2)
	must(t, err)
	const each = 2000
	for i := range 40 {
		err := s.write(func(txn *tx) error {
			for k := range each {
				if err := txn.Set(fmt.Appendf(nil, "key %d %d", i, k), bytes.Repeat([]byte{'v'}, 200)); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
	}
	killed := t.TempDir()
	must(t, os.CopyFS(killed, os.DirFS(dir))) // as a kill would leave it
	must(t, s.close())
	logs, err := filepath.Glob(filepath.Join(killed, "*.mem"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	for _, cut := range []bool{false, true} {
		if cut { // as a kill leaves it after the file was read
			err = os.Truncate(logs[0], 25<<20)
		}
		again := t.TempDir()
		must(t, errors.Join(err, os.CopyFS(again, os.DirFS(killed))))
		s, err := openStore(again, 4, 2)
		must(t, err)
		n := 0
		for range s.rows(nil, []byte("key "), nil, keysOnly) {
			n++
		}
		if n != 40*each || s.db.Opts().MemTableSize != 4<<20 {
			t.Errorf("cut %v: %d of %d keys are left, in memtables of %d bytes", cut, n, 40*each, s.db.Opts().MemTableSize)
		}
		must(t, s.close())
	}
}

// filled is a directory of a store in which something was written. It is in a table, which the store writes when it closes.
func filled(t *testing.T, fill func(txn *tx) error) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := openStore(dir, 4, 2)
	if err == nil {
		err = errors.Join(s.write(fill), s.close())
	}
	must(t, err)
	return dir
}

// A directory of an earlier or a later layout is refused as what it is, and left as it is.
func TestOtherLayout(t *testing.T) {
	cfg, polite := testConfig()
	for _, version := range []byte{1, keyVersion - 1, keyVersion + 1, keyVersion + 9} {
		dir := filled(t, func(txn *tx) error { return txn.Set([]byte{version, kindMeta}, []byte{version}) })
		for range 2 {
			_, err := Open(dir, cfg, polite, Deps{})
			if !errors.Is(err, ErrOldLayout) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "start anew") {
				t.Errorf("a directory of layout %d: %v", version, err)
			}
		}
	}
}

// A full disk is not reported as damage, or people would delete the directory.
func TestFullDiskIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/full", filepath.Join(dir, "LOCK")); err != nil {
		t.Skip(err)
	}
	if _, err := openStore(dir, 4, 2); err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("opened on a full disk: %v", err)
	}
	if _, err := openStore("/proc/self", 4, 2); !errors.Is(err, syscall.ENOSPC) { // where nothing is free
		t.Errorf("opened without room: %v", err)
	}
}

// A machine that has no file descriptor left for the store, or for its first table, does not say that the store is damaged.
func TestNoDescriptorIsNoDamage(t *testing.T) {
	dir := filled(t, func(txn *tx) error { return txn.Set([]byte("k"), []byte("v")) })
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Skip(err)
	}
	for left := range uint64(2) {
		probe, err := os.Open(dir)
		must(t, err)
		now := unix.Rlimit{Cur: uint64(probe.Fd()) + left, Max: was.Max}
		if err := errors.Join(probe.Close(), unix.Setrlimit(unix.RLIMIT_NOFILE, &now)); err != nil {
			t.Skip(err)
		}
		_, err = openStore(dir, 4, 2)
		if again := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); again != nil {
			t.Fatal(again)
		}
		if err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "too many open files") {
			t.Errorf("with %d descriptors: %v", left, err)
		}
	}
}

// Of several logs of memtables each is synced. The one in use is left out only if it is alone.
func TestAllLogsAreSynced(t *testing.T) {
	dir := t.TempDir()
	s, err := openStore(dir, 4, 2)
	must(t, err)
	defer s.close()
	if err := s.syncLogs(); err != nil {
		t.Error(err)
	}
	must(t, os.Symlink("/dev/null", filepath.Join(dir, "99999.mem"))) // a file that cannot be synced
	if err := s.syncLogs(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("the second log was left out: %v", err)
	}
}

// Nothing is pending between two lives, so that runs of done URLs alone say which numbers are taken: each life adds another run.
func TestRunsOfEarlierLivesStay(t *testing.T) {
	cfg, polite := ownServers(testConfig())
	dir := t.TempDir()
	const lives = 3
	for i := range lives {
		l := crawling(t, dir, cfg, polite)
		l.add(pages("http://h1.test", i*maxFresh, maxFresh)...)
		l.work(maxFresh)
		l.stop()
	}
	l := begin(t, dir, cfg, polite, Deps{})
	if n := count(l.add(pages("http://h1.test", 0, lives*maxFresh)...), Duplicate); n != lives*maxFresh {
		t.Errorf("%d of %d URLs are known to be done", n, lives*maxFresh)
	}
}

func TestOpenSaysWhatIsWrongWithTheDirectory(t *testing.T) {
	cfg, polite := testConfig()
	dir := t.TempDir()
	f, err := Open(dir, cfg, polite, Deps{})
	must(t, err)
	if _, err := Open(dir, cfg, polite, Deps{}); !errors.Is(err, ErrLocked) {
		t.Errorf("a directory in use: %v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, f.Run(done))
	manifest := filepath.Join(dir, "MANIFEST")
	must(t, os.WriteFile(manifest, []byte("this is no manifest"), 0o600))
	if _, err := Open(dir, cfg, polite, Deps{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged directory: %v", err)
	}
}

// A store closes when its last user has gone. Meanwhile it takes no other.
func TestCloseWaitsForUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := openStore("", 4, 2)
		if err != nil || !s.enter() {
			t.Fatal("it cannot be used", err)
		}
		closed := make(chan error, 1)
		go func() { closed <- s.close() }()
		synctest.Wait()
		if len(closed) > 0 || s.enter() {
			t.Error("it is closed while in use, or takes another user")
		}
		s.exit()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// TestLostManifestIsDamage: without its manifest Badger would take the tables for rubbish, and delete them.
func TestLostManifestIsDamage(t *testing.T) {
	dir := filled(t, func(txn *tx) error { return txn.Set([]byte("k"), []byte("v")) })
	manifest := filepath.Join(dir, badger.ManifestFilename)
	must(t, os.Rename(manifest, manifest+".away"))
	if _, err := openStore(dir, 4, 2); !errors.Is(err, ErrDamaged) {
		t.Errorf("opened: %v", err)
	}
	must(t, os.Rename(manifest+".away", manifest))
	s, err := openStore(dir, 4, 2)
	must(t, err)
	defer s.close()
	if s.written.Load() == s.flushed {
		t.Error("what an earlier life wrote need not be synced")
	}
	if v, err := s.get([]byte("k")); string(v) != "v" || err != nil {
		t.Errorf("what was there is %q, %v", v, err)
	}
}
