package frontier

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
		must(t, s.write(func(txn *tx) {
			for k := range each {
				txn.set(fmt.Appendf(nil, "key %d %d", i, k), bytes.Repeat([]byte{'v'}, 200))
			}
		}))
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
func filled(t *testing.T, fill func(txn *tx)) (dir string) {
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
		dir := filled(t, func(txn *tx) { txn.set([]byte{version, kindMeta}, []byte{version}) })
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
	dir := filled(t, func(txn *tx) { txn.set([]byte("k"), []byte("v")) })
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

// TestLostManifestIsDamage: without its manifest Badger would take the tables for rubbish, and delete them.
func TestLostManifestIsDamage(t *testing.T) {
	dir := filled(t, func(txn *tx) { txn.set([]byte("k"), []byte("v")) })
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

// TestNoByteOfATableMayChange: a node does not start with a table in which a byte has changed, wherever that is.
func TestNoByteOfATableMayChange(t *testing.T) {
	dir := filled(t, func(txn *tx) {
		for i := range 500 {
			txn.set(fmt.Appendf(nil, "key %d", i), fmt.Appendf(nil, "value %d", i*i))
		}
	})
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatalf("tables %q: %v", tables, err)
	}
	whole, err := os.ReadFile(tables[0])
	must(t, err)
	for at := 0; at < len(whole); at += min(97, 1+len(whole)/61) {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x21
		must(t, os.WriteFile(tables[0], damaged, 0o600))
		s, err := openStore(dir, 4, 2)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(tables[0])) {
			t.Errorf("byte %d of %d: %v", at, len(whole), err)
		}
		if err == nil {
			s.close()
			return
		}
	}
	must(t, os.WriteFile(tables[0], whole, 0o600))
	s, err := openStore(dir, 4, 2)
	must(t, err)
	must(t, errors.Join(s.close(), os.Remove(tables[0])))
	if _, err := openStore(dir, 4, 2); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(tables[0])) {
		t.Errorf("without the table: %v", err)
	}
}

// A frontier does not open on what is damaged.
func TestDamageIsFoundAtTheStart(t *testing.T) {
	const host = "http://h1.test"
	now := time.Now()
	p := PageRecord{Path: "/", Seen: now, Due: now}
	good := AppendPage(nil, &p, now)
	page := func(due []byte, value []byte) func(txn *tx) {
		return func(txn *tx) {
			txn.set(numberKey(kindPage, host, 5), due)
			txn.set(dueKey(host, stampOf(now), 5), value)
		}
	}
	due := binary.BigEndian.AppendUint32(nil, stampOf(now))
	set := func(key, value []byte) func(txn *tx) {
		return func(txn *tx) { txn.set(key, value) }
	}
	for what, c := range map[string]struct {
		write   func(txn *tx)
		recrawl Recrawl
		opens   bool
	}{
		"nothing":                   {func(*tx) {}, Recrawl{}, true},
		"a record":                  {set(hostKey(kindHost, host), []byte{recordVersion + 1}), Recrawl{}, false},
		"a block":                   {set(pendingKey(host, Discovered, 1), []byte{blockVersion + 1}), Recrawl{}, false},
		"a seen set without number": {set(hostKey(kindSeen, host), nil), Recrawl{}, false},
		"a seen set without host":   {set([]byte{keyVersion, kindSeen, 'h'}, nil), Recrawl{}, false},
		"the time of a page":        {page([]byte{1}, good), Recrawl{}, false},
		"a page":                    {page(due, good), Recrawl{Age: time.Hour}, true},
		"what is known of a page":   {page(due, good[:1]), Recrawl{Age: time.Hour}, false},
		"a sample":                  {set(kindPrefix(kindSample), []byte{1}), Recrawl{Enabled: true}, false},
		"an unused sample":          {set(kindPrefix(kindSample), []byte{1}), Recrawl{}, true},
	} {
		cfg, polite := testConfig()
		cfg.Recrawl.Enabled, cfg.Recrawl.Age = c.recrawl.Enabled, c.recrawl.Age
		f, err := Open(filled(t, c.write), cfg, polite, Deps{})
		if (err == nil) != c.opens {
			t.Errorf("with damage to %s it opens: %v", what, err)
		}
		if err == nil {
			if err := f.store.close(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}
