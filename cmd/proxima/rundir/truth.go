package rundir

import (
	"cmp"
	"math"
	"slices"
	"time"

	"proxima/node/netsim"
)

// Truth computes expected download times from a World. They change only at its events.
type Truth struct {
	w World
}

// NewTruth returns the truth of w, which must not change.
func NewTruth(w World) *Truth {
	w.Events = slices.Clone(w.Events)
	slices.SortStableFunc(w.Events, func(a, b Event) int { return cmp.Compare(a.AtS, b.AtS) })
	return &Truth{w}
}

// DownloadMs returns the expected time of a page of some bytes at node i from server k (indices of World), at a time.
func (t *Truth) DownloadMs(node, server int, bytes int64, at time.Time) float64 {
	n, s := t.w.Nodes[node], t.w.Servers[server]
	down, think, load := n.Down, s.ThinkMs, n.LoadMs
	since := at.Sub(t.w.Started).Seconds()
	for _, e := range t.w.Events {
		if e.AtS > since {
			break
		}
		switch {
		case e.Kind == EventBandwidth && e.Node == n.Name:
			down = n.Down * e.Factor
		case e.Kind == EventCPU && e.Node == n.Name:
			load = n.LoadMs + e.AddMs
		case e.Kind == EventSlow && e.Server == s.Addr:
			think = s.ThinkMs + e.AddMs
		}
	}
	bandwidth := down
	if s.Up > 0 && (bandwidth == 0 || s.Up < bandwidth) {
		bandwidth = s.Up
	}
	return netsim.DownloadMs(t.w.RTTMs[node][server], bandwidth, think, load, bytes)
}

// Best returns the node with the least expected time among those for which alive returns true, and this time; -1 if there is none.
func (t *Truth) Best(server int, bytes int64, at time.Time, alive func(node int) bool) (node int, ms float64) {
	node, ms = -1, math.Inf(1)
	for i := range t.w.Nodes {
		if alive(i) {
			if d := t.DownloadMs(i, server, bytes, at); d < ms {
				node, ms = i, d
			}
		}
	}
	return node, ms
}

// Alive reports whether a node runs at a time. Between a kill and the next restart it does not.
func (t *Truth) Alive(node int, at time.Time) bool {
	since, alive := at.Sub(t.w.Started).Seconds(), true
	for _, e := range t.w.Events {
		if e.AtS > since {
			break
		}
		if e.Node == t.w.Nodes[node].Name && (e.Kind == EventKill || e.Kind == EventRestart) {
			alive = e.Kind == EventRestart
		}
	}
	return alive
}
