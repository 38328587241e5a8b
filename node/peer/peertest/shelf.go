package peertest

import (
	"bytes"
	"errors"
	"sort"
	"strings"
	"sync"
)

// Shelf is a shelf in memory that outlives its users, as a disk does. Safe for concurrent use.
type Shelf struct {
	// mu guards what follows.
	mu    sync.Mutex
	rows  map[string][]byte
	limit int // writes that may still pass; negative for all
}

// NewShelf makes an empty shelf.
func NewShelf() *Shelf { return &Shelf{rows: map[string][]byte{}, limit: -1} }

// ErrBroken is what a broken shelf answers.
var ErrBroken = errors.New("shelf is broken")

// BreakAfter lets some more writes pass; then all fail. Negative mends it.
func (s *Shelf) BreakAfter(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = writes
}

// write says whether a write may pass.
func (s *Shelf) write() error {
	if s.limit == 0 {
		return ErrBroken
	}
	if s.limit > 0 {
		s.limit--
	}
	return nil
}

// Len is the number of keys.
func (s *Shelf) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

// Get returns a copy, nil for none.
func (s *Shelf) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.rows[string(key)]), nil
}

// Put sets a value.
func (s *Shelf) Put(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(); err != nil {
		return err
	}
	s.rows[string(key)] = append([]byte{}, value...)
	return nil
}

// Delete removes a key.
func (s *Shelf) Delete(key []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(); err != nil {
		return err
	}
	delete(s.rows, string(key))
	return nil
}

// Scan visits a snapshot of the keys with a prefix, in order.
func (s *Shelf) Scan(prefix []byte, visit func(key, value []byte) error) error {
	type row struct {
		key   string
		value []byte
	}
	var rows []row
	s.mu.Lock()
	for k, v := range s.rows {
		if strings.HasPrefix(k, string(prefix)) {
			rows = append(rows, row{k, bytes.Clone(v)})
		}
	}
	s.mu.Unlock()
	sort.Slice(rows, func(i, j int) bool { return rows[i].key < rows[j].key })
	for _, r := range rows {
		if err := visit([]byte(r.key), r.value); err != nil {
			return err
		}
	}
	return nil
}

// Batch makes all changes at once.
func (s *Shelf) Batch(fill func(set func(key, value []byte), del func(key []byte))) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(); err != nil {
		return err
	}
	fill(func(key, value []byte) { s.rows[string(key)] = append([]byte{}, value...) },
		func(key []byte) { delete(s.rows, string(key)) })
	return nil
}
