package node

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"proxima/node/console"
	"proxima/node/sink"
)

// Metrics is the section of metrics for Prometheus.
type Metrics struct {
	// Listen is the host:port that serves /metrics to everyone who asks. Empty: only the API has them, on the socket in the
	// data directory and on the console. No metric names a host or a page.
	Listen string `toml:"listen"`
}

// Validate reports the first invalid value.
func (m Metrics) Validate() error { return console.CheckListen(m.Listen) }

// metric is a family of metrics. It is read from the status when it is asked for, so that it costs the crawl nothing.
type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*Status, puts)
}

// puts takes one metric of a family.
type puts = func(v float64, labels ...string)

func counterOf(name, help string, read func(*Status, puts), labels ...string) metric {
	return metric{prometheus.NewDesc("proxima_"+name, help, labels, nil), prometheus.CounterValue, read}
}

func gaugeOf(name, help string, read func(*Status, puts), labels ...string) metric {
	return metric{prometheus.NewDesc("proxima_"+name, help, labels, nil), prometheus.GaugeValue, read}
}

// byLabel reads a family with one label.
func byLabel[N int | int64 | uint64](values func(*Status) map[string]N) func(*Status, puts) {
	return func(s *Status, put puts) {
		for label, v := range values(s) {
			put(float64(v), label)
		}
	}
}

// inOverlay reads a family that only a node with an overlay has.
func inOverlay(read func(*OverlayStatus, puts)) func(*Status, puts) {
	return func(s *Status, put puts) {
		if s.Overlay != nil {
			read(s.Overlay, put)
		}
	}
}

// ofSink reads a family that only a node with a sink has.
func ofSink(read func(*sink.Status, puts)) func(*Status, puts) {
	return func(s *Status, put puts) {
		if s.Sink != nil {
			read(s.Sink, put)
		}
	}
}

