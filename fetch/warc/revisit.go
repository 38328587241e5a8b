package warc

import (
	"container/list"
	"sync"
	"time"
)

// maxRememberedURL (bytes) bounds an entry: a payload first seen under a longer URL is archived in full again.
const maxRememberedURL = 1024

// original is where a payload was archived in full.
type original struct {
	digest string
	id     uuid
	uri    string
	date   time.Time
}

// memory remembers the payloads archived last, least recently used out first.
type memory struct {
	limit int

	mu      sync.Mutex
	entries map[string]*list.Element // digest -> element of recent
	recent  list.List                // of original, most recently used first
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, entries: make(map[string]*list.Element)}
}

func (m *memory) find(digest string) (original, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[digest]
	if !ok {
		return original{}, false
	}
	m.recent.MoveToFront(e)
	return e.Value.(original), true
}

// add remembers o unless its payload is known already, which happens when two goroutines archive it at once.
func (m *memory) add(o original) {
	if m.limit == 0 || len(o.uri) > maxRememberedURL {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.entries[o.digest]; ok {
		return
	}
	m.entries[o.digest] = m.recent.PushFront(o)
	if len(m.entries) > m.limit {
		last := m.recent.Back()
		delete(m.entries, last.Value.(original).digest)
		m.recent.Remove(last)
	}
}
