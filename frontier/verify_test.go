package frontier

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoByteOfATableMayChange: a node does not start with a table in which a byte has changed, wherever that is.
func TestNoByteOfATableMayChange(t *testing.T) {
	dir := filled(t, func(txn *tx) error {
		for i := range 500 {
			if err := txn.Set(fmt.Appendf(nil, "key %d", i), fmt.Appendf(nil, "value %d", i*i)); err != nil {
				return err
			}
		}
		return nil
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
