package runlog

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// Line holds the keys with which every line begins. The Writer fills them in, whatever the caller sets.
type Line struct {
	V    int       `json:"v"`    // Version
	Run  string    `json:"run"`  // name of the crawl
	Node string    `json:"node"` // id of the node
	Boot uint64    `json:"boot"` // number of the node's life, which grows with each start
	Seq  uint64    `json:"seq"`  // 1, 2, … in this log and boot; a gap means lines that were lost
	Time time.Time `json:"time"` // when the line was written; RFC 3339, UTC, milliseconds
}

// Fetch is one download. Durations are in milliseconds, rounded to microseconds. A stage that did not happen has 0: a reused
// connection has no dns, connect and tls. Strings are cut at 1 KiB, the URL at 8 KiB.
type Fetch struct {
	Line
	URL         string  `json:"url"`
	Host        string  `json:"host"`          // scheme, name and port of the URL
	Server      string  `json:"server"`        // address that was dialled, or ""
	Kind        string  `json:"kind"`          // KindPage, KindRobots, KindSitemap
	Status      int     `json:"status"`        // HTTP status, or 0
	Error       string  `json:"error"`         // class of error, or "": refused, unreachable, timeout_connect, timeout_tls, tls, timeout_header, timeout_total, too_slow, reset, eof, protocol, header_too_large, decode, bomb, forbidden_address, forbidden_port, no_identity, no_right, unwanted, canceled, other
	Reason      string  `json:"reason"`        // the error in words
	Bytes       int64   `json:"bytes"`         // body as transferred
	BodyBytes   int64   `json:"body_bytes"`    // body after decoding
	Type        string  `json:"type"`          // content type, according to the server
	DNSMs       float64 `json:"dns_ms"`        // name resolution
	ConnectMs   float64 `json:"connect_ms"`    // TCP handshake, one round trip
	TLSMs       float64 `json:"tls_ms"`        // TLS handshake
	RequestMs   float64 `json:"request_ms"`    // from a ready connection until the request was written
	FirstByteMs float64 `json:"first_byte_ms"` // from then until the first byte of the answer: a round trip and the server's think time
	LastByteMs  float64 `json:"last_byte_ms"`  // from the first to the last byte of the body
	TotalMs     float64 `json:"total_ms"`      // from dialling or reusing the connection until the last byte or the failure; without dns
	Fresh       bool    `json:"fresh"`         // whether the connection was made for this request
	Protocol    string  `json:"protocol"`      // "HTTP/1.1", "HTTP/2.0", or "file": read on this machine
	WaitedMs    float64 `json:"waited_ms"`     // how long the URL was ready before its download began
	Origin      string  `json:"origin"`        // OriginDiscovered, OriginEstimate, OriginAssigned, OriginRevisit
	Label       string  `json:"label"`         // assigners that chose this node, separated by commas
	Batch       string  `json:"batch"`         // the batch that asked for it: beginning of the home's id, boot, number, and in mode persistent the round; "" for none
	Home        string  `json:"home"`          // id of the host's home
	Epoch       uint64  `json:"epoch"`         // epoch of the host's ownership record
	Attempt     int     `json:"attempt"`       // 1 for the first
	Depth       int     `json:"depth"`         // links followed from a seed
	Hops        int     `json:"hops"`          // redirects that led here
	Links       int     `json:"links"`         // links found on the page
	Accepted    int     `json:"accepted"`      // links among them whose URLs were new to this node
}

// Queue is the state of the frontier. pending, hosts_*, servers_*, in_flight, held, waits and queues are current numbers; the
// others count since the boot. Always accepted + at_start + arrived = done + failed + dropped + left + pending.
type Queue struct {
	Line
	Pending        int64            `json:"pending"`         // URLs that wait
	HostsActive    int64            `json:"hosts_active"`    // hosts with URLs in memory
	HostsWaiting   int64            `json:"hosts_waiting"`   // active hosts that must not be asked now; waits has the reasons
	ServersReady   int64            `json:"servers_ready"`   // servers that could be asked now, each once for every origin of its URLs
	ServersBusy    int64            `json:"servers_busy"`    // the same as in_flight: requests, if a server may get several at once
	ServersWaiting int64            `json:"servers_waiting"` // servers whose next request is due later
	InFlight       int64            `json:"in_flight"`       // downloads in progress
	Accepted       int64            `json:"accepted"`        // URLs new to this node
	Duplicate      int64            `json:"duplicate"`       // URLs seen before
	Done           int64            `json:"done"`            // URLs finished, whatever their status
	Failed         int64            `json:"failed"`          // URLs given up
	Dropped        int64            `json:"dropped"`         // URLs discarded after they were accepted
	AtStart        int64            `json:"at_start"`        // URLs pending at the start of the process
	Arrived        int64            `json:"arrived"`         // pending URLs that came with their hosts
	Left           int64            `json:"left"`            // pending URLs that went with their hosts
	Held           int64            `json:"held"`            // pending URLs kept here for other owners; not in pending
	Drops          map[string]int64 `json:"drops"`           // reason -> URLs and links refused, given up or discarded
	Waits          map[string]int64 `json:"waits"`           // reason -> hosts waiting now: reading, robots, suspended, resolving, hours, backoff, retry, unresolved, batch, lease, server busy, budget, gap
	Queues         map[string]int   `json:"queues"`          // origin -> URLs that wait in memory; more may wait on disk
}

