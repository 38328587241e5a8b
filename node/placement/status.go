package placement

// The phases of a batch.
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

// Status describes the present batch, and counts what has happened since the start.
type Status struct {
	Mode    string `json:"mode"`
	Phase   string `json:"phase"`
	Why     string `json:"why"`     // why there is no batch now
	Batch   string `json:"batch"`   // the name of the present batch, "" if there is none
	Hosts   int    `json:"hosts"`   // in the present batch
	Servers int    `json:"servers"` // in the present batch
	ForMs   int64  `json:"for_ms"`  // since the present phase began
	Waiting int    `json:"waiting"` // hosts that have too few URLs now
	Resting int    `json:"resting"` // hosts that batches leave out now

	Batches    int64 `json:"batches"`    // that have begun
	Rounds     int64 `json:"rounds"`     // of mode persistent
	HandedOff  int64 `json:"handed_off"` // hosts that went to the node that was chosen
	Joined     int64 `json:"joined"`     // hosts that went to the holder of their server's lease
	Kept       int64 `json:"kept"`       // hosts that stayed, because a hand-off or a lease failed or no node was chosen
	Unresolved int64 `json:"unresolved"` // hosts whose names did not resolve
	Estimates  int64 `json:"estimates"`  // that were asked for
	Unanswered int64 `json:"unanswered"` // estimates and other downloads without an answer
	Compared   int64 `json:"compared"`   // downloads for comparisons and rounds
	Overdue    int64 `json:"overdue"`    // assigners that did not decide before the deadline
}
