package frontier

import (
	"context"
	"fmt"
	"slices"
)

// Shelf is a table of keys and values that another package of the node keeps in the store, so that everything a node remembers is in one
// directory. A write is on disk when the call returns: it survives the death of the process at once, and that of the machine after a second.
// While the disk is almost full, writes wait. Methods are safe for concurrent use, and return ErrClosed after the frontier's Run has ended.
type Shelf struct {
	store     *store
	table     byte
	impatient bool
}

// Shelf returns the table with a number. Tables with different numbers share nothing.
func (f *Frontier) Shelf(table byte) *Shelf { return &Shelf{store: f.store, table: table} }

// Impatient returns the same table for those who must not wait: while the disk is almost full, writes fail with ErrDiskFull.
func (s *Shelf) Impatient() *Shelf { return &Shelf{s.store, s.table, true} }

// Get returns a copy of the value of a key, or nil if there is none.
func (s *Shelf) Get(key []byte) ([]byte, error) {
	return s.store.get(shelfKey(s.table, key))
}

// Put sets the value of a key. Get returns an empty value as empty, not as nil.
func (s *Shelf) Put(key, value []byte) error {
	return s.Batch(func(set func(k, v []byte), _ func(k []byte)) { set(key, value) })
}

// Delete removes a key, if it is there.
func (s *Shelf) Delete(key []byte) error {
	return s.Batch(func(_ func(k, v []byte), del func(k []byte)) { del(key) })
}

// Batch makes all changes that fill asks for, or none. Thousands of changes are fine. If keys and small values are more than a tenth of a
// write buffer, Batch fails and changes nothing. It copies keys and values.
func (s *Shelf) Batch(fill func(set func(k, v []byte), del func(k []byte))) error {
	if !s.store.enter() {
		return ErrClosed
	}
	defer s.store.exit()
	if !s.impatient {
		if err := s.store.gate.pass(context.Background()); err != nil {
			return err
		}
	} else if s.store.gate.shut.Load() {
		return ErrDiskFull
	}
	err := s.store.write(func(txn *tx) {
		fill(func(k, v []byte) { txn.set(shelfKey(s.table, k), append([]byte{}, v...)) },
			func(k []byte) { txn.del(shelfKey(s.table, k)) })
	})
	return wrap(err, "write table %q", s.table)
}

// Scan visits the keys that begin with prefix in order, with their values at the time when Scan began. visit may keep both, and may change
// the table. An error of visit ends the scan and is returned unchanged.
func (s *Shelf) Scan(prefix []byte, visit func(key, value []byte) error) error {
	return s.scan(prefix, nil, visit)
}

// ScanAfter is Scan for all keys after another key, or for all keys if that is nil. So a long table can be visited in parts.
func (s *Shelf) ScanAfter(after []byte, visit func(key, value []byte) error) error {
	if after == nil {
		return s.scan(nil, nil, visit)
	}
	return s.scan(nil, append(shelfKey(s.table, after), 0), visit) // the least key that is greater
}

// scan visits the keys below prefix, from the key start of the store on, or from the first if start is nil.
func (s *Shelf) scan(prefix, start []byte, visit func(key, value []byte) error) error {
	return s.store.view(context.Background(), func(txn *tx) error {
		for r, err := range s.store.rows(txn, shelfKey(s.table, prefix), start, ahead) {
			if err != nil {
				return fmt.Errorf("read table %q: %w", s.table, err)
			}
			if err := visit(slices.Clone(r.key[len(shelfKey(s.table, nil)):]), append([]byte{}, r.value...)); err != nil {
				return err
			}
		}
		return nil
	})
}
