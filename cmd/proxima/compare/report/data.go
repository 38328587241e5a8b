package report

import "math"

// Data is everything the page shows: plain figures and words, no references to logs. Words may come from the web (host names);
// the page escapes them.
//
// A figure that was not measured is Unknown (NaN). Times, ratios, sizes and makespans that cannot be zero count as not measured
// at 0 too, so that a field left out is not shown as a figure. Empty slices leave their plot out, and the page says so.
type Data struct {
	Scenario    string   // name of the scenario; "" if the logs are of no scenario
	Seed        string   // its seed; several as "1, 2, 3"
	Description string   // one sentence on what the scenario is; may be ""
	Made        string   // when the run began, in words or RFC 3339; may be ""
	Version     string   // of the program; may be ""
	LengthS     float64  // length of the crawl, s
	Sources     []string // folders that were read
	Notes       []string // what a reader must know first: gaps in logs, portable emulation, one run only, …

	Headline  string // one sentence: who was better, by how much, why; "" lets the page make it from Assigners
	Reference string // assigner that the paired differences are to; "" means random

	Testbed   Testbed
	Assigners []Assigner // in the order of the scenario
	Crawl     Crawl
	Statuses  []Status // outcomes of requests, in the order to be shown
	Nodes     []Node

	CDF []Series // per assigner: X download time in ms, Y share of downloads from 0 to 1, never falling

	Events   []Event    // of the scenario, marked in every timeline
	Affected []Affected // whom the events hit, each with timelines of its own

	// Timelines of the whole crawl: X is s since the start of the run, Label the assigner, the node, or a summary ("p50", "p90").
	Progress   []Series // cumulative URLs downloaded
	Speed      []Series // download speed, median of the 120 latest pages
	Load       []Series // load of the nodes
	CoordError []Series // relative error of the nodes' coordinates

	Map     Map
	Balance []Balance // per assigner, from separate runs
}

// Unknown is the value of a figure that was not measured.
func Unknown() float64 { return math.NaN() }

// Series is one line of a plot.
type Series struct {
	Label  string // an assigner's or node's name decides the colour: the same in every plot
	Unit   string // of Y: "URLs", "URLs/min", "ms", "kB/s", "s"; "1" for ratios and relative errors
	Points []Point
}

// Point is one value. Points are in the order of X; NaN or infinite ones are gaps.
type Point struct{ X, Y float64 }

// Testbed says how faithful the emulation was.
type Testbed struct {
	Known   bool     // false: logs of real machines, or no figures; then nothing else here counts
	Trusted bool     // whether the run may be believed
	Reasons []string // why not, a sentence each
	Kind    string   // "TUN", "veth", "portable", …

	DelayErrorP50MS, DelayErrorP99MS float64 // |delay kept − delay wanted| per packet
	Dropped                          int64   // packets dropped for the testbed's own reasons; −1 unknown
	Busy                             float64 // share of the machine's processors in use, 0 to 1
	CoreWaitP99MS                    float64 // how long nodes waited for a processor
	CalibrationError                 float64 // median relative difference of truth and calibration run
}

// Assigner is one row of the comparison.
type Assigner struct {
	Name                     string
	URLs, Downloaded, Failed int64
	Bytes                    int64

	P50MS, P90MS, P99MS, MeanMS float64 // download time

	// Mean paired difference of download time to the Reference, URL by URL, with its 95 % confidence interval; negative is
	// faster. All three Unknown for the reference itself and where nothing was paired.
	DiffMS, DiffLowMS, DiffHighMS float64

	ChoiceRatio, ChoiceRatioWithEstimates float64 // to truth; 1 is the best possible choice
	TotalRatio, TotalRatioWithEstimates   float64
	BestShare                             float64 // share of servers given to the truly best node, 0 to 1

	EstimatesP50, EstimatesP90 float64 // estimates per server; Unknown for those that ask for none
	DecideP50S                 float64 // from the beginning of the batch to the decision
	DecideError                float64 // median error of the proxy coordinates when it decided
	Truncated                  int64   // servers with too few URLs or too little time

	MakespanS                  float64 // from separate runs, like the rest here
	BalanceMin, BalanceMax     float64 // URLs per node
	BalanceCV                  float64 // standard deviation of URLs per node / mean
	BusyMinS, BusyMaxS, BusyCV float64 // time in downloads per node
	Repeats                    []Repeat
}

// Repeat is the outcome of one seed, where several were compared.
type Repeat struct {
	Seed                           string
	ChoiceRatio, TotalRatio, P50MS float64
}

// Crawl has the figures of the whole overlay.
type Crawl struct {
	Coverage          float64 // attempted / assigned, 0 to 1
	CoverageGenerated float64 // found / the generator's list, 0 to 1
	Overlap           float64 // share of downloads that were repeats
	URLsPerPage       float64 // URLs exchanged between nodes a page
	MessagesPerPage   float64
	BytesPerPage      float64 // between nodes
	Reassigned        int64   // −1 unknown
	Lost              int64   // must be 0; −1 withheld
	Withheld          string  // why coverage and losses are withheld; "" if they are not
}

// Status is one outcome of requests.
type Status struct {
	Label string // "communication failure", "DNS error", "200", "404", …
	Count int64
}

// Node is one row of the table of nodes.
type Node struct {
	Name, City string
	URLs       int64
	Bytes      int64
	BusyS      float64 // time in downloads
	CPUS       float64 // processor time, s
	CPUMSPage  float64 // processor time a page, ms
	PeakBytes  int64   // largest resident memory
	CoordError float64 // at the end
}

// Event is something that the scenario did.
type Event struct {
	AtS    float64 // s since the start
	UntilS float64 // end of a span; AtS or less for what has no length
	Label  string  // "bandwidth ÷ 5", "kill -9", …
	Target string  // node or server
}

// Affected has what happened to one node or server that events hit.
type Affected struct {
	Name string
	Kind string // "node" or "server"

	Rate     []Series // per assigner: hosts assigned to the node, or URLs downloaded from the server, per unit of time
	URLs     []Series // per assigner: URLs downloaded by the node, or from the server, cumulative
	Distance []Series // proxy-coordinate distance between it and the other side, ms; per assigner, or per node for a server
	Error    []Series // relative error of these proxy coordinates
	Spacing  []Series // for a server: s between two requests
}

// Map is the coordinate space. Vectors may have any number of components, all the same; the page shows the plane in which they
// differ most.
type Map struct {
	Nodes   []Place
	Servers []Place
}

// Place is a node or a server in the coordinate space.
type Place struct {
	Name, City string
	Vector     []float64 // ms
	HeightMS   float64
	Owners     []Owner // of a server: one per assigner; without comparison one with Assigner ""
}

// Owner says to which node an assigner gave a server.
type Owner struct{ Assigner, Node string }

// Balance is the work of each node under one assigner.
type Balance struct {
	Assigner string
	Shares   []Share
}

// Share is the work of one node.
type Share struct {
	Node  string
	URLs  float64
	BusyS float64 // time in downloads, s; Unknown if not measured
}
