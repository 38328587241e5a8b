package lease

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/peer"
	"proxima/node/wire"
)

// Server is the state of a server at the frontier.
type Server = frontier.ServerState

// Frontier is told what it may ask. It must not call the Holder from within these calls.
type Frontier interface {
	// Grant allows requests to a server until a time, the first one after wait. It replaces an earlier grant. A past time ends the
	// grant and cancels requests under way.
	Grant(addr netip.Addr, until time.Time, wait time.Duration)
	// Withdraw forbids new requests. Those under way may finish until the time of Grant.
	Withdraw(addr netip.Addr)
	// Wanted waits for servers that are wanted and not leased.
	Wanted(ctx context.Context) ([]netip.Addr, error)
	// SetSpacing sets the factor by which the spacing of requests to an overloaded server grows.
	SetSpacing(addr netip.Addr, factor float64)
	// Servers returns the servers that are wanted or leased.
	Servers() []Server
}

// Shelf is a durable map, safe for concurrent use. Get returns nil, nil for an unknown key. Scan visits the keys with a prefix, and visit may
// keep what it gets.
type Shelf interface {
	Get(key []byte) ([]byte, error)
	Put(key, value []byte) error
	Delete(key []byte) error
	Scan(prefix []byte, visit func(key, value []byte) error) error
}

// Remote is a page that this node downloads, or will, under the lease of another node.
type Remote struct {
	Server netip.Addr
	Holder string // of the lease
	Until  time.Time
}

// GrantorDeps are the dependencies of a Grantor.
type GrantorDeps struct {
	Clock *Clock
	Boot  uint64 // the number of this life; 1 is the first
	Shelf Shelf
	// Rights asks other nodes, and this node itself.
	Rights peer.Call[wire.RightsRequest, wire.RightsResponse]
	// Trouble hears of errors of the disk. Leases go on without it.
	Trouble func(error)
}

// HolderDeps are the dependencies of a Holder. The callbacks are called without locks, and must not block for long.
type HolderDeps struct {
	Clock    *Clock
	Boot     uint64 // the number of this life
	Frontier Frontier
	// Lease asks other nodes, and this node itself. It fills in the header, with an id that grows with each call.
	Lease peer.Call[wire.LeaseRequest, wire.LeaseResponse]
	// OnHeld hears that a wanted server is leased to, or reserved for, another node.
	OnHeld func(addr netip.Addr, holder string)
	// Remote returns the pages that this node downloads for others.
	Remote func() []Remote
	// Moved gets a copy of each memory that is sent to a grantor.
	Moved func(addr netip.Addr, m *assign.Memory)
	// Seed of the jitter.
	Seed uint64
}

// ErrStopped is returned when the Holder no longer runs.
var ErrStopped = errors.New("holder of leases stopped")

// HeldError is returned when another node holds the lease on a server.
type HeldError struct {
	Addr   netip.Addr
	Holder string
}

func (e *HeldError) Error() string { return fmt.Sprintf("server %v is leased to %s", e.Addr, e.Holder) }

// Status joins the counts of a node's Grantor and Holder. Counters are totals since the start.
type Status struct {
	GrantorStatus
	HolderStatus
}

// GrantorStatus is the counts of a Grantor.
type GrantorStatus struct {
	Blind     int64  // ms until it is known what was granted before
	Granted   int    // servers granted now, to this node as well
	Given     uint64 // grants and renewals
	Refused   uint64 // items answered with HELD
	Elsewhere uint64 // items about servers of other grantors
	Later     uint64 // items answered with LATER
	Bad       uint64 // malformed items
	Stale     uint64 // items out of order
	Inquiries uint64 // successful inquiries
}

// HolderStatus is the counts of a Holder.
type HolderStatus struct {
	Held        int    // leases held now
	Waiting     int    // servers wanted and not leased
	Expired     uint64 // leases that expired before they were renewed
	Released    uint64 // leases given back
	Unreachable uint64 // calls that failed
	Spared      int    // servers asked less often because they are overloaded
}
