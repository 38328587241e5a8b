package compare

import "time"

// Result is a comparison. The fields with JSON names are its stable form for programs (docs/compare.md). nil means that the logs cannot
// tell.
type Result struct {
	Assigners []Assigner `json:"assigners"`
	Crawl     Crawl      `json:"crawl"`
	Testbed   Testbed    `json:"testbed"`

	Command   string     `json:"-"` // that read the logs, "" if unknown
	By        string     `json:"-"` // what a row is
	Runs      []RunInfo  `json:"-"`
	Statuses  []Status   `json:"-"`
	Nodes     []NodeUse  `json:"-"` // of the first compared run, like everything below
	NodesOf   string     `json:"-"` // folder of that run if there are several
	Reading   Reading    `json:"-"`
	Servers   []Server   `json:"-"` // those where the leading row loses most come first
	Events    []Event    `json:"-"` // of the scenario
	Affected  []Affected `json:"-"`
	Homes     []HomeUse  `json:"-"`
	Reference string     `json:"-"` // what rows are compared to, "" if there is none
	LeftOut   []string   `json:"-"` // names of rows beyond maxRows
	Killed    []string   `json:"-"` // folders of runs that did not come to their end and are left out
	Apart     bool       `json:"-"` // rows were in different worlds
	Mixed     []string   `json:"-"` // settings in which runs of one row differ
	Makespans bool       `json:"-"` // so were the runs from which makespans and balances come
	Pages     int64      `json:"-"` // that assigners decided about together, or those of separate runs
	Uneven    int64      `json:"-"` // of these, got by the nodes of some assigners only
	Unshared  int64      `json:"-"` // the same in separate runs

	// Timelines; x is in s since the start of the run.
	Progress   []Series `json:"-"` // URLs downloaded, by row
	Speed      []Series `json:"-"` // kB/s by node, median of the 120 latest pages
	SpeedBy    []Series `json:"-"` // the same by row
	CPU        []Series `json:"-"` // processors in use by a node
	Queue      []Series `json:"-"` // URLs waiting at a node
	CoordError []Series `json:"-"` // relative, of the nodes' coordinates: p50 and p90
}

// Series is one line of a plot.
type Series struct {
	Label  string
	Points []Point
}

// Point is x and y.
type Point [2]float64

// Assigner is one row. Times are of single downloads, answered with a status below 400, of pages that the nodes of all assigners got.
type Assigner struct {
	Name                    string   `json:"name"`
	URLs                    int64    `json:"urls"`
	Downloaded              int64    `json:"downloaded"`
	Failed                  int64    `json:"failed"`
	Bytes                   int64    `json:"bytes"`
	P50Ms                   *float64 `json:"p50_ms"`
	P90Ms                   *float64 `json:"p90_ms"`
	P99Ms                   *float64 `json:"p99_ms"`
	MeanMs                  *float64 `json:"mean_ms"`
	ChoiceRatio             *float64 `json:"choice_ratio"`
	TotalRatio              *float64 `json:"total_ratio"`
	TotalRatioWithEstimates *float64 `json:"total_ratio_with_estimates"`
	MakespanS               *float64 `json:"makespan_s"`
	BalanceCV               *float64 `json:"balance_cv"`
	EstimatesP50            *float64 `json:"estimates_p50"`
	EstimatesP90            *float64 `json:"estimates_p90"`
	BestShare               *float64 `json:"best_share"`
	Truncated               bool     `json:"truncated"`

	Difference               *Difference `json:"-"` // to the reference
	Lead                     *Difference `json:"-"` // of the leading row to this one
	Times                    []Point     `json:"-"` // distribution of download times: ms and share
	Updates                  []Point     `json:"-"` // distribution of the estimates of a server
	ChoiceRatioWithEstimates *float64    `json:"-"`
	SecondsP50               *float64    `json:"-"` // from the start of a batch to the decision
	AccuracyP50              *float64    `json:"-"` // error of the servers' places when decided
	Decisions                int64       `json:"-"` // servers
	Short, Forced            int64       `json:"-"` // of these: fewer pages than wanted; decided because it had to
	MakespanWhy              string      `json:"-"` // why it is unknown
	Balance                  *Balance    `json:"-"`
	Seeds                    []SeedShare `json:"-"` // if there are several
}

// Balance is how an assigner's own run shared the work among the nodes.
type Balance struct {
	MinURLs, MaxURLs   int64
	MinBusyS, MaxBusyS float64
	CVBusy             *float64 // standard deviation / mean
}