// answers counts pages by the class of their status ("2xx"). So servers cannot make new metrics by new statuses.
func answers(s *Status) map[string]int64 {
	classes := map[string]int64{}
	for row, n := range s.Crawl.Rows {
		if status, err := strconv.Atoi(row); err == nil {
			row = strconv.Itoa(status/100) + "xx"
		}
		classes[row] += n
	}
	return classes
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func metrics() []metric {
	return []metric{
		gaugeOf("build_info", "Version of the program.", func(_ *Status, put puts) { put(1, Version()) }, "version"),
		counterOf("pages_total", "Pages asked for since the start, by what came of them.", byLabel(answers), "answer"),
		counterOf("requests_total", "Requests to web servers since the start, robots.txt and sitemaps too.", func(s *Status, put puts) { put(float64(s.Crawl.Requests)) }),
		counterOf("received_bytes_total", "Bytes of bodies as received since the start.", func(s *Status, put puts) { put(float64(s.Crawl.Bytes)) }),
		counterOf("links_total", "Links found on pages since the start.", func(s *Status, put puts) { put(float64(s.Crawl.Links)) }),
		counterOf("urls_total", "URLs since the start, by what became of them.", byLabel(func(s *Status) map[string]uint64 {
			f := &s.Frontier
			return map[string]uint64{"accepted": f.Accepted, "duplicate": f.Duplicate, "done": f.Done, "failed": f.Failed, "dropped": f.Dropped,
				"arrived": f.Arrived, "left": f.Left}
		}), "state"),
		gaugeOf("pending_urls", "URLs on disk that are to be crawled here.", func(s *Status, put puts) { put(float64(s.Frontier.Pending)) }),
		gaugeOf("queued_urls", "URLs in memory, by queue.", byLabel(func(s *Status) map[string]int { return s.Frontier.Queues }), "queue"),
		gaugeOf("hosts", "Hosts in memory, by what they do or wait for.", byLabel(func(s *Status) map[string]int { return s.Frontier.Hosts }), "state"),
		gaugeOf("servers", "Web servers known, and those of them that may be asked now.", byLabel(func(s *Status) map[string]int {
			return map[string]int{"known": s.Frontier.Servers, "ready": s.Frontier.Ready}
		}), "state"),
		gaugeOf("requests_in_flight", "Requests to web servers under way.", func(s *Status, put puts) { put(float64(s.Frontier.InFlight)) }),
		gaugeOf("paused", "1 while nothing is taken.", func(s *Status, put puts) { put(truth(s.Frontier.Paused != "")) }),
		gaugeOf("known_pages", "Pages that are visited again, and those of them that are due.", func(s *Status, put puts) {
			put(float64(s.Frontier.Pages), "known")
			put(float64(s.Frontier.Due), "due")
		}, "state"),
		counterOf("revisits_total", "Visits of known pages since the start.", func(s *Status, put puts) { put(float64(s.Frontier.Revisited)) }),
		counterOf("sink_pages_total", "Pages delivered to the sink since the start, once in each format.", ofSink(func(k *sink.Status, put puts) { put(float64(k.Pages)) })),
		gaugeOf("sink_waiting_packages", "Packages that are not delivered yet.", ofSink(func(k *sink.Status, put puts) { put(float64(k.Waiting)) })),
		counterOf("sink_failures_total", "Failed tries to deliver a package since the start.", ofSink(func(k *sink.Status, put puts) { put(float64(k.Failures)) })),
		gaugeOf("members", "Nodes of the overlay that this node sees, itself included.", inOverlay(func(o *OverlayStatus, put puts) {
			put(float64(o.Alive), "alive")
			put(float64(o.Settled), "settled")
		}), "state"),
		gaugeOf("majority", "1 while this node may decide about hosts.", inOverlay(func(o *OverlayStatus, put puts) { put(truth(o.Majority)) })),
		gaugeOf("outbox_links", "Links that wait for other nodes.", inOverlay(func(o *OverlayStatus, put puts) { put(float64(o.Outbox)) })),
		counterOf("moved_hosts_total", "Hosts that changed their owner since the start.", inOverlay(func(o *OverlayStatus, put puts) {
			put(float64(o.Hosts.HandedOff), "handed_over")
			put(float64(o.Hosts.Received), "received")
			put(float64(o.Hosts.Taken), "taken_over")
			put(float64(o.Hosts.Obeyed), "given_up")
		}), "how"),
		gaugeOf("leases", "Leases of web servers.", inOverlay(func(o *OverlayStatus, put puts) {
			put(float64(o.Leases.Held), "held")
			put(float64(o.Leases.Waiting), "wanted")
			put(float64(o.Leases.Granted), "granted")
		}), "state"),
		counterOf("batches_total", "Batches of hosts begun since the start.", inOverlay(func(o *OverlayStatus, put puts) { put(float64(o.Batch.Batches)) })),
		counterOf("estimates_total", "Estimates asked for since the start.", inOverlay(func(o *OverlayStatus, put puts) { put(float64(o.Batch.Estimates)) })),
		gaugeOf("coordinate_error_ratio", "Relative error of this node's coordinate.", inOverlay(func(o *OverlayStatus, put puts) { put(o.Accuracy) })),
		counterOf("peer_bytes_total", "Bytes of messages between nodes since the start.", inOverlay(func(o *OverlayStatus, put puts) {
			for procedure, t := range o.Calls.Procedures {
				put(float64(t.BytesSent), procedure, "sent")
				put(float64(t.BytesReceived), procedure, "received")
			}
		}), "procedure", "direction"),
		counterOf("peer_messages_total", "Messages between nodes since the start.", inOverlay(func(o *OverlayStatus, put puts) {
			for procedure, t := range o.Calls.Procedures {
				put(float64(t.MessagesSent), procedure, "sent")
				put(float64(t.MessagesReceived), procedure, "received")
			}
		}), "procedure", "direction"),
		counterOf("peer_failures_total", "Calls between nodes that failed since the start.", inOverlay(func(o *OverlayStatus, put puts) {
			for kind, n := range o.Calls.Failures {
				put(float64(n), kind)
			}
		}), "kind"),
	}
}

// collector makes metrics from a status.
type collector struct {
	status   func() Status
	families []metric
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.families {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.status()
	for _, m := range c.families {
		m.read(&s, func(v float64, labels ...string) { ch <- prometheus.MustNewConstMetric(m.desc, m.kind, v, labels...) })
	}
}

// newMetrics makes the registry of a node.
func newMetrics(status func() Status) (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	return r, errors.Join(
		r.Register(&collector{status, metrics()}),
		r.Register(collectors.NewGoCollector()),
		r.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
}

// metricsHandler serves a registry, to few callers at a time.
func metricsHandler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 10 * time.Second})
}
