package compare

import (
	"fmt"
	"path/filepath"
	"testing"

	"proxima/node/runlog"
)

// TestSeparateRunsByHand: nearest had seed 1, random seeds 1 and 2. Only runs of one seed are paired, page by page; what was broken off,
// estimates and second downloads of a page are no downloads of their own.
func TestSeparateRunsByHand(t *testing.T) {
	top := t.TempDir()
	for _, run := range []struct {
		label string
		seed  uint64
		ms    float64
	}{{"nearest", 1, 50}, {"random", 1, 200}, {"random", 2, 900}} {
		w := twoNodes()
		w.Assigners, w.Seed = []string{run.label}, run.seed
		b := newBed(t, filepath.Join(top, fmt.Sprintf("%s-%d", run.label, run.seed)), w)
		for k, s := range w.Servers {
			n := b.nodes[k]
			page := runlog.Fetch{URL: "http://" + s.Hosts[0] + "/1", Host: s.Hosts[0], Server: s.Addr.String(), TotalMs: run.ms, Bytes: 1000,
				Origin: runlog.OriginAssigned, Label: run.label}
			cut := page
			cut.URL += fmt.Sprint("cut", k) // nothing but broken off
			cut.Error = "canceled"
			n.fetch(0, cut)
			cut.URL = page.URL
			cut.Status, cut.Error, cut.TotalMs = 200, "canceled", 7
			n.fetch(1, cut)
			busy := page
			busy.Status, busy.TotalMs = 503, 9
			n.fetch(2, busy)
			n.fetch(3, page)
			again := page
			again.TotalMs = 5000
			n.fetch(9, again)
			page.URL += "e"
			page.Origin, page.TotalMs, page.Batch = runlog.OriginEstimate, 77, batchOne
			n.fetch(10, page)
			page.URL += "/cut"
			page.Error = "canceled"
			n.fetch(11, page)
		}
		// Four fifths of the pages at berlin: 8 and 2, with those above 12 and 6 answered, robots.txt not counted.
		for i := range 8 {
			b.nodes[0].fetch(12, runlog.Fetch{URL: fmt.Sprintf("http://c.test/%d", i), Server: "198.18.1.9", TotalMs: 100})
		}
		b.nodes[1].fetch(30, runlog.Fetch{URL: "http://c.test/8", Server: "198.18.1.9", TotalMs: 100})
		b.nodes[1].fetch(40, runlog.Fetch{URL: "http://c.test/robots.txt", Server: "198.18.1.9", TotalMs: 100, Kind: runlog.KindRobots})
		for _, n := range b.nodes {
			n.queue(41, runlog.Queue{})
			n.stop()
		}
		b.write()
	}
	r := read(t, top)
	n, q := r.of(t, "nearest"), r.of(t, "random")
	if n.URLs != 4 || n.Downloaded != 2 || n.Failed != 0 || n.Bytes != 2000 || q.URLs != 8 {
		t.Errorf("%+v\n%+v", n, q)
	}
	near(t, "mean", n.MeanMs, 50)
	near(t, "random's mean", q.MeanMs, 550)
	if n.Difference == nil || n.Difference.Pairs != 2 {
		t.Fatalf("%+v", n.Difference)
	}
	near(t, "difference", &n.Difference.Ms, -150)
	near(t, "least difference", &n.Difference.LowMs, -150)
	// Best times are 40 and 100 ms; each server went to its best node, and its estimate was made there.
	near(t, "total", n.TotalRatio, 100./140)
	near(t, "total with estimates", n.TotalRatioWithEstimates, (100.+2*77)/280)
	// From the begin of the busy one (the first that was not broken off) to the end of c.test/8.
	near(t, "makespan", n.MakespanS, 30-(2-.009))
	// 503, page, again, estimate: 4 each; and 8 and 1.
	if b := n.Balance; b.MinURLs != 5 || b.MaxURLs != 12 {
		t.Errorf("%+v", b)
	}
	near(t, "balance", n.BalanceCV, 3.5/8.5)
	if r.Crawl.Attempted != 3*(2+2+9) {
		t.Errorf("%d attempted", r.Crawl.Attempted)
	}
	near(t, "overlap", r.Crawl.Overlap, 2./(2+2+9))
}

// TestAMakespanNeedsAllRunsToEnd: those that were not done within their time are the long ones.
func TestAMakespanNeedsAllRunsToEnd(t *testing.T) {
	top := t.TempDir()
	for seed := range 3 {
		w := twoNodes()
		w.Assigners, w.Seed = []string{"nearest"}, uint64(seed+1)
		b := newBed(t, filepath.Join(top, fmt.Sprint(seed)), w)
		n := b.nodes[0]
		n.fetch(9, runlog.Fetch{URL: "http://a.test/", Server: w.Servers[0].Addr.String(), Origin: runlog.OriginAssigned, Label: "nearest", TotalMs: 50})
		waiting := int64(seed % 2) // of the second run
		n.queue(10, runlog.Queue{Accepted: waiting, Pending: waiting})
		n.stop()
		b.write()
	}
	a := read(t, top).of(t, "nearest")
	if want := "1 URLs were still waiting when a run ended"; a.MakespanS != nil || a.MakespanWhy != want {
		t.Errorf("%v, %q", a.MakespanS, a.MakespanWhy)
	}
}
