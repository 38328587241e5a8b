package frontier

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/ristretto/v2/z"
)

// leastFree is the free space without which a store is not opened, in bytes. Badger maps its new files into memory, and without room for their
// first pages a write to them kills the process.
const leastFree = 256 << 10

// openStore opens the database in a directory, or in memory if the name is empty.
func openStore(dir string, memtableMiB, compactors int) (s *store, err error) {
	// Badger panics on some kinds of damage.
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("open store %s: %w: %v", dir, ErrDamaged, p)
		}
	}()
	if dir != "" {
		if err := prepareDirectory(dir); err != nil {
			return nil, err
		}
	}
	o := badgerOptions(dir, memtableMiB, compactors)
	var db *badger.DB
	if dir != "" && leftByOthers(dir, o.MemTableSize) {
		if db, err = openBadger(o.WithMemTableSize(mostMemtableMiB << 20)); err == nil {
			err = db.Close() // makes tables of them
		}
	}
	if err == nil {
		db, err = openBadger(o)
	}
	if err != nil {
		if strings.Contains(err.Error(), "Cannot acquire directory lock") {
			return nil, fmt.Errorf("open store %s: %w", dir, ErrLocked)
		}
		return nil, fmt.Errorf("open store %s: %w", dir, damaged(err))
	}
	s = &store{db: db, codec: newCodec(), gate: gate{stop: make(chan struct{})}, fault: func() error { return nil }, patience: time.Minute}
	s.written.Store(1) // the last life may have written without a sync
	if dir != "" {
		if s.home, err = os.Stat(dir); err != nil {
			return nil, errors.Join(fmt.Errorf("open store: %w", err), db.Close())
		}
	}
	return s, nil
}

// prepareDirectory makes the directory of a store if it is not there, and checks what Badger would not survive, or would make worse.
func prepareDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if free, err := FreeBytes(dir); err == nil && free < leastFree {
		return fmt.Errorf("open store %s: %d KiB are free, it needs %d: %w", dir, free>>10, leastFree>>10, syscall.ENOSPC)
	}
	// Badger would begin a new manifest and delete all tables.
	_, err := os.Stat(filepath.Join(dir, badger.ManifestFilename))
	if tables, _ := fs.Glob(os.DirFS(dir), "*.sst"); errors.Is(err, os.ErrNotExist) && len(tables) > 0 {
		return fmt.Errorf("open store %s: %w: there are tables and no %s", dir, ErrDamaged, badger.ManifestFilename)
	}
	if err := verifyTables(dir); err != nil {
		return fmt.Errorf("open store %s: %w", dir, damaged(err))
	}
	return nil
}

// badgerOptions returns how Badger keeps the store.
func badgerOptions(dir string, memtableMiB, compactors int) badger.Options {
	// Blocks of many URLs go to the value log, where compactions do not copy them: at 20 million URLs this is twice as fast as a
	// threshold of 1 KiB. In memory there is no such log.
	valueThreshold := int64(256)
	if dir == "" {
		valueThreshold = 600 << 10 // a robots.txt fits
	}
	stall := 16 // tables that wait to be merged, before writers wait for that
	if compactors == 0 {
		stall = math.MaxInt
	}
	o := badger.DefaultOptions(dir).WithInMemory(dir == "").WithLogger(nil).
		WithMemTableSize(int64(memtableMiB) << 20).WithNumMemtables(3).
		WithNumLevelZeroTables(6).WithNumLevelZeroTablesStall(stall).WithNumCompactors(compactors).
		WithBaseLevelSize(32 << 20).WithBaseTableSize(2 << 20).WithCompression(options.Snappy).
		WithBlockCacheSize(8 << 20).WithIndexCacheSize(8 << 20).
		WithValueLogFileSize(32 << 20).WithValueThreshold(valueThreshold).
		WithDetectConflicts(false).WithMetricsEnabled(false).WithVerifyValueChecksum(true)
	// Tables are small, and of one size at all levels, because Badger keeps eight compaction buffers, each several times the size
	// of a table or memtable. With twice the sizes, revisits spend 40 % of their time in the garbage collector.
	o.TableSizeMultiplier = 1
	return o
}

// openBadger opens the database, and again if the last life has left a file without length.
func openBadger(o badger.Options) (*badger.DB, error) {
	for tries := 0; ; tries++ {
		db, err := badger.Open(o)
		// If a process is killed after it has created a file and before it has set its length, the file stays empty. Badger then writes
		// the header, fails, and opens the file the next time. Nothing is lost, because everything acknowledged is in earlier files.
		// Only its text identifies this error.
		if err == nil || tries == 8 || !strings.Contains(err.Error(), "Create a new file") {
			return db, err
		}
	}
}

// leftByOthers says whether a process that was killed has left memtables of another size than ours, as after a change of node.memory_mib.
// Badger reads them into memory of our size, and ends the program if they do not fit. Their files have twice the size, until they are read.
func leftByOthers(dir string, size int64) bool {
	logs, _ := fs.Glob(os.DirFS(dir), "*.mem")
	return slices.ContainsFunc(logs, func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Size() != 2*size
	})
}

// verifyTables compares the tables of a store with their checksums. It must run before Badger opens them: Badger's compactions give damaged
// rows a new checksum. Badger's own checks at opening panic in a goroutine of its own, and those at reading end an iteration without an error.
func verifyTables(dir string) error {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return nil // Badger begins a new store, or says why it cannot
	}
	defer f.Close()
	manifest, _, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		return nil // Badger says so, too
	}
	for id, t := range manifest.Tables { // other files are left from tables that were never finished
		name := table.NewFilename(id, dir)
		if err := verifyTable(name, table.Options{Compression: t.Compression, BlockSize: 4 << 10}); err != nil {
			return fmt.Errorf("verify %s: %w", filepath.Base(name), err)
		}
	}
	return nil
}

// verifyTable compares one table with its checksums.
func verifyTable(name string, o table.Options) (err error) {
	// Badger panics on some kinds of damage.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its blocks are garbled: %v", p)
		}
	}()
	file, err := z.OpenMmapFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close(-1)
	t, err := table.OpenTable(file, o)
	if err != nil {
		return err
	}
	return t.VerifyChecksum()
}

// damaged makes ErrDamaged of an error at opening, unless the system has refused something, which says nothing about the files. Badger keeps
// only the text of such errors.
func damaged(err error) error {
	for _, e := range []syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE,
		syscall.ENFILE, syscall.ENOMEM, syscall.EIO} {
		if strings.Contains(err.Error(), e.Error()) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}
