package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"proxima/assign"
	"proxima/node/lease"
	"proxima/node/member"
	"proxima/node/ownership"
	"proxima/node/peer"
	"proxima/node/placement"
	"proxima/node/relay"
	"proxima/node/runlog"
)

// OverlayStatus is the state of the node's part in the overlay. Tools read its JSON.
type OverlayStatus struct {
	// Alive and Settled count members, including this node.
	Alive   int `json:"alive"`
	Settled int `json:"settled"`
	// Majority reports whether this side of the overlay may decide about hosts. If not, Reason is what it waits for.
	Majority bool   `json:"majority"`
	Reason   string `json:"reason,omitempty"`
	// Voters counts the members whose votes decide about a majority. Missing are those of them that are not alive.
	Voters  int             `json:"voters"`
	Missing []MissingStatus `json:"missing,omitempty"`
	// Secret has the fingerprint of the secret in use, and that of a second one that is accepted, if there is one.
	Secret string `json:"secret"`
	// Vector, HeightMs and Accuracy are this node's coordinate.
	Vector   []float64 `json:"vector"`
	HeightMs float64   `json:"height_ms"`
	Accuracy float64   `json:"accuracy"`
	// Reach is how others reach this node, and what it relays for them.
	Reach relay.Status `json:"reach"`
	// Peers are the members, by id.
	Peers []PeerStatus `json:"peers"`
	// Outbox counts links that wait for other nodes.
	Outbox int `json:"outbox"`
	// SetAside counts links on disk that no node could read.
	SetAside uint64 `json:"set_aside"`
	// End says what keeps the crawl from ending, if this node asks the others for that.
	End string `json:"end,omitempty"`
	// Limits says what keeps the nodes from sharing the limits of the crawl.
	Limits string `json:"limits,omitempty"`

	Hosts  ownership.Counts `json:"hosts"`
	Leases lease.Status     `json:"leases"`
	Batch  placement.Status `json:"batch"`
	Calls  peer.Counts      `json:"calls"`
}

// MissingStatus is a voter that is not alive.
type MissingStatus struct {
	ID string `json:"id"`
	// Addr is its gossip address. SeenS is for how many seconds it has not been seen; -1 means since this node started.
	Addr  string  `json:"addr,omitempty"`
	SeenS float64 `json:"seen_s"`
}

// PeerStatus is one member.
type PeerStatus struct {
	ID      string  `json:"id"`
	Addr    string  `json:"addr"`
	Phase   string  `json:"phase"`
	ForS    float64 `json:"for_s"`
	Settled bool    `json:"settled"`
	RTTMs   float64 `json:"rtt_ms"`
	// Reach is how it is reached: "direct", "streams" or "outbound".
	Reach string `json:"reach"`
	// Links counts the links that wait here for it.
	Links int `json:"links"`
}

func (o *overlay) status() *OverlayStatus {
	v, at := o.members.View(), o.members.Coordinate()
	s := &OverlayStatus{Alive: len(v.Alive), Settled: len(v.Settled), Majority: v.Majority, Reason: v.Reason, Voters: v.Voters,
		Secret: o.secret.Load().Describe(), Vector: at.Vec[:], HeightMs: at.Height, Accuracy: at.Error, Reach: o.relay.Status(),
		Outbox: o.outbox.Pending(), SetAside: o.outbox.Stats().SetAside, End: o.rounds.Why(), Limits: o.shares.Why(), Hosts: o.owners.Counts(),
		Leases: lease.Status{GrantorStatus: o.grantor.Status(), HolderStatus: o.holder.Status()}, Batch: o.placement.Status(), Calls: o.calls()}
	for _, w := range v.Missing {
		seen := -1.0
		if !w.Seen.IsZero() {
			seen = time.Since(w.Seen).Round(time.Millisecond).Seconds()
		}
		s.Missing = append(s.Missing, MissingStatus{ID: w.ID, Addr: w.Addr, SeenS: seen})
	}
	for _, p := range v.Members {
		s.Peers = append(s.Peers, o.peerStatus(p))
	}
	return s
}

func (o *overlay) peerStatus(p member.Peer) PeerStatus {
	return PeerStatus{ID: p.ID, Addr: p.Addr, Phase: p.Phase, ForS: p.For.Round(time.Millisecond).Seconds(), Settled: p.Settled, RTTMs: p.RTT,
		Reach: p.Way.Reach.String(), Links: o.outbox.PendingOf(p.ID)}
}

// calls returns the traffic of the peer protocol in both directions.
func (o *overlay) calls() peer.Counts { return o.client.Counts().Plus(o.server.Counts()) }

// traffic returns the messages and bytes sent, and the bytes received, since the start. It includes gossip.
func (o *overlay) traffic() (messages, sent, received int64) {
	for _, t := range o.calls().Procedures {
		messages += int64(t.MessagesSent)
		sent += int64(t.BytesSent)
		received += int64(t.BytesReceived)
	}
	packets, bytes := o.members.Traffic()
	return messages + int64(packets), sent + int64(bytes), received
}

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
		if _, heard := o.gossip.Heard(e.Time, time.Minute); !heard {
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
