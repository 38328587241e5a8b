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

// seeded is what the seeds of a crawl bring into scope. The set of entries only grows, so nodes that tell each other their entries end
// with the same. An entry is "any", or another scope and a name, for http and https: "host example.org:8080", "domain example.org",
// "prefix example.org/docs/". A seeded value is immutable.
type seeded struct {
	entries map[string]struct{}
	digest  uint64
	any     bool
	index   *Index
}

// entryOf returns the entry that a seed brings into scope.
func entryOf(u URL, scope string) string {
	switch scope {
	case ScopeHost:
		return scope + " " + u.Authority()
	case ScopeDomain:
		return scope + " " + RegistrableDomain(u.Host)
	case ScopePrefix:
		return scope + " " + u.Authority() + directory(u)
	}
	return ScopeAny
}

// directory returns the path of a URL up to its last slash.
func directory(u URL) string {
	path, _, _ := strings.Cut(u.Path, "?")
	return path[:strings.LastIndexByte(path, '/')+1]
}

// plus returns the set with more entries.
func (s *seeded) plus(entries []string) (*seeded, error) {
	more := &seeded{entries: map[string]struct{}{}, digest: s.digest, any: s.any, index: newIndex()}
	maps.Copy(more.entries, s.entries)
	for _, entry := range entries {
		if _, ok := more.entries[entry]; ok {
			continue
		}
		if len(more.entries) >= maxSeeded {
			return nil, fmt.Errorf("more than %d entries", maxSeeded)
		}
		more.entries[entry] = struct{}{}
		more.digest ^= Digest(entry)
	}
	for entry := range more.entries {
		if err := more.add(entry); err != nil {
			return nil, fmt.Errorf("%.100q: %w", entry, err)
		}
	}
	return more, nil
}

// add puts an entry into the index. It must be what entryOf writes for some URL, of http or of https: the default port of one is a port like
// any other to the other.
func (s *seeded) add(entry string) error {
	if entry == ScopeAny {
		s.any = true
		return nil
	}
	scope, of, _ := strings.Cut(entry, " ")
	at := of
	if scope == ScopeDomain && strings.Contains(of, ":") {
		at = "[" + of + "]" // an IPv6 address
	}
	for _, scheme := range []string{"http://", "https://"} {
		u, err := Parse(scheme + at)
		if err != nil || entryOf(u, scope) != entry {
			continue
		}
		switch scope {
		case ScopeHost:
			s.index.hosts[of] = []int{0}
		case ScopeDomain:
			s.index.domains[of] = []int{0}
		case ScopePrefix:
			s.index.addPrefix(0, u.Authority(), prefix{path: u.Path})
		}
		return nil
	}
	return errors.New("not an entry of a scope")
}

// Digest returns the digest of entries. Their order does not matter.
func Digest(entries ...string) (digest uint64) {
	for _, entry := range entries {
		sum := sha256.Sum256([]byte(entry))
		digest ^= binary.LittleEndian.Uint64(sum[:])
	}
	return digest
}

// Brought returns the entries that seeds bring into scope under Config.SeedScope.
func (r *Rules) Brought(seeds []URL) []string {
	entries := make([]string, len(seeds))
	for i, u := range seeds {
		entries[i] = entryOf(u, r.cfg.SeedScope)
	}
	return entries
}

// maxTwins is how large a scope may be for twins to widen it: each costs a copy of it.
const maxTwins = 10_000

// Twin reports whether a URL to which a seed redirects is the site that the seed means, although it is out of scope: its name has "www."
// before it, or no longer has. With ScopePrefix the directory must be the same, too.
func (r *Rules) Twin(seed, to URL) bool {
	if strings.TrimPrefix(seed.Authority(), "www.") != strings.TrimPrefix(to.Authority(), "www.") || len(r.seeded.Load().entries) >= maxTwins || r.within(to) {
		return false
	}
	switch r.cfg.SeedScope {
	case ScopeHost:
		return true
	case ScopePrefix:
		return directory(seed) == directory(to)
	}
	return false
}

// Seeded returns the entries that seeds have brought into scope, and a digest of them that does not depend on their order. The digest of
// no entries is 0.
func (r *Rules) Seeded() (entries []string, digest uint64) {
	s := r.seeded.Load()
	return slices.Sorted(maps.Keys(s.entries)), s.digest
}

// SeededDigest returns the digest of Seeded.
func (r *Rules) SeededDigest() uint64 { return r.seeded.Load().digest }

// Widen adds entries that Seeded returned at another node. Before the new ones count, keep is called with them. If keep returns an error
// or an entry is malformed, nothing changes.
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

// within says whether a URL is in scope.
func (r *Rules) within(u URL) bool {
	s := r.seeded.Load()
	if (s.any || len(s.entries) == 0 && r.cfg.SeedScope == ScopeAny) && r.include.empty() {
		return true
	}
	return s.index.has(u) || r.include.has(u)
}
