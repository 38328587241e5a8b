package lease

import (
	"maps"
	"slices"
	"time"

	"proxima/node/view"
)

// members are the nodes that may hold a lease: those alive, and those gone for less than a window (a lease and the skew), after
// which no lease of theirs is left. It is pure, and not safe for concurrent use.
type members struct {
	window time.Duration
	alive  []string
	gone   map[string]time.Time
}

func newMembers(window time.Duration) *members {
	return &members{window: window, gone: map[string]time.Time{}}
}

// set installs a view.
func (m *members) set(v view.View, now time.Time) {
	was := m.alive
	m.alive = v.Alive
	for _, ids := range [][]string{was, v.Absent, v.Settled} {
		for _, id := range ids {
			if _, known := m.gone[id]; !known {
				m.gone[id] = now
			}
		}
	}
	for _, id := range m.alive {
		delete(m.gone, id)
	}
	maps.DeleteFunc(m.gone, func(id string, since time.Time) bool { // those that the view still names are kept, to remember since when
		return now.Sub(since) >= m.window && !slices.Contains(v.Absent, id) && !slices.Contains(v.Settled, id)
	})
}

// all returns the members that may hold leases, sorted.
func (m *members) all(now time.Time) []string {
	ids := slices.Clone(m.alive)
	for id, since := range m.gone {
		if now.Sub(since) < m.window {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// has reports whether a node is a member, or was one a moment ago.
func (m *members) has(id string) bool {
	_, gone := m.gone[id]
	return gone || slices.Contains(m.alive, id)
}

// lives are the latest known lives of nodes. A life that was not heard of for a window does not count, because a node that has
// lost its disk numbers its lives from the start. It is not safe for concurrent use.
type lives map[string]life

type life struct {
	boot uint64
	at   time.Time // when it was last heard of
}

// hear notes a life of a node and reports whether it is the latest.
func (l lives) hear(id string, boot uint64, now time.Time, window time.Duration) bool {
	was, known := l[id]
	if known && boot < was.boot && now.Sub(was.at) < window {
		return false
	}
	l[id] = life{boot, now}
	return true
}

// prune forgets the lives that do not count any more.
func (l lives) prune(now time.Time, window time.Duration) {
	maps.DeleteFunc(l, func(_ string, x life) bool { return now.Sub(x.at) >= window })
}
