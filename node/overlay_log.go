package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"proxima/assign"
	"proxima/node/member"
	"proxima/node/peer"
	"proxima/node/runlog"
)

func (o *overlay) memberEvent(e member.Event) {
	if e.Kind == member.EventSample {
		o.node.runlog.Coord(runlog.Coord{Peer: e.ID, RTTMs: runlog.Ms(e.RTT), Vector: e.Coord.Vec[:], HeightMs: e.Coord.Height,
			Accuracy: e.Coord.Error, Refused: e.Reason})
		return
	}
	v := o.there()
	o.node.runlog.Member(runlog.Member{Change: e.Kind, Peer: e.ID, Address: e.Addr, Members: len(v.Settled), Majority: v.Majority, Reason: e.Reason})
	switch e.Kind {
	case member.EventDuplicate, member.EventMinority, member.EventAlone:
	case member.EventTrouble:
		if _, heard := o.gossip.heard(e.Time, time.Minute); !heard {
			return
		}
	default:
		return
	}
	o.node.warn(fmt.Errorf("%s: %s", e.Kind, e.Reason))
}

// remindEvery is how often a node in a minority warns of it.
const remindEvery = 10 * time.Minute

// remind warns again of a minority, because the node crawls nothing meanwhile.
func (o *overlay) remind(v member.View, now time.Time) {
	switch {
	case v.Majority || o.reminded.IsZero():
		o.reminded = now
	case now.Sub(o.reminded) >= remindEvery:
		o.reminded = now
		o.node.warn(fmt.Errorf("%s: %s", member.EventMinority, v.Reason))
	}
}

// maxPredictions bounds a line of the proxy log. It has the best nodes.
const maxPredictions = 64

// logProxy logs the coordinate of a server, and the download time that is expected of each node. label is the assigner that knows it; it is
// "" for what the owner knows.
func (o *overlay) logProxy(label string, addr netip.Addr, m *assign.Memory) {
	line := runlog.Proxy{Label: label, Server: addr.String(), Vector: m.Proxy.Coord.Vec[:], HeightMs: m.Proxy.Coord.Height,
		Accuracy: m.Proxy.Coord.Error, Updates: m.Proxy.Updates, PageBytes: m.PageBytes, PredictedMs: map[string]float64{}}
	if think, _, ok := m.Think(); ok {
		line.ThinkMs = think
	}
	for i, p := range assign.Predictions(m, o.peers()) {
		if i == maxPredictions {
			break
		}
		line.PredictedMs[p.Node] = p.Ms
	}
	o.node.runlog.Proxy(line)
}

// logRefused logs a message that could not be accepted, from a peer or from a stranger.
func (o *overlay) logRefused(r peer.Refusal) {
	level := slog.LevelWarn
	if r.Kind == peer.KindUnavailable { // the sender asks again
		level = slog.LevelInfo
	}
	o.node.runlog.Events().Log(context.Background(), level, runlog.EventRefused, runlog.KeyPeer, r.Peer, runlog.KeyKind, r.Kind,
		runlog.KeyReason, strings.TrimPrefix(r.Procedure+": "+r.Reason, ": "), runlog.KeyCount, r.Skipped+1)
}
