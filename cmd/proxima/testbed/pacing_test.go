package testbed

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/terminal"
	"proxima/cmd/proxima/testbed/sites"
	"proxima/frontier"
)

// TestJudge: each rule is broken once, and seen by the server.
func TestJudge(t *testing.T) {
	rules := frontier.Politeness{MinGap: time.Second, Factor: 3, MaxGap: 20 * time.Second}
	began := time.Unix(1000, 0)
	visit := func(at, took, after float64) sites.Visit {
		return sites.Visit{Begin: began.Add(seconds(at)), End: began.Add(seconds(at + took)), RetryAfter: seconds(after)}
	}
	for name, c := range map[string]struct {
		visits []sites.Visit
		delay  time.Duration
		want   pace
	}{
		"polite":   {visits: []sites.Visit{visit(0, .1, 0), visit(1.2, .1, 0), visit(3, .1, 0)}},
		"too soon": {visits: []sites.Visit{visit(0, .1, 0), visit(.6, .1, 0)}, want: pace{soon: 1}},
		"at once":  {visits: []sites.Visit{visit(0, 2, 0), visit(1, 2, 0)}, want: pace{parallel: 1}},
		"delay":    {visits: []sites.Visit{visit(0, .1, 0), visit(3, .1, 0)}, delay: 4 * time.Second, want: pace{soon: 1}},
		"slow":     {visits: []sites.Visit{visit(0, 2, 0), visit(5, .1, 0), visit(7, 2, 0), visit(15, .1, 0)}, want: pace{soon: 1}},
		"early":    {visits: []sites.Visit{visit(0, .1, 8), visit(4, .1, 0), visit(9, .1, 0)}, want: pace{early: 1, refused: 1}},
	} {
		got := judge(c.visits, rules, c.delay)
		if got.soon != c.want.soon || got.parallel != c.want.parallel || got.early != c.want.early || got.refused != c.want.refused {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestAPaceNeedsTwoRequests: nothing is said of a server that the crawl asked once or, after the calibration, not at all.
func TestAPaceNeedsTwoRequests(t *testing.T) {
	var out strings.Builder
	r := &run{plan: draw(t, parsed(t, "[[nodes]]\n[[sites]]\ncount = 3"), 1), dir: t.TempDir(), out: terminal.New(&out), world: rundir.World{Started: time.Unix(1000, 0)}}
	visits := map[netip.Addr][]sites.Visit{}
	for k, crawled := range []int{0, 1, 2} {
		for i := -1; i < crawled; i++ {
			at := r.world.Started.Add(time.Duration(i) * 30 * time.Second)
			visits[r.plan.Servers[k].Addr] = append(visits[r.plan.Servers[k].Addr], sites.Visit{Begin: at, End: at})
		}
	}
	if err := r.pacing(visits); err != nil || out.String() != "server s3: 2 requests, 30.0 s apart (least 30.0 s); polite\n" {
		t.Errorf("%v\n%s", err, &out)
	}
	if text, err := os.ReadFile(filepath.Join(r.dir, visitsFile)); err != nil || strings.Count(string(text), "\n") != 6 {
		t.Errorf("%v\n%s", err, text)
	}
}
