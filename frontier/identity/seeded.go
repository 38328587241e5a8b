package identity

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxSeeded is how many entries seeds may bring into scope, of all nodes together.
const maxSeeded = 1 << 20

// seeded is what the seeds of a crawl bring into scope: a set of entries that only grows, so nodes that tell each other theirs end with the
// same. An entry is "any", or one of the other scopes and what of it, by http and https: "host example.org:8080", "domain example.org",
// "prefix example.org/docs/". It does not change.
type seeded struct {
	entries map[string]struct{}
	digest  uint64
	any     bool
	matcher *matcher
}

// entryOf is what a seed brings into scope.
func entryOf(u URL, scope string) string {
	switch scope {
	case ScopeHost:
		return scope + " " + u.Authority()
	case ScopeDomain:
		return scope + " " + RegistrableDomain(u.Host)
	case ScopePrefix:
		path, _, _ := strings.Cut(u.Path, "?")
		return scope + " " + u.Authority() + path[:strings.LastIndexByte(path, '/')+1]
	}
	return ScopeAny
}

// plus is a set with more entries.
func (s *seeded) plus(entries []string) (*seeded, error) {
	more := &seeded{entries: map[string]struct{}{}, digest: s.digest, any: s.any, matcher: newMatcher()}
	maps.Copy(more.entries, s.entries)
	for _, entry := range entries {
		if _, ok := more.entries[entry]; ok {
			continue
		}
		if len(more.entries) >= maxSeeded {
			return nil, fmt.Errorf("more than %d entries", maxSeeded)
		}
		more.entries[entry] = struct{}{}
		sum := sha256.Sum256([]byte(entry))
		more.digest ^= binary.LittleEndian.Uint64(sum[:])
	}
	for entry := range more.entries {
		if err := more.add(entry); err != nil {
			return nil, fmt.Errorf("%.100q: %w", entry, err)
		}
	}
	return more, nil
}

// add makes the matcher know an entry, which must be written as entryOf writes it.
func (s *seeded) add(entry string) error {
	scope, of, _ := strings.Cut(entry, " ")
	m, is := s.matcher, ""
	switch scope {
	case ScopeAny:
		s.any = true
	case ScopeHost:
		if u, err := parseHost(of); err == nil {
			is = u.Authority()
			m.hosts[is] = struct{}{}
		}
	case ScopeDomain:
		is, _ = parseDomain(of) //nolint:errcheck // then it is not what was written
		if isAddress(of) {
			is = of
		}
		m.domains[is] = struct{}{}
	case ScopePrefix:
		if at, dir, err := parsePrefix(of); err == nil {
			is = at + dir.path
			m.addDir(at, dir)
		}
	}
	if entry != strings.TrimSuffix(scope+" "+is, " ") || scope != ScopeAny && is == "" {
		return errors.New("not an entry of a scope")
	}
	return nil
}

// Brought returns what some seeds bring into scope, by Config.SeedScope.
func (r *Rules) Brought(seeds []URL) []string {
	entries := make([]string, len(seeds))
	for i, u := range seeds {
		entries[i] = entryOf(u, r.cfg.SeedScope)
	}
	return entries
}

// Seeded returns what the seeds bring into scope, and a digest of it that does not depend on the order: 0 of nothing.
func (r *Rules) Seeded() (entries []string, digest uint64) {
	s := r.seeded.Load()
	return slices.Sorted(maps.Keys(s.entries)), s.digest
}

// SeededDigest returns the digest of Seeded.
func (r *Rules) SeededDigest() uint64 { return r.seeded.Load().digest }

// Widen adds what the seeds of other nodes bring into their scope, as Seeded returns it there. keep is called with what is new before it
// counts; after its error, or where an entry has not its form, nothing changes.
func (r *Rules) Widen(entries []string, keep func(added []string) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seeded.Load()
	added := slices.DeleteFunc(slices.Clone(entries), func(entry string) bool { _, ok := s.entries[entry]; return ok })
	if len(added) == 0 {
		return nil
	}
	more, err := s.plus(added)
	if err != nil {
		return fmt.Errorf("widen scope: %w", err)
	}
	if err := keep(added); err != nil {
		return err
	}
	r.seeded.Store(more)
	return nil
}

// within says whether the scope has a URL.
func (r *Rules) within(u URL) bool {
	s := r.seeded.Load()
	if (s.any || len(s.entries) == 0 && r.cfg.SeedScope == ScopeAny) && r.include.empty() {
		return true
	}
	return s.matcher.match(u) || r.include.match(u)
}
