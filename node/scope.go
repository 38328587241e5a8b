package node

import (
	"fmt"
	"slices"
	"sync"

	"proxima/frontier/identity"
	"proxima/node/peer"
)

// mostScopes is how many digests of scopes are remembered. Each node of an overlay has one, and a new one whenever somebody adds a seed.
const mostScopes = 10_000

// scope is what the seeds bring into scope, those of this node and those that its peers have told it of. Those are remembered in crawl.json.
type scope struct {
	rules *identity.Rules
	dir   string

	// mu guards what follows.
	mu sync.Mutex
	// covered are digests of sets of which this node has all.
	covered map[uint64]struct{}
	task    task
}

func newScope(rules *identity.Rules, dir string, t task) *scope {
	return &scope{rules: rules, dir: dir, covered: map[uint64]struct{}{}, task: t}
}

var _ peer.Scope = (*scope)(nil)

// Entries implements peer.Scope.
func (s *scope) Entries() ([]string, uint64) { return s.rules.Seeded() }

// Digest implements peer.Scope.
func (s *scope) Digest() uint64 { return s.rules.SeededDigest() }

// Knows implements peer.Scope.
func (s *scope) Knows(digest uint64) bool {
	if digest == 0 || digest == s.Digest() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.covered[digest]
	return ok
}

// Unite implements peer.Scope.
func (s *scope) Unite(entries []string, whole uint64) error {
	var unwritten error
	err := s.rules.Widen(entries, func(added []string) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		next := s.task
		next.Learnt = append(next.Learnt[:len(next.Learnt):len(next.Learnt)], added...)
		if unwritten = next.keep(s.dir); unwritten == nil {
			s.task = next
		}
		return unwritten
	})
	switch {
	case unwritten != nil:
		return unwritten
	case err != nil:
		return fmt.Errorf("%w: %w", peer.ErrMalformed, err)
	}
	if whole != 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.covered) >= mostScopes {
			clear(s.covered) // who is not known tells it again
		}
		s.covered[whole] = struct{}{}
	}
	return nil
}

// seed adds seeds to those of this node: they are remembered, and bring into scope what its configuration says.
func (s *scope) seed(seeds []identity.URL) error {
	s.mu.Lock()
	next := s.task
	next.Seeds = slices.Clone(next.Seeds)
	known := make(map[string]bool, len(next.Seeds))
	for _, text := range next.Seeds {
		known[text] = true
	}
	for _, text := range texts(seeds) {
		if !known[text] {
			known[text] = true
			next.Seeds = append(next.Seeds, text)
		}
	}
	err := next.keep(s.dir)
	if err == nil {
		s.task = next
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.rules.Widen(s.rules.Brought(seeds), func([]string) error { return nil })
}
