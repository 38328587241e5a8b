package placement

import (
	"context"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/ncoord"
	"proxima/node/ownership"
	"proxima/node/runlog"
)

// Frontier queues URLs and knows servers.
type Frontier interface {
	Ready(after string, minURLs, max int) (hosts []frontier.ReadyHost, next string, err error)
	Activate(ctx context.Context, host string) error
	Placed(host string) (addrs []netip.Addr, ok bool)
	Servers() []frontier.ServerState
	HostsAt(addr netip.Addr) []string
	Reserve(addr netip.Addr, on bool)
	TakeFrom(ctx context.Context, host string, addr netip.Addr) (*frontier.Task, error)
	Gap(host string, addr netip.Addr, elapsed, retryAfter time.Duration) time.Duration
	OwnServer(addr netip.Addr) bool
	SetSlow(on bool)
}

// Leases gets and gives back the right to ask servers, and stores what is known of them. Hold may fail with a lease.HeldError.
type Leases interface {
	Hold(ctx context.Context, addr netip.Addr) (*assign.Memory, error)
	Give(addr netip.Addr, successor string, m *assign.Memory)
	Held() []netip.Addr
	Memory(addr netip.Addr) (*assign.Memory, bool)
	Observed(addr netip.Addr, node string, coord ncoord.Coordinate, t assign.Timing)
	Failed(addr netip.Addr, node string)
}

// Owners knows who owns hosts, and moves them.
type Owners interface {
	// Mine reports whether this node may assign a host: it is the home and the owner, and the host was not assigned before.
	Mine(host string) bool
	// Record returns the record of a host, the zero Record if the host is unknown.
	Record(host string) (r ownership.Record, known bool, err error)
	// HandOff makes a node, which may be this one, the assigned owner of a host. After an error the host is still here.
	HandOff(ctx context.Context, host, to string, assigned bool, reason string) error
	// Wish asks for a host to be handed off soon.
	Wish(host, to, reason string)
}

// Crawler carries out tasks of this node.
type Crawler interface {
	// Do carries out a task on this node and finishes it.
	Do(ctx context.Context, task *frontier.Task) error
	// Finish ends a task that a remote fetch carried out, as if this node had downloaded the page.
	Finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) error
	// Refuse returns why a page must not be requested (robots.txt, blocklist, limits of its host), "" if it may.
	Refuse(ctx context.Context, task *frontier.Task) (reason string, err error)
}

// Deps are the dependencies of Placement. They must not call it back.
type Deps struct {
	// Self is the id of this node, Boot the number of its life. Batches are named by both.
	Self string
	Boot uint64
	// Assign configures the assigners.
	Assign assign.Config

	Frontier Frontier
	Leases   Leases
	Owners   Owners
	Crawler  Crawler
	// Fetch lets a node, which may be this one, download a page: Remote.Do.
	Fetch func(ctx context.Context, to string, f RemoteFetch) (Result, error)
	// Locate returns where an address is according to a database, nil if it is not in there.
	Locate func(netip.Addr) *ncoord.Location
	// LeaseFor is how long a batch waits for the lease of a server. It is longer than a lease that nobody gives back lasts.
	LeaseFor time.Duration
	// JoinEvery is the time between two wishes that a host join the node to which its server is leased.
	JoinEvery time.Duration

	// Assigned hears of every decision.
	Assigned func(runlog.Assign)
	// Placed hears what an assigner has learnt of a server that it decides about.
	Placed func(label string, server netip.Addr, m *assign.Memory)
	// LeftOut hears of hosts whose names did not resolve, so that a batch goes on without them.
	LeftOut func(host, reason string, urls int)
	// Trouble hears of errors that end no batch.
	Trouble func(error)
}
