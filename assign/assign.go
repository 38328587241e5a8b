// Package assign decides which node crawls which server.
//
// It has the assigners (nearest and those of the literature, docs/assigners.md) behind one interface. Memory is what is known about
// a server, Own and Factors are what a node learns about its own downloads, and both together predict download times. Rendezvous
// draws homes and grantors. The package does no I/O, logs nothing and waits for nothing: time is an argument, and randomness comes
// from a seed. Nothing here is safe for concurrent use unless its comment says so.
//
// An assigner is a state machine. Its caller asks it what to download now (Asks), reports results (Observe) and the nodes that
// are alive (SetView), and polls for the decision (Decide). These calls may come in any order. The assigner decides in the end if
// its asks are answered or refused and time passes.
//
// nearest has a model of download times. model.go describes the parts of a download, field.go the round trips from all nodes to
// one server, places.go where the server may be, and neighbours.go what nearby servers reveal about it. learner.go fits the model.
// docs/nearest.md says what each part is worth.
package assign

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"proxima/ncoord"
)

// The names of the assigners, for New.
const (
	Random     = "random"
	Geographic = "geographic"
	Vivaldi    = "vivaldi"
	Nearest    = "nearest"
	Hash       = "hash"
	Probe      = "probe"
	HiMicra    = "himicra"
	IPMicra    = "ipmicra"
	CAN        = "can"
)

// Node is a node that may be chosen, as the home that decides knows it.
type Node struct {
	ID string
	// Coord is the last published coordinate, or the zero value if none is known.
	Coord ncoord.Coordinate
	// Location is the location that the node states, or nil if unknown.
	Location *ncoord.Location
	// Factors describes the node's own downloads, as it published them.
	Factors Factors
}

// Timing has the times of a successful download, without DNS and without waiting in queues.
type Timing struct {
	// Connect is the time of the TCP handshake: one round trip. It is 0 if the connection was reused or not timed.
	Connect time.Duration
	// TLS is the time of the TLS handshake, or 0 if there was none.
	TLS time.Duration
	// FirstByte is the time from the written request to the first byte of the answer: a round trip, the server's think time and
	// the node's load.
	FirstByte time.Duration
	// Total is the time from dialling (or from reusing a connection) to the last byte of the body.
	Total time.Duration
	// Bytes is the size of the body on the wire.
	Bytes int64
}

// Host is a host on a server.
type Host struct {
	// Name is scheme, name and port.
	Name string
	// Pending is the number of URLs waiting.
	Pending int
	// PageBytes is the size of a typical page on the wire, in bytes; 0 if unknown.
	PageBytes float64
}

// Server is the unit of assignment: all its hosts go to one node.
type Server struct {
	Addr  netip.Addr
	Hosts []Host
	// Location is the location of the address in a database, or nil if unknown.
	Location *ncoord.Location
	// Memory is what earlier batches have learnt. The assigner works on a copy.
	Memory Memory
}

// Batch is a set of servers assigned together.
type Batch struct {
	ID string
	// Seed makes the decision reproducible.
	Seed    uint64
	Servers []Server
	// Near are further servers of the same networks (Network). They are not assigned, but their memories are evidence.
	Near []Server
	// Before is the assigner that decided these servers in the previous round (mode persistent), or nil. vivaldi takes over its
	// places, ipmicra its subnets, also those of a batch of other servers. The others find all they need in the servers' memories.
	Before Assigner
	// Home is the node that crawled the servers until now, if it did so with many at once, or "". It measured them, and itself, under the
	// load of all of them, which the batch takes away. So nearest begins without what it measured, and asks it as it asks others.
	Home string
}

// View is the set of nodes that may be chosen, self included. Ids are unique; the order does not matter.
type View struct{ Nodes []Node }

// sorted returns the nodes in the order of their ids.
func (v View) sorted() []Node {
	return slices.SortedFunc(slices.Values(v.Nodes), func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
}

// ids returns the ids of nodes, in their order.
func ids(nodes []Node) []string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.ID
	}
	return list
}

