package frontier

import (
	"context"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// Shelf is a table of keys and values beside the URLs, for what the other rooms of a node must remember: one durable
// store a node, so that one directory is a node's whole memory. A write is on disk when it returns: it survives the death of
// the process at once and that of the machine after a second. While the disk is all but full, it waits. Methods are safe for concurrent use and return ErrClosed
// once the frontier's Run has ended.
type Shelf struct {
	store *store
	table byte
}

// Shelf gives access to a table. Tables with different bytes share nothing.
func (f *Frontier) Shelf(table byte) *Shelf { return &Shelf{store: f.store, table: table} }

// Get returns a copy of the value of a key, or nil where there is none.
func (s *Shelf) Get(key []byte) ([]byte, error) {
	if !s.store.enter() {
		return nil, ErrClosed
	}
	defer s.store.exit()
	return s.store.get(shelfKey(s.table, key))
}

// Put sets the value of a key. An empty value is a value: Get returns it as empty, not as nil.
func (s *Shelf) Put(key, value []byte) error {
	return s.Batch(func(set func(k, v []byte), _ func(k []byte)) { set(key, value) })
}

// Delete removes a key; that it is not there is no error.
func (s *Shelf) Delete(key []byte) error {
	return s.Batch(func(_ func(k, v []byte), del func(k []byte)) { del(key) })
}

// Batch makes all changes that fill asks for, or none: a crash leaves no half of them. Thousands of changes are
// fine; beyond a tenth of a write buffer in keys and small values it is an error and nothing changes. Keys and values
// are copied.
func (s *Shelf) Batch(fill func(set func(k, v []byte), del func(k []byte))) error {
	if !s.store.enter() {
		return ErrClosed
	}
	defer s.store.exit()
	err := s.store.gate.pass(context.Background())
	if err != nil {
		return err
	}
	err = s.store.write(func(txn *badger.Txn) (err error) {
		fill(func(k, v []byte) {
			if err == nil {
				err = txn.Set(shelfKey(s.table, k), append(make([]byte, 0, len(v)), v...))
			}
		}, func(k []byte) {
			if err == nil {
				err = txn.Delete(shelfKey(s.table, k))
			}
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("write table %q: %w", s.table, err)
	}
	return nil
}

// Scan visits the keys that begin with prefix in their order, with their values as they were when it began; visit may
// keep both, and may change the table. An error of visit ends the scan and is returned as it is.
func (s *Shelf) Scan(prefix []byte, visit func(key, value []byte) error) error {
	return s.scan(prefix, nil, visit)
}

// ScanAfter is Scan of all keys that come after one, nil for all: a long table can be visited piece by piece.
func (s *Shelf) ScanAfter(after []byte, visit func(key, value []byte) error) error {
	if after == nil {
		return s.scan(nil, nil, visit)
	}
	return s.scan(nil, append(shelfKey(s.table, after), 0), visit) // the least key that is greater
}

func (s *Shelf) scan(prefix, start []byte, visit func(key, value []byte) error) error {
	if !s.store.enter() {
		return ErrClosed
	}
	defer s.store.exit()
	return s.store.each(shelfKey(s.table, prefix), start, true, func(item *badger.Item) (bool, error) {
		value, err := item.ValueCopy(nil)
		if err != nil {
			return false, fmt.Errorf("read table %q: %w", s.table, err)
		}
		return true, visit(item.KeyCopy(nil)[len(shelfKey(s.table, nil)):], value)
	})
}
