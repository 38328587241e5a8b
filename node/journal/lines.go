package journal

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// Line is what every line begins with. The Journal fills it; what a caller puts there is not written.
type Line struct {
	V    int       `json:"v"`    // Version
	Run  string    `json:"run"`  // name of the crawl
	Node string    `json:"node"` // id of the node
	Boot uint64    `json:"boot"` // which of the node's lives
	Seq  uint64    `json:"seq"`  // 1, 2, … in this log and boot; a gap is a line that the disk refused
	Time time.Time `json:"time"` // when the line was written; RFC 3339, UTC, milliseconds
}

// Fetch is one download. Durations are in milliseconds, 0 where the stage did not happen (a connection used again has no dns, connect
// and tls) or was not reached; they are rounded to microseconds, and those that are not numbers are written as 0. Strings are cut at
// 8 KiB (URL) or 1 KiB (others).
type Fetch struct {
	Line
	URL         string  `json:"url"`
	Host        string  `json:"host"`          // scheme, name and port of the URL
	Server      string  `json:"server"`        // address that was dialled, "" if none
	Kind        string  `json:"kind"`          // KindPage, KindRobots, KindSitemap
	Status      int     `json:"status"`        // HTTP status, 0 if none
	Error       string  `json:"error"`         // class of error, "" if none
	Reason      string  `json:"reason"`        // the same in words
	Bytes       int64   `json:"bytes"`         // body as it crossed the wire
	BodyBytes   int64   `json:"body_bytes"`    // body decoded
	Type        string  `json:"type"`          // content type as the server says
	DNSMs       float64 `json:"dns_ms"`        // name to addresses
	ConnectMs   float64 `json:"connect_ms"`    // TCP handshake: one round trip
	TLSMs       float64 `json:"tls_ms"`        // TLS handshake
	RequestMs   float64 `json:"request_ms"`    // connection ready to request written
	FirstByteMs float64 `json:"first_byte_ms"` // request written to first byte of the answer: a round trip and the server's thought
	LastByteMs  float64 `json:"last_byte_ms"`  // first byte to last byte of the body
	TotalMs     float64 `json:"total_ms"`      // from dialling or using the connection to the last byte, or to the failure; without dns
	Fresh       bool    `json:"fresh"`         // whether the connection was made for this request
	Protocol    string  `json:"protocol"`      // "http/1.1", "h2"
	WaitedMs    float64 `json:"waited_ms"`     // how long the URL was ready before its download began
	Origin      string  `json:"origin"`        // OriginDiscovered, OriginEstimate, OriginAssigned, OriginRevisit
	Label       string  `json:"label"`         // assigners that chose this node, with commas between them
	Batch       string  `json:"batch"`         // of what a batch asked for: beginning of the home's id, boot, number; what an owner does itself has label and epoch
	Home        string  `json:"home"`          // id of the host's home
	Epoch       uint64  `json:"epoch"`         // epoch of the host's record
	Attempt     int     `json:"attempt"`       // 1 for the first
	Depth       int     `json:"depth"`         // links from a seed
	Hops        int     `json:"hops"`          // redirects followed to get here
	Links       int     `json:"links"`         // links found on the page
	Accepted    int     `json:"accepted"`      // of these, URLs new to this node
}

// Queue is the frontier at one moment. What is named for a state is the number now, the rest counts since the boot. The books balance:
// accepted + at_start + arrived = done + failed + dropped + left + pending.
type Queue struct {
	Line
	Pending        int64            `json:"pending"`         // URLs waiting
	HostsActive    int64            `json:"hosts_active"`    // hosts with URLs in memory
	HostsWaiting   int64            `json:"hosts_waiting"`   // active hosts that may not be asked now; waits says why
	ServersReady   int64            `json:"servers_ready"`   // servers that could be asked now
	ServersBusy    int64            `json:"servers_busy"`    // servers being asked
	ServersWaiting int64            `json:"servers_waiting"` // servers whose next request is due later
	InFlight       int64            `json:"in_flight"`       // downloads going on
	Accepted       int64            `json:"accepted"`        // URLs new to this node
	Duplicate      int64            `json:"duplicate"`       // URLs seen before
	Done           int64            `json:"done"`            // URLs finished, with whatever status
	Failed         int64            `json:"failed"`          // URLs given up
	Dropped        int64            `json:"dropped"`         // URLs thrown away after they were accepted
	AtStart        int64            `json:"at_start"`        // URLs that were pending when the process started
	Arrived        int64            `json:"arrived"`         // pending URLs that came with their hosts
	Left           int64            `json:"left"`            // pending URLs that went with their hosts
	Held           int64            `json:"held"`            // pending URLs kept here for other owners; not in pending
	Drops          map[string]int64 `json:"drops"`           // reason -> URLs not queued or thrown away
	Waits          map[string]int64 `json:"waits"`           // reason -> hosts waiting now
	Queues         map[string]int64 `json:"queues"`          // origin -> URLs in memory that wait to be drawn; more may wait on disk
}

