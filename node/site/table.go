// Package site returns the settings of a URL: those of the crawl, overridden by the [[site]] entries of the configuration that apply to it.
// The crawl asks a Table for every link and every request, so a Table prepares everything once and never changes.
package site

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"proxima/frontier/identity"
)

// Table returns the settings of any URL. It is safe for concurrent use.
type Table struct {
	entries []Entry
	index   *identity.Index
	paths   []patterns // of the entries
	base    *Settings

	// made has settings by the numbers of the entries that make them up.
	mu   sync.RWMutex
	made map[string]*Settings
}

// maxMade bounds the combinations of entries in made. Other combinations are made each time.
const maxMade = 1 << 16

// New makes a table. base applies where no entry does. An error begins with the number of the entry and its key.
func New(entries []Entry, base Settings) (*Table, error) {
	if err := Check(entries); err != nil {
		return nil, err
	}
	t := &Table{entries: entries, base: &base, paths: make([]patterns, len(entries)), made: map[string]*Settings{}}
	if err := base.ready(); err != nil {
		return nil, err
	}
	sets := make([]identity.Match, len(entries))
	for i := range entries {
		sets[i] = entries[i].match()
		t.paths[i], _ = parsePatterns(entries[i].Path) // check has parsed them
	}
	var err error
	t.index, err = identity.NewIndex(sets)
	return t, err
}

// Check reports the first invalid value of each entry: "[2].gap: what is wrong".
func Check(entries []Entry) error {
	var errs []error
	for i := range entries {
		if err := entries[i].check(); err != nil {
			errs = append(errs, fmt.Errorf("[%d]%w", i, err))
		}
	}
	return errors.Join(errs...)
}

// For returns the settings of a URL.
func (t *Table) For(u identity.URL) *Settings {
	if len(t.entries) == 0 {
		return t.base
	}
	var room [16]int
	return t.of(slices.DeleteFunc(t.index.Find(u, room[:0]), func(n int) bool { return t.paths[n] != nil && !t.paths[n].match(u.Path) }))
}

// ForHost returns the settings of a whole host.
func (t *Table) ForHost(host string) *Settings { return t.For(identity.URL{Host: host, Path: "/"}) }

// of returns the settings that some entries make up.
func (t *Table) of(found []int) *Settings {
	if len(found) == 0 {
		return t.base
	}
	var room [64]byte
	name := room[:0]
	for _, n := range found {
		name = binary.AppendUvarint(name, uint64(n))
	}
	t.mu.RLock()
	s := t.made[string(name)]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	made := *t.base
	made.from = map[string]int{}
	for _, n := range found {
		made.over(&t.entries[n], n)
	}
	_ = made.ready() // check has excluded errors
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.made) < maxMade {
		t.made[string(name)] = &made
	}
	return &made
}

// Origin says where the value of a setting comes from: the entry with this number, or, if it is -1, the key Global of the configuration. Global
// may be "".
type Origin struct {
	Key, Value    string
	Entry         int
	Title, Global string
}

// Explain lists every setting of a URL with its origin.
func (t *Table) Explain(u identity.URL) []Origin {
	s := t.For(u)
	out := make([]Origin, 0, len(settings))
	for _, k := range settings {
		if k.key != keyHeaders || len(s.Headers) == 0 {
			out = append(out, t.origin(s, k.key, k.of(s).Interface(), k.global))
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
			out = append(out, t.origin(s, k.key+"."+name, s.Headers.Get(name), ""))
		}
	}
	return out
}

func (t *Table) origin(s *Settings, key string, value any, global string) Origin {
	o := Origin{Key: key, Value: shown(value), Entry: s.from[key] - 1, Global: global}
	if o.Entry >= 0 {
		o.Title = t.entries[o.Entry].title()
	}
	return o
}
