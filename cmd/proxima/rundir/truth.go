package rundir

import (
	"math"
	"time"

	"proxima/node/netsim"
)

// DownloadMs returns the expected time of a page of some bytes at a node from a server (their indices), at a time. It changes only at
// events.
func (w *World) DownloadMs(node, server int, bytes int64, at time.Time) float64 {
	n, s := w.Nodes[node], w.Servers[server]
	down, think, load := n.Down, s.ThinkMs, n.LoadMs
	since := at.Sub(w.Started).Seconds()
	for _, e := range w.Events {
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
	return netsim.DownloadMs(w.RTTMs[node][server], bandwidth, think, load, bytes)
}

// Best returns the node with the least expected time among those for which alive returns true, and this time; -1 if there is none.
func (w *World) Best(server int, bytes int64, at time.Time, alive func(node int) bool) (node int, ms float64) {
	node, ms = -1, math.Inf(1)
	for i := range w.Nodes {
		if alive(i) {
			if d := w.DownloadMs(i, server, bytes, at); d < ms {
				node, ms = i, d
			}
		}
	}
	return node, ms
}

// Alive reports whether a node runs at a time. Between a kill and the next restart it does not.
func (w *World) Alive(node int, at time.Time) bool {
	since, alive := at.Sub(w.Started).Seconds(), true
	for _, e := range w.Events {
		if e.AtS > since {
			break
		}
		if e.Node == w.Nodes[node].Name && (e.Kind == EventKill || e.Kind == EventRestart) {
			alive = e.Kind == EventRestart
		}
	}
	return alive
}
