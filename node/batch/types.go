package batch

import (
	"context"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
)

// Frontier is what a batch needs of the frontier.
type Frontier interface {
	Ready(after string, minURLs, max int) (hosts []frontier.ReadyHost, next string, err error)
	Activate(ctx context.Context, host string) error
	Placed(host string) (addrs []netip.Addr, ok bool)
	Servers() []frontier.ServerState
	Reserve(addr netip.Addr, on bool)
	TakeFrom(ctx context.Context, host string, addr netip.Addr) (*frontier.Task, error)
	Finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) (frontier.Finished, error)
}

// Keeper takes and gives back the leases of servers.
type Keeper interface {
	Hold(ctx context.Context, addr netip.Addr) (*assign.Memory, error)
	Give(addr netip.Addr, successor string, m *assign.Memory)
}

// Errand is one page that a node is to download for this one.
type Errand struct {
	URL                    identity.URL
	Server                 netip.Addr
	Epoch                  uint64 // left to who sends it
	Batch                  string
	Labels                 []string
	Assigned, Fresh, Quiet bool
	Depth, Hops, Attempt   uint8
}

// Result is what became of it: the frontier's words for the end, and the timing where HTML is true.
type Result struct {
	Ending     frontier.Ending
	Trouble    frontier.Trouble
	Reason     string
	Asked      bool
	RetryAfter time.Duration
	Status     int
	Timing     assign.Timing
	Unmade     bool
	HTML       bool
	// Coord is the coordinate of the node that made it, valid where Placed is true.
	Coord  ncoord.Coordinate
	Placed bool
	// Lingers comes with an error only: for how long the node may still download the page.
	Lingers time.Duration
}

// Decision is what one assigner decided about one host.
type Decision struct {
	Batch string
	// Label is the assigner; "" where the server was leased to another node and nobody was asked.
	Label       string
	Host        string
	Server      netip.Addr
	Node        string
	URLs        int     // pending
	PredictedMs float64 // download time of a typical page at Node, 0 if none is predicted
	Estimates   int     // asked for
	Error       float64 // relative, when decided
	Seconds     float64 // from the begin of the deciding
	Reason      string
	Runners     []assign.Runner
}

// Deps are what the room needs from the others. Callbacks must not call back into the room.
type Deps struct {
	// Self is the id of this node, Boot which of its lives it is in: batches are named by both.
	Self string
	Boot uint64
	// Assign is how the assigners decide.
	Assign assign.Config

	Frontier Frontier
	Keeper   Keeper
	// Holder says which node an error of Keeper.Hold names as the holder of the lease.
	Holder func(error) (holder string, held bool)
	// Do lets a node, this one included, download a page. With an error only Lingers of the result counts.
	Do func(ctx context.Context, to string, e Errand) (Result, error)
	// Mine says that this node is the home of a host and its first owner: it has not been assigned.
	Mine func(host string) bool
	// HandOff moves a host to a node, which may be this one. An error leaves it here.
	HandOff func(ctx context.Context, host, to, reason string) error
	// Crawl carries out a task here and finishes it: robots.txt and sitemaps.
	Crawl func(ctx context.Context, task *frontier.Task) error
	// Refuse says why a page must not be asked for (robots.txt, blocklist), "" if it may.
	Refuse func(task *frontier.Task) (reason string, err error)
	// Gap is how long a server must be left alone after a request for a host's page that took that long.
	Gap func(host string, addr netip.Addr, elapsed, retryAfter time.Duration) time.Duration

	// The rest may be nil.

	// Locate says where a database says that an address is; nil if it does not.
	Locate func(netip.Addr) *ncoord.Location
	// Paused says why nothing may be assigned now (the smaller side of a partition), "" if it may.
	Paused func() string
	// Assigned is told of every decision.
	Assigned func(Decision)
	// LeftOut is told of hosts that a batch goes on without because their names did not resolve.
	LeftOut func(host, reason string, urls int)
	// Trickle sets the share of its usual speed at which this node crawls while estimates run; 1 when they are over.
	Trickle func(share float64)
	// Own says that a server is named as one's own: mode persistent downloads from no other.
	Own func(netip.Addr) bool
	// OnLapse calls cancel if the lease of a task's server ends before the task; nil: (*frontier.Task).OnExpire.
	OnLapse func(task *frontier.Task, cancel func())
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
