package compare

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"proxima/assign"
	"proxima/node/runlog"
)

const batchOne = "000000000001-1-1"

// small writes logs of which every figure below was computed by hand. Expected times: server a is 2×10+20 = 40 ms from berlin and
// 2×240+20 = 500 ms from tokyo; server b 420 ms from berlin, 100 ms from tokyo. nearest gives each server to its best node, random
// gives both to tokyo.
func small(t *testing.T) *bed {
	b := newBed(t, filepath.Join(t.TempDir(), "run"), twoNodes())
	b.world.Pages = 6
	berlin, tokyo := b.nodes[0], b.nodes[1]
	a, s := b.world.Servers[0].Addr.String(), b.world.Servers[1].Addr.String()
	for _, d := range []struct {
		label, host, server, owner string
		estimates                  int
		accuracy, seconds          float64
	}{
		{"nearest", "a.test", a, berlin.id, 2, .1, 4}, {"nearest", "b.test", s, tokyo.id, 2, .3, 4},
		{"random", "a.test", a, tokyo.id, 0, 0, 1}, {"random", "b.test", s, tokyo.id, 0, 0, 1},
	} {
		berlin.decide(5, runlog.Assign{Batch: batchOne, Label: d.label, Host: d.host, Server: d.server, Owner: d.owner, URLs: 3,
			Estimates: d.estimates, Accuracy: d.accuracy, Seconds: d.seconds, Reason: "because"})
	}
	// The estimates: one page of a.test at each node, two pages of b.test at berlin.
	estimate := func(n *bedNode, end float64, url, host, server string, ms float64) {
		n.fetch(end, runlog.Fetch{URL: url, Host: host, Server: server, TotalMs: ms, Bytes: 1000, Origin: runlog.OriginEstimate,
			Label: "nearest", Batch: batchOne})
	}
	estimate(berlin, 2, "http://a.test/e1", "a.test", a, 50)
	estimate(tokyo, 3, "http://a.test/e2", "a.test", a, 550)
	estimate(berlin, 2, "http://b.test/e1", "b.test", s, 450)
	estimate(berlin, 3, "http://b.test/e2", "b.test", s, 450)
	// The comparison: a.test/1 by both nodes, a.test/2 by both (random's fails), b.test/1 by tokyo, which both had chosen.
	compared := func(n *bedNode, end float64, url, host, server, label string, ms float64, status int) {
		n.fetch(end, runlog.Fetch{URL: url, Host: host, Server: server, TotalMs: ms, Bytes: 1000, Origin: runlog.OriginAssigned, Label: label,
			Batch: batchOne, Status: status})
	}
	compared(berlin, 10, "http://a.test/1", "a.test", a, "nearest", 44, 200)
	compared(tokyo, 11, "http://a.test/1", "a.test", a, "random", 520, 200)
	compared(berlin, 12, "http://a.test/2", "a.test", a, "nearest", 60, 200)
	compared(tokyo, 13, "http://a.test/2", "a.test", a, "random", 700, 503)
	compared(tokyo, 14, "http://b.test/1", "b.test", s, "nearest,random", 120, 200)
	// The owner goes on alone: no part of the comparison. One page of these comes twice.
	berlin.fetch(20, runlog.Fetch{URL: "http://a.test/3", Host: "a.test", Server: a, TotalMs: 30, Bytes: 1000,
		Origin: runlog.OriginAssigned, Label: "nearest"})
	tokyo.fetch(21, runlog.Fetch{URL: "http://a.test/3", Host: "a.test", Server: a, TotalMs: 500, Bytes: 1000,
		Origin: runlog.OriginDiscovered})
	tokyo.fetch(22, runlog.Fetch{URL: "http://b.test/404", Host: "b.test", Server: s, TotalMs: 100, Bytes: 10,
		Origin: runlog.OriginAssigned, Label: "nearest", Status: 404})
	tokyo.fetch(23, runlog.Fetch{URL: "http://b.test/robots.txt", Host: "b.test", Server: s, TotalMs: 100, Kind: runlog.KindRobots,
		Status: 404})
	tokyo.fetch(24, runlog.Fetch{URL: "http://b.test/gone", Host: "b.test", Server: s, TotalMs: 10, Error: "reset", Reason: "reset"})
	berlin.Events().Warn(runlog.EventDNS, runlog.KeyHost, "c.test")
	// b.test goes back to berlin: its second hand-off.
	berlin.Assign(runlog.Assign{Host: "a.test", Owner: berlin.id, Epoch: 2})
	berlin.Assign(runlog.Assign{Host: "b.test", Owner: tokyo.id, Epoch: 2})
	tokyo.Assign(runlog.Assign{Host: "b.test", Owner: berlin.id, Epoch: 3})
	tokyo.Member(runlog.Member{Change: "took", Host: "c.test", Peer: berlin.id})
	tokyo.Member(runlog.Member{Change: "received", Host: "b.test", Peer: berlin.id})
	for _, n := range b.nodes {
		n.queue(25, runlog.Queue{Accepted: 6, Done: 5, Failed: 1})
		n.Load(runlog.Load{CPUSeconds: 2, RSSBytes: 64 << 20, MessagesSent: 60, BytesSent: 6000, LinksSent: 30})
		n.stop()
	}
	return b
}

