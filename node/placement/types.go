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

// Frontier is what placement needs of the frontier.
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
	SetPace(share float64)
}

// Leases are the rights of this node to ask servers, and what is known of these. Hold may fail with a lease.HeldError.
type Leases interface {
	Hold(ctx context.Context, addr netip.Addr) (*assign.Memory, error)
	Give(addr netip.Addr, successor string, m *assign.Memory)
	Held() []netip.Addr
	Memory(addr netip.Addr) (*assign.Memory, bool)
	Observed(addr netip.Addr, node string, coord ncoord.Coordinate, t assign.Timing)
}

// Owners knows who owns hosts, and moves them.
type Owners interface {
	// Mine says that this node is the home of a host and its first owner: it has not been assigned.
	Mine(host string) bool
	// Record is what is known of a host; a host that is not known has the zero Record.
	Record(host string) (r ownership.Record, known bool, err error)
	// HandOff moves a host of this home to a node, which may be this one, and says that it was assigned. An error leaves it here.
	HandOff(ctx context.Context, host, to string, assigned bool, reason string) error
	// Wish asks the home of a host to have it moved.
	Wish(host, to, reason string)
}

// Crawler carries out tasks of this node.
type Crawler interface {
	// Do carries out a task here and finishes it: robots.txt and sitemaps.
	Do(ctx context.Context, task *frontier.Task) error
	// Finish ends a task that a remote fetch carried out, as if the page and its links had been found here.
	Finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) error
	// Refuse says why a page must not be asked for (robots.txt, blocklist), "" if it may.
	Refuse(task *frontier.Task) (reason string, err error)
}

// Deps are what placement needs from other rooms. What it calls must not call back.
type Deps struct {
	// Self is the id of this node, Boot which of its lives it is in: batches are named by both.
	Self string
	Boot uint64
	// Assign is how the assigners decide.
	Assign assign.Config

	Frontier Frontier
	Leases   Leases
	Owners   Owners
	Crawler  Crawler
	// Fetch lets a node, this one included, download a page: Remote.Do.
	Fetch func(ctx context.Context, to string, f RemoteFetch) (Result, error)
	// Locate says where a database says that an address is; nil if it does not.
	Locate func(netip.Addr) *ncoord.Location
	// LeaseFor is how long a batch waits for the lease of a server: longer than one lasts that nobody gave back.
	LeaseFor time.Duration
	// JoinEvery is how soon a host is told again to join the node that its server is leased to.
	JoinEvery time.Duration

	// Assigned is told of every decision.
	Assigned func(runlog.Assign)
	// Placed is told what an assigner has learnt of a server that it decides about.
	Placed func(label string, server netip.Addr, m *assign.Memory)
	// LeftOut is told of hosts that a batch goes on without because their names did not resolve.
	LeftOut func(host, reason string, urls int)
	// Trouble is told what went wrong and was survived.
	Trouble func(error)
}

// Phases of a batch.
const (
	PhaseIdle    = "idle"
	PhaseResolve = "resolving"
	PhaseLease   = "taking leases"
	PhaseDecide  = "deciding"
	PhaseCompare = "comparing"
	PhaseHandOff = "handing off"
	PhaseWait    = "waiting for the next round"
	PhaseRound   = "downloading a round"
)

// Status is what people and tests want to know. Counts are since the start but for those that say now.
type Status struct {
	Mode    string `json:"mode"`
	Phase   string `json:"phase"`
	Why     string `json:"why"`     // why there is no batch now, in words
	Batch   string `json:"batch"`   // now, "" for none
	Hosts   int    `json:"hosts"`   // in it
	Servers int    `json:"servers"` // in it
	ForMs   int64  `json:"for_ms"`  // how long the phase lasts
	Waiting int    `json:"waiting"` // hosts with too few URLs, now
	Resting int    `json:"resting"` // hosts left out for a while, now

	Batches    int64 `json:"batches"`    // begun
	Rounds     int64 `json:"rounds"`     // of mode persistent
	HandedOff  int64 `json:"handed_off"` // hosts
	Joined     int64 `json:"joined"`     // hosts that went to the holder of their server's lease
	Kept       int64 `json:"kept"`       // hosts that stayed: a hand-off or a lease failed, nobody was chosen
	Unresolved int64 `json:"unresolved"` // hosts
	Estimates  int64 `json:"estimates"`  // asked for
	Unanswered int64 `json:"unanswered"` // estimates and downloads without an answer
	Compared   int64 `json:"compared"`   // downloads for comparisons and rounds
	Overdue    int64 `json:"overdue"`    // assigners that did not decide before the deadline
}
