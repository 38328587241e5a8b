package assign

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"proxima/ncoord"
)

// The assigners, as New knows them.
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

// Node is one node that may be chosen, as the deciding node knows it.
type Node struct {
	ID string
	// Coord is the coordinate that the node published last; the zero value if none is known.
	Coord ncoord.Coordinate
	// Location is where the node says it stands, nil if unknown.
	Location *ncoord.Location
	// Factors are what the node published about its own downloads.
	Factors Factors
	// Self marks the node that decides.
	Self bool
}

// Timing is one successful download. Times without DNS and without waiting in queues.
type Timing struct {
	// Connect is the TCP handshake, one round trip; 0 if the connection was kept or not timed.
	Connect time.Duration
	// TLS is the TLS handshake, 0 if there was none.
	TLS time.Duration
	// FirstByte is from the request written to the first byte of the answer: a round trip, the server's think time and
	// the node's load.
	FirstByte time.Duration
	// Total is from dialling, or from using a kept connection, to the last byte of the body.
	Total time.Duration
	// Bytes is the size of the body as it crossed the wire.
	Bytes int64
	// Fresh says that the connection was made for this request.
	Fresh bool
}

// Host is one host on a server.
type Host struct {
	// Name is the authority.
	Name string
	// Pending is how many URLs wait.
	Pending int
	// PageBytes is the size of a typical page as it crosses the wire, in bytes; 0 if unknown.
	PageBytes float64
}

// Server is what is assigned: all its hosts go to one node.
type Server struct {
	Addr  netip.Addr
	Hosts []Host
	// Location is where a database says that the address is, nil if unknown.
	Location *ncoord.Location
	// Memory is what was known before; the zero value if nothing. The assigner works on a copy.
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
	// Near are servers that are not assigned here, whose memories tell something of those that are: servers of the same networks
	// (Network).
	Near []Server
	// Before is the assigner that decided the same servers in the round before (mode persistent), nil if none. vivaldi keeps
	// the places it gave them, ipmicra the subnets; what the others know is in the servers' memories.
	Before Assigner
}

// View is the set of nodes that may be chosen, self included. The order of Nodes does not matter; ids are unique.
type View struct{ Nodes []Node }

// sorted is a copy of v's nodes in the order of their ids, each id once.
func (v View) sorted() []Node {
	nodes := slices.Clone(v.Nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int { return compareStrings(a.ID, b.ID) })
	return slices.CompactFunc(nodes, func(a, b Node) bool { return a.ID == b.ID })
}

// find is the node with an id, nil if it is not in the view.
func (v View) find(id string) *Node {
	for i := range v.Nodes {
		if v.Nodes[i].ID == id {
			return &v.Nodes[i]
		}
	}
	return nil
}

// Ask is the wish that a node downloads one page of a server.
type Ask struct {
	Server netip.Addr
	Node   string
}

// Result answers an Ask.
type Result struct {
	Ask
	// OK is false for failures, for asks that nobody answered, and where the server has no URL left. They say nothing
	// about places; the assigner counts them and goes on.
	OK     bool
	Timing Timing
	// Coord is the estimator's coordinate at the time of the download; the zero value if unknown.
	Coord ncoord.Coordinate
}

// Choice is the node for one server.
type Choice struct {
	Server netip.Addr
	Node   string
	// PredictedMs is the predicted download time of a typical page at Node, in ms; 0 where the assigner predicts none.
	PredictedMs float64
	// Estimates is how many downloads were asked for, failed ones included.
	Estimates int
	// Error is the relative error of the prediction (nearest) or of the proxy coordinate (vivaldi); 0 if none.
	Error float64
	// Reason says in words why.
	Reason string
}

// Assigner decides one batch.
type Assigner interface {
	// Name is the name that New knows it by.
	Name() string
	// Asks is what to ask for now. Each ask is returned once and waits for its Result; a server has at most one ask
	// outstanding.
	Asks(now time.Time) []Ask
	// Next is when Asks or Decide may change by the passing of time alone; false if they only change by results.
	Next(now time.Time) (time.Time, bool)
	// Observe takes the result of an ask. Results that were never asked for are ignored.
	Observe(r Result, now time.Time)
	// SetView replaces the nodes that may be chosen. Asks that are outstanding with nodes that are gone are given up.
	SetView(v View, now time.Time)
	// Decide gives one choice for each server of the batch, in its order, once it is done. Done stays done. When nodes are
	// gone after that, what was theirs is chosen anew from what is known. With an empty view the choices are of no node
	// ("") and done is true.
	Decide(now time.Time) (choices []Choice, done bool)
	// Conclude decides at once, by what is known; it changes nothing where Decide was done.
	Conclude(now time.Time) []Choice
	// Memory is what is known about a server now, nil if it is not in the batch or nothing is known. It belongs to the
	// assigner: copy it by Clone.
	Memory(server netip.Addr) *Memory
}

// Names are the assigners that New makes.
func Names() []string {
	return []string{Random, Geographic, Vivaldi, Nearest, Hash, Probe, HiMicra, IPMicra, CAN}
}

// New makes the assigner of that name for one batch. Servers with the same address are a fault of the caller.
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
		return newRandom(b, v), nil
	case Geographic:
		return newGeographic(b, v), nil
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

// revise is what remains of choices when the view has changed: those of nodes that are gone are replaced by fresh ones.
func revise(choices, fresh []Choice, alive func(id string) bool) []Choice {
	choices = slices.Clone(choices)
	for i := range choices {
		if !alive(choices[i].Node) {
			choices[i] = fresh[i]
		}
	}
	return choices
}
