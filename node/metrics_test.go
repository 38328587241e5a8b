package node

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"proxima/node/crawl"
	"proxima/node/peer"
	"proxima/node/sink"
)

// The metrics follow the conventions, whatever the node has, and a server that answers with every status there is makes no more of them.
func TestMetrics(t *testing.T) {
	var s Status
	c := &collector{func() Status { return s }, metrics()}
	alone := testutil.CollectAndCount(c)
	s = Status{Crawl: crawl.Stats{Rows: map[string]int64{crawl.RowDNS: 3}}, Sink: &sink.Status{}, Overlay: &OverlayStatus{
		Majority: true, Calls: peer.Counts{Procedures: map[string]peer.Traffic{"Deliver": {BytesSent: 5}}, Failures: map[string]uint64{"busy": 1}}}}
	for status := range 1000 {
		s.Crawl.Rows[fmt.Sprint(status)] = 2
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if pages := testutil.CollectAndCount(c, "proxima_pages_total"); pages != 11 {
		t.Errorf("%d metrics of pages, want ten classes and one failure", pages)
	}
	if all := testutil.CollectAndCount(c); all <= alone {
		t.Errorf("%d metrics with sink and overlay, %d without", all, alone)
	}
	want := `
		# HELP proxima_peer_bytes_total Bytes of messages between nodes since the start.
		# TYPE proxima_peer_bytes_total counter
		proxima_peer_bytes_total{direction="received",procedure="Deliver"} 0
		proxima_peer_bytes_total{direction="sent",procedure="Deliver"} 5
	`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "proxima_peer_bytes_total"); err != nil {
		t.Error(err)
	}
}

// The page of metrics has all there are, and the dashboard and the alerts ask for no others.
func TestMetricsAreDocumented(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../docs/" + name)
		must(t, err)
		return string(text)
	}
	name := regexp.MustCompile(`proxima_[a-z_]+`)
	page, known := read("metrics.md"), map[string]bool{}
	for _, m := range metrics() {
		family := name.FindString(m.desc.String())
		known[family] = true
		if !strings.Contains(page, "| `"+family+"` |") {
			t.Errorf("docs/metrics.md lacks %s", family)
		}
	}
	for _, file := range []string{"metrics.md", "metrics/grafana.json", "metrics/alerts.yml"} {
		for _, asked := range name.FindAllString(read(file), -1) {
			if !known[asked] {
				t.Errorf("%s: there is no %s", file, asked)
			}
		}
	}
	if !json.Valid([]byte(read("metrics/grafana.json"))) {
		t.Error("the dashboard is no JSON")
	}
}
