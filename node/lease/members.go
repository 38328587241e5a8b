package lease

import (
	"slices"
	"time"

	"proxima/node/view"
)

// members are all who may have the right to ask a server: those alive, and those that are gone for less than a window (a
// lease and the skew), after which no lease of theirs is left. Pure; not safe for concurrent use.
type members struct {
	window time.Duration
	alive  []string
	gone   map[string]time.Time
}

func newMembers(window time.Duration) *members {
	return &members{window: window, gone: map[string]time.Time{}}
}

// set takes a view.
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
	for id, since := range m.gone { // those that are missing still are kept, to remember since when
		if now.Sub(since) >= m.window && !slices.Contains(v.Absent, id) && !slices.Contains(v.Settled, id) {
			delete(m.gone, id)
		}
	}
}

// over says whether a member that is gone has no rights left.
func (m *members) over(id string, now time.Time) bool { return now.Sub(m.gone[id]) >= m.window }

// all are the members that may have rights, sorted.
func (m *members) all(now time.Time) []string {
	ids := slices.Clone(m.alive)
	for id := range m.gone {
		if !m.over(id, now) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// lives are the latest lives of nodes that were heard of. A life that nobody has heard of for a window counts no more, as
// a node that has lost its disk counts its lives anew. Pure; not safe for concurrent use.
type lives map[string]life

type life struct {
	boot uint64
	at   time.Time // when it was heard of last
}

// hear notes a life of a node, and says whether it is the latest.
func (l lives) hear(id string, boot uint64, now time.Time, window time.Duration) bool {
	was, known := l[id]
	if known && boot < was.boot && now.Sub(was.at) < window {
		return false
	}
	l[id] = life{boot, now}
	return true
}
