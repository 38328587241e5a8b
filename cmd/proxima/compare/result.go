package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Result is a comparison. The fields with names in JSON are its stable form for programs (docs/compare.md); nil is what the logs cannot
// tell.
type Result struct {
	Assigners []Assigner `json:"assigners"`
	Crawl     Crawl      `json:"crawl"`
	Testbed   Testbed    `json:"testbed"`

	Dirs      []string    `json:"-"`
	Runs      []RunInfo   `json:"-"`
	Statuses  []Status    `json:"-"`
	Nodes     []NodeUse   `json:"-"`
	Reading   Reading     `json:"-"`
	Accuracy  []TimeError `json:"-"` // of the nodes' coordinates
	Reference string      `json:"-"` // the assigner that others are compared to, "" if it was not there

	runs    []*run
	labels  []string
	report  []*tally // by label
	nodesOf string   // the run whose nodes are shown where there are several, else ""
}

// Assigner is what is known of one assigner. Times are of single downloads, answered with a status below 400, of pages that the nodes of
// all assigners got.
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

	Unanswered               int64       `json:"-"` // URLs for which the chosen node made no download
	Difference               *Difference `json:"-"` // to the reference
	ChoiceRatioWithEstimates *float64    `json:"-"`
	EstimatesFailed          int64       `json:"-"`
	SecondsP50               *float64    `json:"-"` // from the beginning of a batch to the decision
	AccuracyP50              *float64    `json:"-"` // error of servers' places when decided
	Decisions                int64       `json:"-"` // servers
	Short, Forced            int64       `json:"-"` // of these: fewer pages than wanted; decided because it had to be
	MakespanWhy              string      `json:"-"` // why it is not known
	Balance                  *Balance    `json:"-"`
	Seeds                    []SeedShare `json:"-"` // where there were several
}

// Balance is the work of the nodes in an assigner's own run.
type Balance struct {
	MinURLs, MaxURLs   int64
	MinBusyS, MaxBusyS float64
	CVURLs, CVBusy     float64 // standard deviation / mean
	Nodes              []NodeShare
}

// NodeShare is the work of one node.
type NodeShare struct {
	Node  string
	URLs  int64
	BusyS float64
}

// SeedShare has an assigner's figures with one seed.
type SeedShare struct {
	Seed                 uint64
	Choice, Total, P50Ms *float64
}

// Crawl has the figures of the overlay as a whole.
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
	Answers           int64    `json:"-"` // downloads with an HTTP status
	Withheld          string   `json:"-"` // why coverage and losses are not known
	LostWhy           string   `json:"-"` // why losses alone are not known
}

// Testbed says whether the emulation may be trusted; nil for real machines.
type Testbed struct {
	Trusted         *bool    `json:"trusted"`
	DelayErrorP50Ms *float64 `json:"delay_error_p50_ms"`
	DelayErrorP99Ms *float64 `json:"delay_error_p99_ms"`

	Emulation string   `json:"-"`
	Why       []string `json:"-"`
	Dropped   int64    `json:"-"` // for the testbed's own reasons
	Busy      float64  `json:"-"`
	WaitP99Ms float64  `json:"-"`
	// Calibration is how long an ordinary client took / what truth expects: 10th, 50th and 90th percentile of so many downloads.
	CalibrationP10, CalibrationP50, CalibrationP90 float64 `json:"-"`
	Calibrations                                   int     `json:"-"`
}

// RunInfo names a run.
type RunInfo struct {
	Dir, Scenario string
	Seed          uint64
	Emulated      bool
	Started       time.Time
	Seconds       float64
	Nodes         int
	Servers       int
	Assigners     []string
}

// NodeUse is what a node used.
type NodeUse struct {
	Name, City   string
	Pages, Bytes int64
	BusyS        float64
	CPUSeconds   float64
	RSSBytes     int64
	CoordError   *float64
	Boots        int
}

// TimeError is the relative error of coordinates at a moment, in s since the start.
type TimeError struct{ AtS, P50, P90 float64 }

// Reading says how the logs were.
type Reading struct {
	Bytes    int64
	Lines    int64
	Damaged  int64 // lines that could not be read
	Cut      int64 // packed files that break off
	Repeated int64 // lines that were there twice
	Missing  int64 // lines, by their numbers
	Gaps     []Gap
	Newer    string // a file in a newer schema, which was not read
}

// Gap is a log in which numbers are missing.
type Gap struct {
	Node, Log string
	Boot      uint64
	Lines     uint64
}

// JSON writes the stable form for programs.
func (r *Result) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}
