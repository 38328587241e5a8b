package lease

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// fakeShelf is a Shelf in memory that survives its node.
type fakeShelf struct {
	mu sync.Mutex
	m  map[string]string
}

func newShelf() *fakeShelf { return &fakeShelf{m: map[string]string{}} }

func (s *fakeShelf) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.m[string(key)]; ok {
		return []byte(v), nil
	}
	return nil, nil
}

func (s *fakeShelf) Put(key, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[string(key)] = string(value)
	return nil
}

func (s *fakeShelf) Delete(key []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, string(key))
	return nil
}

func (s *fakeShelf) Scan(prefix []byte, visit func(key, value []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(s.m)) {
		if strings.HasPrefix(k, string(prefix)) {
			if err := visit([]byte(k), []byte(s.m[k])); err != nil {
				return err
			}
		}
	}
	return nil
}
