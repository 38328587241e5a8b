package node

import (
	"fmt"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/node/member"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// overlayLog writes what the overlay does to the run log.
type overlayLog struct {
	runlog *runlog.Writer
	warn   func(error)
	// reminded is when the operator was last told what the node waits for. Only remind uses it.
	reminded time.Time
	// gossip are warnings of trouble with the gossip, one a minute.
	gossip warnings
}

// member logs an event of the members. settled and majority are those of the node's view.
func (l *overlayLog) member(e member.Event, settled int, majority bool) {
	if e.Kind == member.EventSample {
		l.runlog.Coord(runlog.Coord{Peer: e.ID, RTTMs: runlog.Ms(e.RTT), Vector: e.Coord.Vec[:], HeightMs: e.Coord.Height,
			Accuracy: e.Coord.Error, Refused: e.Reason})
		return
	}
	l.runlog.Member(runlog.Member{Change: e.Kind, Peer: e.ID, Address: e.Addr, Members: settled, Majority: majority, Reason: e.Reason})
	switch e.Kind {
	case member.EventDuplicate, member.EventMinority, member.EventAlone:
	case member.EventTrouble:
		if _, heard := l.gossip.heard(e.Time, time.Minute); !heard {
			return
		}
	default:
		return
	}
	l.warn(fmt.Errorf("%s: %s", e.Kind, e.Reason))
}

// remindEvery is how often a node in a minority warns of it.
const remindEvery = 10 * time.Minute

// remind warns again of a minority, because the node crawls nothing meanwhile.
func (l *overlayLog) remind(v member.View, now time.Time) {
	switch {
	case v.Majority || l.reminded.IsZero():
		l.reminded = now
	case now.Sub(l.reminded) >= remindEvery:
		l.reminded = now
		l.warn(fmt.Errorf("%s: %s", member.EventMinority, v.Reason))
	}
}

// maxPredictions bounds a line of the proxy log. It has the best nodes.
const maxPredictions = 64

// proxy logs the coordinate of a server, and the download time that is expected of each node. label is the assigner that knows it; it is
// "" for what the owner knows.
func (l *overlayLog) proxy(label string, addr netip.Addr, m *assign.Memory, peers assign.View) {
	line := runlog.Proxy{Label: label, Server: addr.String(), Vector: m.Proxy.Coord.Vec[:], HeightMs: m.Proxy.Coord.Height,
		Accuracy: m.Proxy.Coord.Error, Updates: m.Proxy.Updates, PageBytes: m.PageBytes, PredictedMs: map[string]float64{}}
	if think, _, ok := m.Think(); ok {
		line.ThinkMs = think
	}
	for i, p := range assign.Predictions(m, peers) {
		if i == maxPredictions {
			break
		}
		line.PredictedMs[p.Node] = p.Ms
	}
	l.runlog.Proxy(line)
}

// refused logs a message that could not be accepted, from a peer or from a stranger.
func (l *overlayLog) refused(r peer.Refusal) {
	l.runlog.Events().Warn(runlog.EventRefused, runlog.KeyPeer, r.Peer, runlog.KeyKind, r.Kind,
		runlog.KeyReason, fmt.Sprintf("%s %s", r.Procedure, r.Reason), runlog.KeyCount, r.Skipped+1)
}
