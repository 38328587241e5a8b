package journal

import "time"

// Line is what every line begins with. The Journal fills it; what a caller puts there is not written.
type Line struct {
	V    int       `json:"v"`
	Run  string    `json:"run"`
	Node string    `json:"node"`
	Boot uint64    `json:"boot"`
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
}

// Fetch is one download. See the keys for units and meanings. Strings are cut at 8 KiB (URL) or 1 KiB (others),
// durations are rounded to microseconds, and those that are not numbers are written as 0.
type Fetch struct {
	Line
	URL         string  `json:"url"`
	Host        string  `json:"host"`
	Server      string  `json:"server"`
	Kind        string  `json:"kind"`
	Status      int     `json:"status"`
	Error       string  `json:"error"`
	Reason      string  `json:"reason"`
	Bytes       int64   `json:"bytes"`
	BodyBytes   int64   `json:"body_bytes"`
	Type        string  `json:"type"`
	DNSMs       float64 `json:"dns_ms"`
	ConnectMs   float64 `json:"connect_ms"`
	TLSMs       float64 `json:"tls_ms"`
	RequestMs   float64 `json:"request_ms"`
	FirstByteMs float64 `json:"first_byte_ms"`
	LastByteMs  float64 `json:"last_byte_ms"`
	TotalMs     float64 `json:"total_ms"`
	Fresh       bool    `json:"fresh"`
	Protocol    string  `json:"protocol"`
	WaitedMs    float64 `json:"waited_ms"`
	Origin      string  `json:"origin"`
	Label       string  `json:"label"`
	Batch       uint64  `json:"batch"`
	Home        string  `json:"home"`
	Epoch       uint64  `json:"epoch"`
	Attempt     int     `json:"attempt"`
	Depth       int     `json:"depth"`
	Hops        int     `json:"hops"`
	Links       int     `json:"links"`
	Accepted    int     `json:"accepted"`
}

// Queue is the state of the frontier at one moment. See the keys.
type Queue struct {
	Line
	Pending        int64            `json:"pending"`
	HostsKnown     int64            `json:"hosts_known"`
	HostsActive    int64            `json:"hosts_active"`
	HostsWaiting   int64            `json:"hosts_waiting"`
	ServersReady   int64            `json:"servers_ready"`
	ServersBusy    int64            `json:"servers_busy"`
	ServersWaiting int64            `json:"servers_waiting"`
	InFlight       int64            `json:"in_flight"`
	Accepted       int64            `json:"accepted"`
	Duplicate      int64            `json:"duplicate"`
	Done           int64            `json:"done"`
	Failed         int64            `json:"failed"`
	Drops          map[string]int64 `json:"drops"`
	Waits          map[string]int64 `json:"waits"`
}

// Load is what the node uses of its machine and of its peers. See the keys.
type Load struct {
	Line
	Load1         float64 `json:"load1"`
	CPUSeconds    float64 `json:"cpu_s"`
	RSSBytes      int64   `json:"rss_bytes"`
	HeapBytes     int64   `json:"heap_bytes"`
	Goroutines    int     `json:"goroutines"`
	MessagesSent  int64   `json:"messages_sent"`
	BytesSent     int64   `json:"bytes_sent"`
	BytesReceived int64   `json:"bytes_received"`
	DiskFreeBytes int64   `json:"disk_free_bytes"`
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
