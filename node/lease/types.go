package lease

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/wire"
)

// Peers sends requests to other nodes, and to this node itself. It fills in the header, with ids that grow from call to call.
type Peers interface {
	Lease(ctx context.Context, to string, req *wire.LeaseRequest) (*wire.LeaseResponse, error)
	Rights(ctx context.Context, to string, req *wire.RightsRequest) (*wire.RightsResponse, error)
}

// Server is the frontier's state of a server.
type Server = frontier.ServerState

// Frontier is told what it may ask, and how often. It must not call the Holder from within these calls.
type Frontier interface {
	// Grant allows requests to a server until then, the first not before wait is over. It extends an earlier one; a time
	// that is past ends it at once: requests that are out are cancelled.
	Grant(addr netip.Addr, until time.Time, wait time.Duration)
	// Withdraw allows no further request; those that are out may end until the time of Grant.
	Withdraw(addr netip.Addr)
	// Wanted waits for servers that are wanted without a lease.
	Wanted(ctx context.Context) ([]netip.Addr, error)
	// SetSpacing sets the factor by which the spacing of requests to a server grows, because it is overloaded.
	SetSpacing(addr netip.Addr, factor float64)
	// Servers are those that are wanted or leased.
	Servers() []Server
}

// Shelf is a durable map, safe for concurrent use. Get of a key that is not there returns nil, nil. Scan visits the keys with a prefix.
type Shelf interface {
	Get(key []byte) ([]byte, error)
	Put(key, value []byte) error
	Delete(key []byte) error
	Scan(prefix []byte, visit func(key, value []byte) error) error
}

// Remote is a page that this node downloads, or is to download, under a lease of another.
type Remote struct {
	Server netip.Addr
	Holder string // of the lease
	Until  time.Time
}

// GrantorDeps are what a Grantor takes from the world.
type GrantorDeps struct {
	Clock *Clock
	Boot  uint64 // which of its lives the node is in: grants of different lives get different numbers
	Peers Peers
	Shelf Shelf
	// Trouble hears of what the disk refuses; the leases go on.
	Trouble func(error)
}

// HolderDeps are what a Holder takes from the world. Callbacks are called without locks and must not block for long.
type HolderDeps struct {
	Clock    *Clock
	Boot     uint64 // which of its lives the node is in
	Peers    Peers
	Frontier Frontier
	// OnHeld is told each time that a wanted server turns out to be leased to, or reserved for, another node. May be nil.
	OnHeld func(addr netip.Addr, holder string)
	// Remote are the pages that this node downloads for others. May be nil.
	Remote func() []Remote
	// Moved gets the memory of a server that this node holds when it is sent to its grantor. It is a copy. May be nil.
	Moved func(addr netip.Addr, m *assign.Memory)
	// Seed makes the jitter.
	Seed uint64
}

// ErrStopped says that the Holder does not run any more.
var ErrStopped = errors.New("holder of leases stopped")

// HeldError says that another node holds the lease on a server.
type HeldError struct {
	Addr   netip.Addr
	Holder string
}

func (e *HeldError) Error() string { return fmt.Sprintf("server %v is leased to %s", e.Addr, e.Holder) }

// Status counts what a node's grantor and holder do. Counters are since the start.
type Status struct {
	GrantorStatus
	HolderStatus
}

// GrantorStatus counts what a Grantor does.
type GrantorStatus struct {
	Blind     int64  // ms until it is known what was granted before this life of the node
	Granted   int    // servers granted now, to this node too
	Given     uint64 // grants and renewals
	Refused   uint64 // items of others answered with HELD
	Elsewhere uint64 // items for servers that this node is not the grantor of
	Later     uint64 // items answered with LATER
	Bad       uint64 // items that could not be read
	Stale     uint64 // items that arrived out of order
	Inquiries uint64 // times that all members said what they hold
}

// HolderStatus counts what a Holder does.
type HolderStatus struct {
	Held        int    // leases that this node has
	Waiting     int    // servers wanted without a lease
	Expired     uint64 // leases that ran out before they were renewed
	Released    uint64 // leases given back
	Unreachable uint64 // calls that failed
	Spared      int    // servers asked more seldom because they are overloaded
}
