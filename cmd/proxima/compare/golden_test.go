package compare

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxima/assign"
	"proxima/cmd/proxima/terminal"
	"proxima/node/runlog"
)

// small writes logs of which every figure below was computed by hand. Expected times: server a is 2×10+20 = 40 ms from berlin and
// 2×240+20 = 500 ms from tokyo; server b 420 ms from berlin, 100 ms from tokyo. nearest gives each server to its best node, random
// gives both to tokyo.
func small(t *testing.T) *bed {
	b := newBed(t, filepath.Join(t.TempDir(), "run"), twoNodes())
	b.world.Pages = 6
	berlin, tokyo := b.nodes[0], b.nodes[1]
	for _, d := range []runlog.Assign{
		{Label: "nearest", Host: "a.test", Owner: berlin.id, Estimates: 2, Accuracy: .1, Seconds: 4},
		{Label: "nearest", Host: "b.test", Owner: tokyo.id, Estimates: 2, Accuracy: .3, Seconds: 4},
		{Label: "random", Host: "a.test", Owner: tokyo.id, Seconds: 1},
		{Label: "random", Host: "b.test", Owner: tokyo.id, Seconds: 1},
	} {
		d.URLs, d.Reason = 3, "because"
		berlin.decide(5, d)
	}
	// The estimates: one page of a.test at each node, two pages of b.test at berlin.
	berlin.fetch(2, estimated("nearest", "a.test/e1", 50))
	tokyo.fetch(3, estimated("nearest", "a.test/e2", 550))
	berlin.fetch(2, estimated("nearest", "b.test/e1", 450))
	berlin.fetch(3, estimated("nearest", "b.test/e2", 450))
	// The comparison: a.test/1 by both nodes, a.test/2 by both (random's fails), b.test/1 by tokyo, which both had chosen.
	berlin.fetch(10, assigned("nearest", "a.test/1", 44))
	tokyo.fetch(11, assigned("random", "a.test/1", 520))
	berlin.fetch(12, assigned("nearest", "a.test/2", 60))
	fails := assigned("random", "a.test/2", 700)
	fails.Status = 503
	tokyo.fetch(13, fails)
	tokyo.fetch(14, assigned("nearest,random", "b.test/1", 120))
	// The owner goes on alone: no part of the comparison. One page of these comes twice.
	berlin.fetch(20, runlog.Fetch{URL: "http://a.test/3", TotalMs: 30, Bytes: 1000, Origin: runlog.OriginAssigned, Label: "nearest"})
	tokyo.fetch(21, runlog.Fetch{URL: "http://a.test/3", TotalMs: 500, Bytes: 1000, Origin: runlog.OriginDiscovered})
	tokyo.fetch(22, runlog.Fetch{URL: "http://b.test/404", TotalMs: 100, Bytes: 10, Origin: runlog.OriginAssigned, Label: "nearest", Status: 404})
	tokyo.fetch(23, runlog.Fetch{URL: "http://b.test/robots.txt", TotalMs: 100, Kind: runlog.KindRobots, Status: 404})
	tokyo.fetch(24, runlog.Fetch{URL: "http://b.test/gone", TotalMs: 10, Error: "reset", Reason: "reset"})
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

// TestSmallLogsByHand compares the form for programs, its names and its figures, and what only people see. Only a.test/1 and b.test/1
// were had by both: nearest took 44 and 120 ms, random 520 and 120, and the best possible 140 together. Hence
//
//	choice_ratio                1, random (500+100)/140
//	total_ratio                 164/140, random 640/140
//	total_ratio_with_estimates  (164+50+550+450+450)/(140+40+40+100+100)
//	overlap                     1/8: of 10 URLs tried, one could not be downloaded and one answered 404; a.test/3 came twice
//	messages_per_page           120/12, of pages that were answered; bytes and links likewise
func TestSmallLogsByHand(t *testing.T) {
	r := read(t, small(t).write())
	text, err := json.MarshalIndent(r, "", "  ")
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
	n, q := r.of(t, "nearest"), r.of(t, "random")
	near(t, "nearest choice with estimates", n.ChoiceRatioWithEstimates, (140.+40+500+420+420)/(140+280))
	near(t, "nearest seconds", n.SecondsP50, 4)
	near(t, "nearest accuracy", n.AccuracyP50, .1)
	// Differences: a 44 − 520 = −476, b 0.
	difference := &Difference{To: "random", Ms: -238, LowMs: -476, Rel: -476. / 640, Low: -476. / 520, Pairs: 2, Servers: 2}
	if d := cmp.Diff(difference, n.Difference, cmpopts.EquateApprox(1e-3, 0)); d != "" || q.Difference != nil {
		t.Errorf("difference of nearest (-want +got):\n%s\nof random to itself: %v", d, q.Difference)
	}
	if k := r.Crawl; k.Attempted != 10 || k.Found != 8 {
		t.Errorf("%d attempted, %d found", k.Attempted, k.Found)
	}
	statuses := []Status{{"communication failure", 1}, {"DNS error", 1}, {"200 OK", 10}, {"404 Not Found", 1}, {"503 Service Unavailable", 1}}
	if d := cmp.Diff(statuses, r.Statuses); d != "" {
		t.Errorf("statuses (-want +got):\n%s", d)
	}
	if len(r.Nodes) != 2 || r.Nodes[0].Name != "berlin" || r.Nodes[0].City != "Berlin" || r.Nodes[0].Pages != 6 {
		t.Errorf("nodes: %+v", r.Nodes)
	}
}

// TestDocsNameEveryField: docs/compare.md has every name of the form for programs.
func TestDocsNameEveryField(t *testing.T) {
	form, err := os.ReadFile("testdata/small.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../../docs/compare.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`"(\w+)": [^\[{]`).FindAllSubmatch(form, -1) {
		if !bytes.Contains(doc, []byte("`"+string(name[1])+"`")) {
			t.Errorf("docs/compare.md says nothing of %s", name[1])
		}
	}
}

func TestTextFits(t *testing.T) {
	text := read(t, small(t).write()).Text()
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > terminal.Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	holds(t, strings.Join(strings.Fields(text), " "), "scenario two, seed 7: 2 nodes, 2 servers", "testbed: may be trusted", "nearest",
		"74 % less time per page than random", "not certain", "may be chance", "decided with 2 estimates per server after 4 s", "berlin Berlin 6 0.0 1 2.0 333.3 64 –",
		"50 % of its servers went to the best node", "communication failure", "404 Not Found", "lost 0")
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
			n := b.nodes[0]
			for i := range c.made {
				n.fetch(float64(i), estimated("vivaldi", "a.test/"+strings.Repeat("x", i), 40))
			}
			for _, host := range []string{"a.test", "a2.test"} {
				n.decide(9, runlog.Assign{Label: "vivaldi", Host: host, Server: b.server("a.test"), Owner: n.id, Estimates: c.wanted, Reason: c.reason})
			}
			a := read(t, b.write()).of(t, "vivaldi")
			if a.Short != c.short || a.Forced != c.forced || a.Truncated != (c.short+c.forced > 0) || a.Decisions != 1 {
				t.Errorf("short %d, forced %d, truncated %v, %d decisions", a.Short, a.Forced, a.Truncated, a.Decisions)
			}
		})
	}
}

// TestEstimatesMayTakeFromARatio: pages downloaded for estimates may have been quicker than the best possible choices of the others.
func TestEstimatesMayTakeFromARatio(t *testing.T) {
	for with, want := range map[float64]string{1.25: "which added 0.05 to its total ratio", 1.2: "which added 0.00 to its total ratio",
		1.14: "which took 0.06 from its total ratio"} {
		r := Result{Assigners: []Assigner{{Name: "nearest", MeanMs: new(5.0), EstimatesP50: new(2.0), EstimatesP90: new(2.0), TotalRatio: new(1.2),
			TotalRatioWithEstimates: &with}}}
		if got := strings.Join(r.Explain(), "\n"); !strings.Contains(got, want) {
			t.Errorf("%q is not in: %s", want, got)
		}
	}
}