func TestSmallLogsByHand(t *testing.T) {
	r := read(t, small(t).write())
	n, q := r.of(t, "nearest"), r.of(t, "random")
	if d := cmp.Diff([]int64{3, 3, 0, 3000, 3, 2, 1, 2000}, []int64{n.URLs, n.Downloaded, n.Failed, n.Bytes, q.URLs, q.Downloaded, q.Failed,
		q.Bytes}); d != "" {
		t.Errorf("URLs, downloaded, failed, bytes of nearest and random (-want +got):\n%s", d)
	}
	// Only a.test/1 and b.test/1 were had by both.
	near(t, "nearest p50", n.P50Ms, 44)
	near(t, "nearest p90", n.P90Ms, 120)
	near(t, "nearest mean", n.MeanMs, 82)
	near(t, "random p50", q.P50Ms, 120)
	near(t, "random p99", q.P99Ms, 520)
	near(t, "nearest choice", n.ChoiceRatio, 1)
	near(t, "random choice", q.ChoiceRatio, (500.+100)/(40+100))
	near(t, "nearest total", n.TotalRatio, (44.+120)/140)
	near(t, "random total", q.TotalRatio, (520.+120)/140)
	near(t, "random total with estimates", q.TotalRatioWithEstimates, (520.+120)/140)
	// Best times of the estimates: 40, 40, 100, 100; expected 40, 500, 420, 420.
	near(t, "nearest total with estimates", n.TotalRatioWithEstimates, (164.+50+550+450+450)/(140+40+40+100+100))
	near(t, "nearest choice with estimates", n.ChoiceRatioWithEstimates, (140.+40+500+420+420)/(140+280))
	near(t, "nearest best share", n.BestShare, 1)
	near(t, "random best share", q.BestShare, .5)
	near(t, "nearest estimates p50", n.EstimatesP50, 2)
	near(t, "random estimates p90", q.EstimatesP90, 0)
	near(t, "nearest seconds", n.SecondsP50, 4)
	near(t, "nearest accuracy", n.AccuracyP50, .1)
	if n.Truncated || q.Truncated {
		t.Error("truncated")
	}
	if n.MakespanS != nil || n.BalanceCV != nil {
		t.Error("makespan or balance from a run of several assigners")
	}
	// Differences: a 44 − 520 = −476, b 0.
	if d := n.Difference; d == nil {
		t.Error("no difference")
	} else {
		near(t, "difference", &d.Ms, -238)
		near(t, "relative difference", &d.Rel, -476./640)
		near(t, "least", &d.LowMs, -476)
		near(t, "most", &d.HighMs, 0)
	}
	if q.Difference != nil {
		t.Error("the reference differs from itself")
	}
	k := r.Crawl
	// 4 estimates, a/1, a/2, b/1, a/3, 404, gone. Repeats: a/3.
	if k.Attempted != 10 || k.Found != 8 {
		t.Errorf("%d attempted, %d found", k.Attempted, k.Found)
	}
	near(t, "coverage", k.Coverage, 1)
	near(t, "overlap", k.Overlap, 1./8)
	if k.Lost == nil || *k.Lost != 0 {
		t.Errorf("lost %v: %s %s", k.Lost, k.Withheld, k.LostWhy)
	}
	if k.Reassigned != 2 {
		t.Errorf("%d re-assignments", k.Reassigned)
	}
	// 12 pages were answered.
	near(t, "messages a page", k.MessagesPerPage, 120./12)
	near(t, "bytes a page", k.BytesPerPage, 12000./12)
	near(t, "links a page", k.URLsExchangedPerPage, 60./12)
	want := []Status{{"communication failure", 1}, {"DNS error", 1}, {"200 OK", 10}, {"404 Not Found", 1}, {"503 Service Unavailable", 1}}
	if d := cmp.Diff(want, r.Statuses); d != "" {
		t.Errorf("statuses (-want +got):\n%s", d)
	}
	if len(r.Nodes) != 2 || r.Nodes[0].Name != "berlin" || r.Nodes[0].City != "Berlin" || r.Nodes[0].Pages != 6 {
		t.Errorf("nodes: %+v", r.Nodes)
	}
}

