// Package member finds the peers of a node by gossip. It knows which of them are settled, whether this side of the
// overlay is the majority, and where each peer is in the coordinate space. It owns the node's own coordinate, which
// moves with the round trips of probes, and what the node publishes about itself. It exchanges nothing else with peers:
// no URL travels by gossip. What is hashed over the members or assigned to them is decided elsewhere (package view).
//
// New makes Members, and Run joins the overlay and stays in it. View returns what this node sees, and Changed tells when to
// look again. memberlist carries the gossip. It calls the delegate, which tells the table:
//
//	table     who is there, settled, and how to reach them; pure    table.go, state.go
//	paxos     whose votes count, a part of the table; pure           paxos.go, voters.go
//	          whether that is the majority, and who has answered     majority.go, heard.go
//	locator   this node's place in the coordinate space              locator.go
//	delegate  what memberlist reports, and what it sends             delegate.go, codec.go
//	carrier   packets and streams, by ports or by links              transport.go
//	prover    keeps strangers out                                    proof.go
//	Members   the loops over all that, and the farewell              members.go, voting.go, redial.go, farewell.go
//	          another node with the same id                          twin.go
package member

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/relay"
	"proxima/node/view"
)

// ErrDuplicate is what Run returns in the younger of two live nodes with the same id, most likely because a data
// directory was copied.
var ErrDuplicate = errors.New("another live node has this id")

// idLen is the length of a node's id: 128 bits in hex.
const idLen = 32

// Deps are what Members need from their node.
type Deps struct {
	// ID is the node's id, 32 lower-case hex characters. Boot tells its lives apart.
	ID   string
	Boot uint64
	// Label names the overlay. Gossip with another label is ignored, whatever its secret. It may be empty.
	Label string
	// Secrets encrypt the gossip, 32 bytes each: the first is used, all are accepted.
	Secrets [][]byte
	// Transport carries the gossip; nil uses UDP and TCP at Config.Bind.
	Transport memberlist.Transport
	// Resolve looks up the names in Config.Join; nil uses the machine's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Now is the clock, nil for time.Now.
	Now func() time.Time
	// Event gets events one by one, never from within a call of Members. It must not block for long. nil drops events.
	Event func(Event)
	// Known are gossip addresses of peers of an earlier life (see Members.Known). They are dialled like Config.Join.
	Known []string
	// Voters is what an earlier life kept of this node's votes, nil if none. Keep keeps it for the next life, on disk
	// when it returns, because a vote must not be forgotten. nil keeps nothing.
	Voters []byte
	Keep   func([]byte) error
	// PeerAddr is the host:port at which others dial the node's peer protocol.
	PeerAddr string
	// Location is where the node is, nil if unknown.
	Location *ncoord.Location
	// Links carry what does not go to members' ports; nil if everything does.
	Links Links
}

// Links reach members that cannot be dialled. Only Dial may wait.
type Links interface {
	// Send sends a packet. It returns false if the packet is to go to the member's port.
	Send(id string, packet []byte) bool
	// Dial makes a stream. It returns nil and nil if the member is to be dialled.
	Dial(ctx context.Context, id string, kind relay.Kind) (net.Conn, error)
	// Packets and Streams are what came in by links.
	Packets() <-chan *memberlist.Packet
	Streams() <-chan net.Conn
	// Knocked handles a packet that came to the gossip port, if it is not gossip.
	Knocked(packet []byte) bool
}

// Peer is a member as this node sees it.
type Peer struct {
	ID   string
	Boot uint64
	// Addr is the host:port of its peer protocol, "" if it published nothing readable.
	Addr string
	// Phase is "alive", "dead" or "left"; For is how long it has been that.
	Phase string
	For   time.Duration
	// Settled reports whether it counts for homes and grantors.
	Settled bool
	// RTT is the median of the latest round trips in ms, 0 if there were none.
	RTT float64
	// Placed reports whether Coord and Factors are known.
	Placed bool
	// Coord is its latest published coordinate, Factors what it publishes of its downloads.
	Coord   ncoord.Coordinate
	Factors assign.Factors
	// Location is where it is, nil if unknown.
	Location *ncoord.Location
	// Way is how to reach it.
	Way view.Way
}

// View is the overlay as one node sees it. It is an immutable copy.
type View struct {
	view.View
	// Reason says why this side is not the majority, and what the node waits for.
	Reason string
	// Missing are the voters that do not count as present, sorted by id; Voters is the number of all voters.
	Missing []Missing
	Voters  int
	// Members are all members known, including this node, the dead, and those that left lately, sorted by id.
	Members []Peer
}

// Kinds of events.
const (
	EventJoin      = "join"      // a new member came
	EventRejoin    = "rejoin"    // a member came back from death, or in a new life
	EventLeave     = "leave"     // a member left in order
	EventDeath     = "death"     // a member no longer answers
	EventForgotten = "forgotten" // a dead member no longer counts for homes and grantors
	EventSettled   = "settled"   // a member counts for homes and grantors from now on
	EventMajority  = "majority"  // this side is the majority again
	EventMinority  = "minority"  // this side is no longer the majority; with Reason
	EventAlone     = "go_alone"  // this side goes on without members that are gone; with Reason
	EventDuplicate = "duplicate" // another address claims this node's id; with Addr, Reason
	EventBadMeta   = "bad_meta"  // a member publishes something unreadable; with Reason
	EventSample    = "sample"    // a round trip was measured; with RTT, Coord, and Reason if it was rejected
	EventTrouble   = "trouble"   // the gossip complains; with Reason
	EventReach     = "reach"     // how to reach a member, or this node, has changed; with Reason
)

// Event is something that happened in the overlay as this node sees it.
type Event struct {
	Kind string
	// Time is by this node's clock.
	Time time.Time
	// ID is the member concerned, Addr its gossip address; empty if there is none.
	ID   string
	Addr string
	// Reason gives details in words.
	Reason string
	// Coord is this node's own moving coordinate after a sample.
	Coord ncoord.Coordinate
	// RTT is the round trip of a sample.
	RTT time.Duration
}
