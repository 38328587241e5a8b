package frontier

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/ristretto/v2/z"
)

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
