// Package assign decides which node crawls which server.
//
// It owns the assigners (nearest and those of the literature, docs/assigners.md) behind one interface, what is remembered of a
// server (Memory), what a node learns about its own downloads (Own, Factors), the prediction of download times from both, and
// the rendezvous draw that finds homes and grantors. It does not download, keep, send, log or wait. It is pure: time is an
// argument and randomness comes from a seed. Nothing here is safe for concurrent use unless it says so.
//
// An assigner is a step machine. Its driver asks it what to download now (Asks), reports results (Observe) and the nodes that
// are alive (SetView), and polls for the decision (Decide). In whatever order these calls come, an assigner decides in the end
// as long as its asks are answered or refused and time passes.
//
// The model behind nearest, with its sources: model.go says what a download consists of, field.go models the round trips from
// all nodes to one server, places.go says where the server may be, neighbours.go what servers nearby tell of it. learner.go
// fits all of it. docs/nearest.md says what each part is worth.
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

// Node is one node that may be chosen, as the deciding home knows it.
type Node struct {
	ID string
	// Coord is the last published coordinate, the zero value if none is known.
	Coord ncoord.Coordinate
	// Location is where the node says it is, nil if unknown.
	Location *ncoord.Location
	// Factors is what the node published about its own downloads.
	Factors Factors
	// Self marks the node that decides.
	Self bool
}

// Timing is how long one successful download took, without DNS and without waiting in queues.
type Timing struct {
	// Connect is the TCP handshake: one round trip. 0 if the connection was reused or not timed.
	Connect time.Duration
	// TLS is the TLS handshake, 0 if there was none.
	TLS time.Duration
	// FirstByte runs from the request written to the first byte of the answer: a round trip, the server's think time and the
	// node's load.
	FirstByte time.Duration
	// Total runs from dialling (or from reusing a connection) to the last byte of the body.
	Total time.Duration
	// Bytes is the size of the body on the wire.
	Bytes int64
	// Fresh is true if the connection was made for this request.
	Fresh bool
}

// Host is one host on a server.
type Host struct {
	// Name is the host's authority.
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
	// Location is where a database places the address, nil if unknown.
	Location *ncoord.Location
	// Memory is what earlier batches showed. The assigner works on a copy.
	Memory Memory
}

// Batch is a set of servers assigned together.
type Batch struct {
	ID string
	// Home is the id of the node that decides.
	Home string
	// Seed makes the decision reproducible.
	Seed    uint64
	Servers []Server
	// Near are further servers of the same networks (Network). They are not assigned, but their memories are evidence.
	Near []Server
	// Before is the assigner that decided these servers in the previous round (mode persistent), nil if none. From it vivaldi
	// takes over places and ipmicra subnets; the others find all they know in the servers' memories.
	Before Assigner
}

// View is the set of nodes that may be chosen, self included. Ids are unique; the order does not matter.
type View struct{ Nodes []Node }

// sorted copies the nodes in the order of their ids, each id once.
func (v View) sorted() []Node {
	nodes := slices.Clone(v.Nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(nodes, func(a, b Node) bool { return a.ID == b.ID })
}

func ids(nodes []Node) []string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.ID
	}
	return list
}

// find returns the node with an id, nil if the view lacks it.
func (v View) find(id string) *Node {
	for i := range v.Nodes {
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
	// OK is false if the download failed, nobody answered, or the server has no URL left. The assigner counts such results and
	// learns nothing from them.
	OK     bool
	Timing Timing
	// Coord is the estimator's coordinate at the time of the download, the zero value if unknown.
	Coord ncoord.Coordinate
}

// Choice is the node for one server.
type Choice struct {
	Server netip.Addr
	Node   string
	// PredictedMs is the predicted download time of a typical page at Node, in ms; 0 if the assigner predicts none.
	PredictedMs float64
	// Estimates is how many downloads were asked for, failed ones included.
	Estimates int
	// Error is the relative error of the prediction (nearest) or of the proxy coordinate (vivaldi); 0 for the others.
	Error float64
	// Reason explains the choice in words.
	Reason string
}

// Assigner decides one batch.
type Assigner interface {
	// Name returns the name that New knows the assigner by.
	Name() string
	// Asks returns what to ask for now. Each ask is returned once; a server has at most one ask outstanding.
	Asks(now time.Time) []Ask
	// Next returns when Asks or Decide may change just because time passes; ok is false if only results change them.
	Next(now time.Time) (at time.Time, ok bool)
	// Observe takes the result of an ask. It ignores results of asks never made.
	Observe(r Result, now time.Time)
	// SetView replaces the nodes that may be chosen. It gives up asks to nodes that are gone.
	SetView(v View, now time.Time)
	// Decide returns one choice for each server of the batch, in its order, once it is done. Done stays done. If nodes leave
	// after that, their servers are chosen anew from what is known. With an empty view it is done, and no node ("") is chosen.
	Decide(now time.Time) (choices []Choice, done bool)
	// Conclude decides at once from what is known. It changes nothing where Decide was done.
	Conclude(now time.Time) []Choice
	// Memory returns what is known about a server now, nil if nothing is or the batch lacks it. It belongs to the assigner:
	// copy it by Clone.
	Memory(server netip.Addr) *Memory
}

// Names lists the assigners that New makes.
func Names() []string {
	return []string{Random, Geographic, Vivaldi, Nearest, Hash, Probe, HiMicra, IPMicra, CAN}
}

// New makes the assigner of that name for one batch. It fails for an unknown name, a bad configuration, and for two servers
// with one address.
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
	switch name {
	case Random:
		return newDirect(Random, b, v, random), nil
	case Geographic:
		return newDirect(Geographic, b, v, geographic), nil
	case Vivaldi:
		return newVivaldi(cfg.Vivaldi, b, v, now), nil
	case Nearest:
		return newNearest(cfg.Nearest, b, v), nil
	case Hash:
		return newHash(cfg.Hash, b, v), nil
	case Probe:
		return newProbe(cfg.Probe, b, v), nil
	case HiMicra:
		return newHiMicra(cfg.HiMicra, b, v), nil
	case IPMicra:
		return newIPMicra(cfg.IPMicra, b, v), nil
	case CAN:
		return newCAN(cfg.CAN, b, v), nil
	}
	return nil, fmt.Errorf("make assigner %q: there are %q", name, Names())
}

// revise replaces the choices of nodes that are gone by fresh ones.
func revise(choices, fresh []Choice, v View) []Choice {
	choices = slices.Clone(choices)
	for i := range choices {
		if v.find(choices[i].Node) == nil {
			choices[i] = fresh[i]
		}
	}
	return choices
}