// Load is what the node uses of its machine and of its peers. Messages and bytes count since the boot.
type Load struct {
	Line
	Load1         float64 `json:"load1"`      // the machine's load average of a minute
	CPUSeconds    float64 `json:"cpu_s"`      // processor time of the process since it started
	RSSBytes      int64   `json:"rss_bytes"`  // resident memory of the process
	HeapBytes     int64   `json:"heap_bytes"` // objects on the heap of Go
	Goroutines    int     `json:"goroutines"`
	MessagesSent  int64   `json:"messages_sent"`   // to peers
	BytesSent     int64   `json:"bytes_sent"`      // to peers
	BytesReceived int64   `json:"bytes_received"`  // from peers
	LinksSent     int64   `json:"links_sent"`      // to their hosts' owners or homes among the peers
	DiskFreeBytes int64   `json:"disk_free_bytes"` // where the data directory is, for users without privileges
}

// Coord is a round trip to a peer, and where it left this node.
type Coord struct {
	Line
	Peer     string    `json:"peer"`      // id of the other node
	RTTMs    float64   `json:"rtt_ms"`    // round trip as measured
	Vector   []float64 `json:"vector"`    // coordinate of this node: components in ms
	HeightMs float64   `json:"height_ms"` // its height
	Accuracy float64   `json:"accuracy"`  // its error, relative
	Refused  string    `json:"refused"`   // why the sample was refused, "" if it was not
}

// Proxy is what is known of a server, and the download time expected at each peer.
type Proxy struct {
	Line
	Server      string             `json:"server"`       // its address
	Vector      []float64          `json:"vector"`       // its coordinate: components in ms
	HeightMs    float64            `json:"height_ms"`    // its height
	Accuracy    float64            `json:"accuracy"`     // its error, relative
	Updates     int                `json:"updates"`      // samples so far
	ThinkMs     float64            `json:"think_ms"`     // what the server itself needs before the first byte
	PageBytes   float64            `json:"page_bytes"`   // its typical page
	PredictedMs map[string]float64 `json:"predicted_ms"` // node -> ms
	Label       string             `json:"label"`        // the assigner that has decided by it, "" for what owners know
}

// Assign is where an assigner of a batch wants a host, or that a host has a new owner.
type Assign struct {
	Line
	Decided     bool    `json:"decided"` // true: the choice of an assigner; false: a hand-off that is done
	Batch       string  `json:"batch"`   // beginning of the home's id, boot, number
	Label       string  `json:"label"`   // the assigner
	Host        string  `json:"host"`
	Server      string  `json:"server"`       // its address
	Owner       string  `json:"owner"`        // id of the node
	Epoch       uint64  `json:"epoch"`        // of the record, after a hand-off
	URLs        int     `json:"urls"`         // pending at the decision
	PredictedMs float64 `json:"predicted_ms"` // ms at the node that was chosen
	Estimates   int     `json:"estimates"`    // estimates asked for before the decision about the server, failed ones among them
	Accuracy    float64 `json:"accuracy"`     // relative error of that
	Seconds     float64 `json:"seconds"`      // from the beginning of the batch to the decision
	Reason      string  `json:"reason"`       // in words
}

// Change is a visit that found a page another than before. It has the url, host and status of the visit.
type Change struct {
	Line
	URL        string    `json:"url"`
	Host       string    `json:"host"`
	What       string    `json:"what"` // ChangeChanged, ChangeTrivial, ChangeGone, ChangeMoved or ChangeBack
	Status     int       `json:"status"`
	Distance   int       `json:"distance"`    // bits in which the fingerprints of the two texts differ, of 64
	SeenBefore time.Time `json:"seen_before"` // the visit before; RFC 3339, UTC
	Visits     int       `json:"visits"`      // how often the page was seen, this time too
}

// Member is a change of who is there, or of who owns a host.
type Member struct {
	Line
	Change   string `json:"change"`   // joined, left, died, returned; took, handed over, received, obeyed, without copy, aborted
	Peer     string `json:"peer"`     // id of the other node
	Address  string `json:"address"`  // where the peer speaks the peer protocol
	Host     string `json:"host"`     // whose owner changed
	Epoch    uint64 `json:"epoch"`    // of its record
	Members  int    `json:"members"`  // settled members after it
	Majority bool   `json:"majority"` // whether this node is on the larger side
	Reason   string `json:"reason"`   // in words
}

// Event is a line of the node log, as a Reader gives it.
type Event struct {
	Line
	Event string         `json:"event"`
	Level string         `json:"level"`
	Attrs map[string]any `json:"-"` // the other keys, as encoding/json decodes them
}

// Ms is d in milliseconds, the unit of the logs.
func Ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// SampleLoad measures the process and its machine now; dir is where the free disk space is looked up. What the system
// does not tell is 0, and so are messages and bytes, which the caller knows. It takes about 50 µs.
func SampleLoad(dir string) Load {
	l := Load{Goroutines: runtime.NumGoroutine()}
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	if heap[0].Value.Kind() == metrics.KindUint64 {
		l.HeapBytes = int64(heap[0].Value.Uint64())
	}
	sampleSystem(dir, &l)
	return l
}