// find returns the node with an id, nil if it is not in the view.
func (v View) find(id string) *Node {
	for i := range v.Nodes { // a node is too large to be handed to a function
		if v.Nodes[i].ID == id {
			return &v.Nodes[i]
		}
	}
	return nil
}

// Ask asks a node to download one page of a server.
type Ask struct {
	Server netip.Addr
	Node   string
}

// Result answers an Ask.
type Result struct {
	Ask
	// OK is false if the download failed, the node did not answer, or the server has no URL left. The assigner counts such results
	// but learns nothing from them.
	OK bool
	// Unreached is true if the node could not reach the server, Busy if it had no time to try. OK is false then. Other failures say
	// nothing about the node.
	Unreached, Busy bool
	Timing          Timing
	// Coord is the estimator's coordinate at the time of the download, or the zero value if unknown.
	Coord ncoord.Coordinate
}

// Choice is the node that was chosen for a server.
type Choice struct {
	Server netip.Addr
	Node   string
	// PredictedMs is the predicted download time of a typical page at Node, in ms; 0 if the assigner predicts none.
	PredictedMs float64
	// Estimates is the number of downloads that were asked for, including failed ones.
	Estimates int
	// Error is the relative error of the prediction (nearest) or of the proxy coordinate (vivaldi); 0 for the others.
	Error float64
	// Reason explains the choice in words.
	Reason string
}

// Assigner decides one batch.
type Assigner interface {
	// Asks returns the downloads to ask for now. It returns each ask once. At most one ask for a server is outstanding.
	Asks(now time.Time) []Ask
	// Next returns when the passing of time may change Asks or Decide. ok is false if only results change them.
	Next(now time.Time) (at time.Time, ok bool)
	// Observe takes the result of an ask. It ignores other results.
	Observe(r Result, now time.Time)
	// SetView replaces the nodes that may be chosen. It abandons asks to nodes that are gone.
	SetView(v View, now time.Time)
	// Decide returns one choice for each server of the batch, in its order, and whether the decision is final. If nodes leave after
	// that, it chooses other nodes for their servers. With an empty view the decision is final, and no node ("") is chosen.
	Decide(now time.Time) (choices []Choice, done bool)
	// Conclude decides immediately from what is known. It changes nothing if the decision was final before.
	Conclude(now time.Time) []Choice
	// Memory returns what is known about a server now. It is nil if nothing is known or the batch lacks the server. The assigner
	// keeps it: callers copy it with Clone.
	Memory(server netip.Addr) *Memory
}

// Names returns the names of all assigners.
func Names() []string {
	return []string{Random, Geographic, Vivaldi, Nearest, Hash, Probe, HiMicra, IPMicra, CAN}
}

// New returns the assigner of that name for one batch. It fails if the name is unknown, the configuration is invalid, or two servers
// have the same address.
func New(name string, cfg Config, b Batch, v View, now time.Time) (Assigner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make assigner %q: %w", name, err)
	}
	seen := make(map[netip.Addr]bool, len(b.Servers))
	for _, s := range b.Servers {
		if seen[s.Addr] {
			return nil, fmt.Errorf("make assigner %q: batch %s has server %s twice", name, b.ID, s.Addr)
		}
		seen[s.Addr] = true
	}
	var m method
	switch name {
	case Vivaldi:
		return newVivaldi(cfg.Vivaldi, b, v, now), nil
	case Nearest:
		return newNearest(cfg.Nearest, b, v), nil
	case Random:
		m = rule(random)
	case Geographic:
		m = rule(geographic)
	case Hash:
		m = rule(cfg.Hash.choose)
	case Probe:
		m = &probe{cfg: cfg.Probe}
	case HiMicra:
		m = &himicra{cfg: cfg.HiMicra}
	case IPMicra:
		m = newIPMicra(cfg.IPMicra, b.Before)
	case CAN:
		m = &can{cfg: cfg.CAN}
	default:
		return nil, fmt.Errorf("make assigner %q: there are %q", name, Names())
	}
	return newProber(m, b, v), nil
}