// SeedShare has the figures of an assigner with one seed.
type SeedShare struct {
	Seed                 uint64
	Choice, Total, P50Ms *float64
}

// Crawl has the figures of the whole overlay.
type Crawl struct {
	Coverage             *float64 `json:"coverage"`
	Overlap              *float64 `json:"overlap"`
	URLsExchangedPerPage *float64 `json:"urls_exchanged_per_page"`
	MessagesPerPage      *float64 `json:"messages_per_page"`
	BytesPerPage         *float64 `json:"bytes_per_page"`
	Reassigned           int64    `json:"reassigned"`
	Lost                 *int64   `json:"lost"`

	// CoverageGenerated is the share of the generator's pages that were found.
	CoverageGenerated *float64 `json:"-"`
	Found, Listed     int64    `json:"-"` // pages
	Attempted         int64    `json:"-"` // URLs
	Links             int64    `json:"-"` // on all pages
	Withheld          string   `json:"-"` // why coverage and losses are unknown
	LostWhy           string   `json:"-"` // why only losses are unknown
}

// Testbed says whether the emulation can be trusted. All is nil for real machines.
type Testbed struct {
	Trusted         *bool    `json:"trusted"`
	DelayErrorP50Ms *float64 `json:"delay_error_p50_ms"`
	DelayErrorP99Ms *float64 `json:"delay_error_p99_ms"`

	Emulation string   `json:"-"`
	Why       []string `json:"-"`
	Dropped   int64    `json:"-"` // for the testbed's own reasons
	Busy      float64  `json:"-"`
	WaitP99Ms float64  `json:"-"`
	// Calibration percentiles are of the time that an ordinary client took / the expected time, over so many downloads.
	CalibrationP10, CalibrationP50, CalibrationP90 float64 `json:"-"`
	Calibrations                                   int     `json:"-"`
}

// RunInfo describes a run.
type RunInfo struct {
	Dir, Name, Scenario string
	Seed                uint64
	Emulated            bool
	Started             time.Time
	Seconds             float64
	Nodes               int
	Servers             int
	Cores               int    // of the machine, 0 if unknown
	Machine             string // processor and system, "" if unknown
	MadeBy              string // command of the run, "" if unknown
	Assigners           []string
	Version             string // of the nodes' program, "" if unknown
	Config              string // of the first node
	Differs             string // settings that differ from other runs
}

// Server is a web server, with the nodes that were chosen for it last.
type Server struct {
	Addr, Host, City string
	Best             string // node; "" without truth
	BestMs           float64
	Choices          []Choice // of the rows that decided
	Geo              *Point   // longitude and latitude, nil if unknown
	Space            []float64
}

// Choice is the node that a row chose for a server. LossMs is how much longer the server's mean page takes there than at the best node.
type Choice struct {
	Row, Node string
	LossMs    *float64
}

// Event is something that the scenario did. UntilS is AtS if it has no length.
type Event struct {
	AtS, UntilS   float64
	Label, Target string
}

// Affected shows what happened to a node or a server that events hit.
type Affected struct {
	Kind, Name string
	Rate       []Series // by row: hosts given to the node a minute, or URLs downloaded from the server
	URLs       []Series // by row: URLs downloaded there, cumulative
	Distance   []Series // ms, in the coordinate space
	Error      []Series // relative, of the servers' places
	Spacing    []Series // s between two requests to a server
}

// HomeUse says how a home decided its batches for a row. The figures are medians.
type HomeUse struct {
	Node, Row               string
	Batches, Servers        int
	SecondsP50              *float64 // per batch
	UpdatesP50, AccuracyP50 *float64 // per server: estimates, and the error of its place
}

// NodeUse is what a node used.
type NodeUse struct {
	Name, City   string
	Pages, Bytes int64
	BusyS        float64
	CPUSeconds   float64
	RSSBytes     int64
	CoordError   *float64
	Times        []Point // distribution of download times: ms and share
	Geo          *Point
	Space        []float64
}

// Reading says what was read.
type Reading struct {
	Bytes    int64
	Lines    int64
	Damaged  int64 // lines that could not be read
	Cut      int64 // packed files that are cut off
	Repeated int64 // lines that were there twice
	Missing  int64 // lines, by their numbers
	Gaps     []Gap
	Unread   []string // files that were not read, and why: "FILE has a newer version"
}

// Gap is a log in which line numbers are missing.
type Gap struct {
	Node, Log string
	Boot      uint64
	Lines     uint64
}