// TestJSONForm compares the names and their types with what is promised.
func TestJSONForm(t *testing.T) {
	text, err := json.MarshalIndent(read(t, small(t).write()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/small.json")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(text)+"\n"); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	var form map[string]any
	if err := json.Unmarshal(text, &form); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../../docs/compare.md")
	if err != nil {
		t.Fatal(err)
	}
	names := func(v any) (list []string) {
		for k := range v.(map[string]any) {
			list = append(list, k)
		}
		return list
	}
	for _, name := range append(append(names(form["assigners"].([]any)[0]), names(form["crawl"])...), names(form["testbed"])...) {
		if !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/compare.md says nothing of %s", name)
		}
	}
}

func TestTextFits(t *testing.T) {
	var b bytes.Buffer
	if err := read(t, small(t).write()).Text(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > tableWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, words := range []string{"scenario two, seed 7: 2 nodes, 2 servers", "testbed: may be trusted", "nearest",
		"74 % less time per page than random",
		"may be chance", "decided with 2 estimates per server after 4 s", "50 % of its servers went to the best node",
		"communication failure", "404 Not Found", "lost 0"} {
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), words) {
			t.Errorf("%q is not in:\n%s", words, b.String())
		}
	}
}

// TestTruncated: the reasons that are looked for are those that vivaldi gives, and pages that were not there are noticed.
func TestTruncated(t *testing.T) {
	cfg := assign.Default()
	cfg.Vivaldi.MaxTicks = 1
	view := assign.View{Nodes: []assign.Node{{ID: "n"}}}
	w := twoNodes()
	v, err := assign.New(assign.Vivaldi, cfg, assign.Batch{ID: "b", Servers: []assign.Server{{Addr: w.Servers[0].Addr}}}, view, began)
	if err != nil {
		t.Fatal(err)
	}
	v.Asks(began)
	choices, done := v.Decide(began.Add(cfg.Vivaldi.Tick * 2))
	if !done {
		t.Fatal("undecided after the last tick")
	}
	w.Assigners = []string{"vivaldi", "random"}
	for _, c := range []struct {
		name, reason  string
		wanted, made  int
		short, forced int64
	}{
		{"last tick", choices[0].Reason, 2, 2, 0, 1},
		{"deadline", "undecided after 1h0m0s: drawn", 2, 2, 0, 1},
		{"content", "least distance; median error below 0.25 after 2 ticks", 2, 2, 0, 0},
		{"one under way", "least distance; median error below 0.25 after 2 ticks", 2, 1, 0, 0},
		{"too few URLs", "least distance; median error below 0.25 after 9 ticks", 9, 3, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, t.TempDir(), w)
			n, server := b.nodes[0], w.Servers[0].Addr.String()
			for i := range c.made {
				n.fetch(float64(i), runlog.Fetch{URL: "http://a.test/" + strings.Repeat("x", i), Host: "a.test", Server: server, TotalMs: 40,
					Origin: runlog.OriginEstimate, Label: "vivaldi", Batch: batchOne})
			}
			n.decide(9, runlog.Assign{Batch: batchOne, Label: "vivaldi", Host: "a.test", Server: server, Owner: n.id, Estimates: c.wanted,
				Reason: c.reason})
			n.decide(9, runlog.Assign{Batch: batchOne, Label: "vivaldi", Host: "a2.test", Server: server, Owner: n.id, Estimates: c.wanted,
				Reason: c.reason})
			a := read(t, b.write()).of(t, "vivaldi")
			if a.Short != c.short || a.Forced != c.forced || a.Truncated != (c.short+c.forced > 0) || a.Decisions != 1 {
				t.Errorf("short %d, forced %d, truncated %v, %d decisions", a.Short, a.Forced, a.Truncated, a.Decisions)
			}
		})
	}
}
