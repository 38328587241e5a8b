package journal

import (
	"runtime"
	"runtime/metrics"
	"time"
)

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
	Batch       string  `json:"batch"`
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
	Dropped        int64            `json:"dropped"`
	AtStart        int64            `json:"at_start"`
	Arrived        int64            `json:"arrived"`
	Left           int64            `json:"left"`
	Held           int64            `json:"held"`
	Drops          map[string]int64 `json:"drops"`
	Waits          map[string]int64 `json:"waits"`
	Queues         map[string]int64 `json:"queues"`
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
	LinksSent     int64   `json:"links_sent"`
	DiskFreeBytes int64   `json:"disk_free_bytes"`
}

// Coord is a round trip to a peer and the coordinate of this node after it. See the keys.
type Coord struct {
	Line
	Peer     string    `json:"peer"`
	RTTMs    float64   `json:"rtt_ms"`
	Vector   []float64 `json:"vector"`
	HeightMs float64   `json:"height_ms"`
	Accuracy float64   `json:"accuracy"`
	Refused  string    `json:"refused"`
}

// Proxy is what is known of a server. See the keys.
type Proxy struct {
	Line
	Server      string             `json:"server"`
	Vector      []float64          `json:"vector"`
	HeightMs    float64            `json:"height_ms"`
	Accuracy    float64            `json:"accuracy"`
	Updates     int                `json:"updates"`
	ThinkMs     float64            `json:"think_ms"`
	PageBytes   float64            `json:"page_bytes"`
	PredictedMs map[string]float64 `json:"predicted_ms"`
	Label       string             `json:"label"`
}

// Assign is a decision about a host, or the hand-off that followed. See the keys.
type Assign struct {
	Line
	Decided     bool    `json:"decided"`
	Batch       string  `json:"batch"`
	Label       string  `json:"label"`
	Host        string  `json:"host"`
	Server      string  `json:"server"`
	Owner       string  `json:"owner"`
	Epoch       uint64  `json:"epoch"`
	URLs        int     `json:"urls"`
	PredictedMs float64 `json:"predicted_ms"`
	Estimates   int     `json:"estimates"`
	Accuracy    float64 `json:"accuracy"`
	Seconds     float64 `json:"seconds"`
	Reason      string  `json:"reason"`
}

// Change is what a visit found of a page. See the keys.
type Change struct {
	Line
	URL        string    `json:"url"`
	Host       string    `json:"host"`
	What       string    `json:"what"`
	Status     int       `json:"status"`
	Distance   int       `json:"distance"`
	SeenBefore time.Time `json:"seen_before"`
	Visits     int       `json:"visits"`
}

// Member is a change of who is there, or of who owns a host. See the keys.
type Member struct {
	Line
	Change   string `json:"change"`
	Peer     string `json:"peer"`
	Address  string `json:"address"`
	Host     string `json:"host"`
	Epoch    uint64 `json:"epoch"`
	Members  int    `json:"members"`
	Majority bool   `json:"majority"`
	Reason   string `json:"reason"`
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
