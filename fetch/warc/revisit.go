package warc

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxRememberedURL (bytes) bounds an entry: a payload first seen under a longer URL is archived in full again.
const maxRememberedURL = 1024

// original is where a payload was archived in full.
type original struct {
	id   uuid
	uri  string
	date time.Time
}

// memory remembers the payloads archived last, by their digest, least recently used out first.
type memory struct {
	originals *lru.Cache[string, original] // nil remembers nothing
}

func newMemory(limit int) (m memory, err error) {
	if limit > 0 {
		m.originals, err = lru.New[string, original](limit)
	}
	return m, err
}

func (m memory) find(digest string) (original, bool) {
	if m.originals == nil {
		return original{}, false
	}
	return m.originals.Get(digest)
}

// add remembers o unless its payload is known already, which happens when two goroutines archive it at once.
func (m memory) add(digest string, o original) {
	if m.originals != nil && len(o.uri) <= maxRememberedURL {
		m.originals.ContainsOrAdd(digest, o)
	}
}
