package frontier

import (
	"bytes"
	"testing"
)

// TestValuesAreCopies: what a reader does with a value leaves the store alone. The store maps the files of large values, and unmaps them
// when it is rid of them.
func TestValuesAreCopies(t *testing.T) {
	key, body := []byte{keyVersion, kindMeta, 1}, bytes.Repeat([]byte("Disallow: /\n"), 1<<10)
	dir := filled(t, func(txn *tx) { txn.set(key, body) })
	s, err := openStore(dir, 4, 2)
	must(t, err)
	for range 2 {
		value, err := s.get(key)
		must(t, err)
		if !bytes.Equal(value, body) {
			t.Fatalf("the store has %.40q…", value)
		}
		clear(value)
	}
	must(t, s.close())
}