// Load is the node's use of its machine and its network. Messages and bytes count since the boot.
type Load struct {
	Line
	Load1         float64 `json:"load1"`      // the machine's load average over one minute
	CPUSeconds    float64 `json:"cpu_s"`      // processor time of the process since it started
	RSSBytes      int64   `json:"rss_bytes"`  // resident memory of the process
	HeapBytes     int64   `json:"heap_bytes"` // objects on Go's heap
	Goroutines    int     `json:"goroutines"`
	MessagesSent  int64   `json:"messages_sent"`   // to peers, with gossip
	BytesSent     int64   `json:"bytes_sent"`      // to peers, with gossip
	BytesReceived int64   `json:"bytes_received"`  // from peers, without gossip
	LinksSent     int64   `json:"links_sent"`      // links stored to be sent to the owners or homes of their hosts
	DiskFreeBytes int64   `json:"disk_free_bytes"` // free for unprivileged users, in the file system of the data directory
}

// Coord is a round trip to a peer, and this node's coordinate after it.
type Coord struct {
	Line
	Peer     string    `json:"peer"`      // id of the other node
	RTTMs    float64   `json:"rtt_ms"`    // measured round trip
	Vector   []float64 `json:"vector"`    // this node's coordinate: components in ms
	HeightMs float64   `json:"height_ms"` // its height
	Accuracy float64   `json:"accuracy"`  // its error, relative
	Refused  string    `json:"refused"`   // why the sample was refused, or ""
}

// Proxy is what is known of a web server, and the download time predicted at each peer.
type Proxy struct {
	Line
	Server      string             `json:"server"`       // its address
	Vector      []float64          `json:"vector"`       // its coordinate: components in ms
	HeightMs    float64            `json:"height_ms"`    // its height
	Accuracy    float64            `json:"accuracy"`     // its error, relative
	Updates     int                `json:"updates"`      // samples so far
	ThinkMs     float64            `json:"think_ms"`     // the server's think time before the first byte
	PageBytes   float64            `json:"page_bytes"`   // size of its typical page
	PredictedMs map[string]float64 `json:"predicted_ms"` // node -> ms
	Label       string             `json:"label"`        // the assigner that decided with it, or "" for the owner's knowledge
}

// Assign is an assigner's choice of a node for a host, or a finished hand-off to a new owner.
type Assign struct {
	Line
	Decided     bool    `json:"decided"` // true for a choice, false for a finished hand-off
	Batch       string  `json:"batch"`   // as in the fetch log
	Label       string  `json:"label"`   // the assigner; "" if the host joins the node that has the lease of its server
	Host        string  `json:"host"`
	Server      string  `json:"server"`       // its address
	Owner       string  `json:"owner"`        // id of the node
	Epoch       uint64  `json:"epoch"`        // of the record, after a hand-off
	URLs        int     `json:"urls"`         // pending URLs at the decision
	PredictedMs float64 `json:"predicted_ms"` // predicted time at the chosen node
	Estimates   int     `json:"estimates"`    // estimates requested before the decision, including failed ones
	Accuracy    float64 `json:"accuracy"`     // relative error of the prediction
	Seconds     float64 `json:"seconds"`      // from the beginning of the batch to the decision
	Reason      string  `json:"reason"`       // in words
}

// Change is a visit that found a page changed.
type Change struct {
	Line
	URL        string    `json:"url"`
	Host       string    `json:"host"`
	What       string    `json:"what"` // ChangeChanged, ChangeTrivial, ChangeGone, ChangeMoved or ChangeBack
	Status     int       `json:"status"`
	Distance   int       `json:"distance"`    // bits in which the fingerprints of the two texts differ, of 64
	SeenBefore time.Time `json:"seen_before"` // time of the previous visit; RFC 3339, UTC
	Visits     int       `json:"visits"`      // visits so far, including this one
}

// Member is a change of the members, or of a host's owner.
type Member struct {
	Line
	Change   string `json:"change"`   // join, rejoin, leave, death, forgotten, settled, majority, minority, go_alone, duplicate, bad_meta, trouble, reach; of a host: took, handed over, received, obeyed, without copy, aborted, lost
	Peer     string `json:"peer"`     // id of the other node
	Address  string `json:"address"`  // gossip address of the peer
	Host     string `json:"host"`     // the host whose owner changed
	Epoch    uint64 `json:"epoch"`    // epoch of its ownership record
	Members  int    `json:"members"`  // settled members, as far as the node knew when it wrote the line
	Majority bool   `json:"majority"` // whether it saw a majority of the voters then
	Reason   string `json:"reason"`   // in words
}

// Event is a line of the node log, as a Reader returns it.
type Event struct {
	Line
	Event string         `json:"event"`
	Level string         `json:"level"`
	Attrs map[string]any `json:"-"` // the other keys, as encoding/json decodes them
}

// Ms converts a duration to milliseconds, the unit of the logs.
func Ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// SampleLoad measures the process, its machine, and the free space in the file system of dir. Values that the system does not
// tell are 0, as are messages, bytes and links, which the caller fills in. It takes about 50 µs.
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
