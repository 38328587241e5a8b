package netsim

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Shelf is a table of keys and values in memory, like one of the store of a node. It outlives its users, as a disk does. It is safe for
// concurrent use.
type Shelf struct {
	// Before, if set, is called before each step with the name of its method. It may wait, or fail the step.
	Before func(step string) error

	mu   sync.Mutex
	rows map[string][]byte
}

// Get returns a copy of a value, nil if there is none.
func (s *Shelf) Get(key []byte) ([]byte, error) {
	if err := s.begin("Get"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return bytes.Clone(s.rows[string(key)]), nil
}

// Put sets the value of a key.
func (s *Shelf) Put(key, value []byte) error {
	return s.change("Put", func(set func(key, value []byte), _ func(key []byte)) { set(key, value) })
}

// Delete removes a key.
func (s *Shelf) Delete(key []byte) error {
	return s.change("Delete", func(_ func(key, value []byte), del func(key []byte)) { del(key) })
}

// Batch makes all changes at once.
func (s *Shelf) Batch(fill func(set func(key, value []byte), del func(key []byte))) error {
	return s.change("Batch", fill)
}

// Scan visits the keys with a prefix in order, as they were when it began.
func (s *Shelf) Scan(prefix []byte, visit func(key, value []byte) error) error {
	if err := s.begin("Scan"); err != nil {
		return err
	}
	rows := maps.Clone(s.rows)
	s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if !strings.HasPrefix(key, string(prefix)) {
			continue
		}
		if err := visit([]byte(key), bytes.Clone(rows[key])); err != nil {
			return err
		}
	}
	return nil
}

// Len returns the number of keys.
func (s *Shelf) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

// begin locks the table, unless the step is to fail.
func (s *Shelf) begin(step string) error {
	if s.Before != nil {
		if err := s.Before(step); err != nil {
			return err
		}
	}
	s.mu.Lock()
	return nil
}

func (s *Shelf) change(step string, fill func(set func(key, value []byte), del func(key []byte))) error {
	if err := s.begin(step); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.rows == nil {
		s.rows = map[string][]byte{}
	}
	fill(func(key, value []byte) { s.rows[string(key)] = append([]byte{}, value...) },
		func(key []byte) { delete(s.rows, string(key)) })
	return nil
}
