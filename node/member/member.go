// Package member finds the peers of a node by gossip and says who they are: which of them are settled, whether this side
// of the overlay is the larger one, and where each peer is in the coordinate space. It owns the node's own coordinate,
// which moves with the round trips of the probes, and what the node publishes about itself. It does not talk to peers
// about anything else: no URL travels by gossip, and what is hashed over the members or assigned to them is decided
// elsewhere.
package member

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/view"
)

// ErrDuplicate is what Run returns to the younger of two live nodes with one id: a copied data directory, most likely.
var ErrDuplicate = errors.New("another live node has this id")

// IDLen is the length of a node's id: 128 bits in hex.
const IDLen = 32

// Deps are what the room takes from its node and from the world.
type Deps struct {
	// ID is the node's id, 32 lower-case hex characters; Boot tells its lives apart.
	ID   string
	Boot uint64
	// Run is the name of the crawl. Overlays of other runs are not heard, whatever their secret. May be empty.
	Run string
	// Secrets encrypt the gossip, 32 bytes each: the first is used, all are understood. None is allowed only where nobody
	// else can listen: on loopback, or with a Transport of the caller's own.
	Secrets [][]byte
	// Transport carries the gossip; nil is UDP and TCP of the machine at Config.Bind.
	Transport memberlist.Transport
	// Resolve looks the names in Config.Join up; nil is the machine's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Now is the clock, nil is time.Now; Rand is the randomness, nil is seeded by the machine. Rand must not be used
	// by others meanwhile.
	Now  func() time.Time
	Rand *rand.Rand
	// Event gets what happens, one after the other, never from within a call of Members; it must not block for long.
	// nil drops them.
	Event func(Event)
	// Known are gossip addresses of peers of an earlier life (see Members.Known). They are dialled like Config.Join.
	Known []string
	// Voters is what an earlier life kept of this node's votes; nil if there was none. Keep keeps it for the next life,
	// safe from a crash when it returns: what a node has voted for must not be forgotten. nil keeps nothing.
	Voters []byte
	Keep   func([]byte) error
	// PeerAddr is host:port of the node's peer protocol, as others shall dial it.
	PeerAddr string
	// Location is where the node is; nil if that is not known.
	Location *ncoord.Location
	// Links carry what does not go to the ports of members; nil: all does.
	Links Links
}

// Links reach members that cannot be dialled as usual. No method but DialGossip waits.
type Links interface {
	// Send sends a packet, or says that it is to go to the member's port.
	Send(id string, packet []byte) bool
	// DialGossip makes a stream, or says that it is to be dialled.
	DialGossip(ctx context.Context, id string) (conn net.Conn, through bool, err error)
	// Packets and Streams are those that came by links.
	Packets() <-chan *memberlist.Packet
	Streams() <-chan net.Conn
	// Knocked takes a packet that came to the port of the gossip, if it is none of the gossip.
	Knocked(packet []byte) bool
}

// Peer is what is known of a live member.
type Peer struct {
	ID string
	// Addr is host:port of its peer protocol, "" if it published nothing that can be read.
	Addr string
	// Placed says whether Coord and Factors are known.
	Placed bool
	// Coord is its latest published coordinate, Factors what it says of its downloads.
	Coord   ncoord.Coordinate
	Factors assign.Factors
	// Location is where it is; nil if that is not known.
	Location *ncoord.Location
	// Way is how it is reached.
	Way view.Way
}

// View is the overlay as one node sees it. It is a copy: nothing in it changes any more.
type View struct {
	view.View
	// Reason says in words why this side does not see the majority, and what the node waits for.
	Reason string
	// Missing are the voters that do not count as present, sorted by id, of Voters all in all.
	Missing []Missing
	Voters  int
	// Peers are the members alive, this node included, sorted by id.
	Peers []Peer
}

// Kinds of events.
const (
	EventJoin      = "join"      // a member came that was not known
	EventRejoin    = "rejoin"    // a member came back from death, or in a new life
	EventLeave     = "leave"     // a member left in order
	EventDeath     = "death"     // a member does not answer any more
	EventForgotten = "forgotten" // a dead member counts no longer for homes and grantors
	EventSettled   = "settled"   // a member counts for homes and grantors from now on
	EventMajority  = "majority"  // this side sees the majority again
	EventMinority  = "minority"  // this side lost the majority; with Reason
	EventAlone     = "go_alone"  // this side goes on without those that it does not see; with Reason
	EventDuplicate = "duplicate" // another address claims this node's id; with Addr, Reason
	EventBadMeta   = "bad_meta"  // a member publishes what cannot be read; with Reason
	EventSample    = "sample"    // a round trip was measured; with RTT, Coord, and Reason if it was rejected
	EventTrouble   = "trouble"   // the gossip complains; with Reason
	EventReach     = "reach"     // a member, or this node, is reached in another way; with Reason
)

// Event is something that happened in the overlay as this node sees it.
type Event struct {
	Kind string
	// Time is this node's clock.
	Time time.Time
	// ID is the member that it is about, Addr its gossip address; empty where it is about none.
	ID   string
	Addr string
	// Reason says more, in words.
	Reason string
	// Coord is this node's own moving coordinate after a sample.
	Coord ncoord.Coordinate
	// RTT is the round trip of a sample.
	RTT time.Duration
}
