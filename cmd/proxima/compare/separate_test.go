package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"proxima/cmd/proxima/rundir"
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
			n, host := b.nodes[k], s.Hosts[0]
			cut := single(run.label, host+"/1cut", run.ms) // nothing but broken off
			cut.Error = "canceled"
			n.fetch(0, cut)
			cut.URL, cut.Status, cut.TotalMs = "http://"+host+"/1", 200, 7
			n.fetch(1, cut)
			busy := single(run.label, host+"/1", 9)
			busy.Status = 503
			n.fetch(2, busy)
			n.fetch(3, single(run.label, host+"/1", run.ms))
			n.fetch(9, single(run.label, host+"/1", 5000))
			n.fetch(10, estimated(run.label, host+"/1e", 77))
			cut = estimated(run.label, host+"/1e/cut", 77)
			cut.Error = "canceled"
			n.fetch(11, cut)
		}
		// Four fifths of the pages at berlin: 8 and 2, with those above 12 and 6 answered, robots.txt not counted.
		for i := range 8 {
			b.nodes[0].fetch(12, runlog.Fetch{URL: fmt.Sprintf("http://c.test/%d", i), TotalMs: 100})
		}
		b.nodes[1].fetch(30, runlog.Fetch{URL: "http://c.test/8", TotalMs: 100})
		b.nodes[1].fetch(40, runlog.Fetch{URL: "http://c.test/robots.txt", TotalMs: 100, Kind: runlog.KindRobots})
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
	if len(n.Seeds) != 0 || len(q.Seeds) != 2 || q.Seeds[0].Seed != 1 || q.Seeds[1].Seed != 2 {
		t.Fatalf("seeds of nearest %+v, of random %+v", n.Seeds, q.Seeds)
	}
	near(t, "random's first seed", q.Seeds[0].Total, 400./140)
	near(t, "random's second seed", q.Seeds[1].Total, 1800./140)
	const kept = "a total ratio can be below 1"
	holds(t, strings.Join(r.Notes(), "\n"), kept)
	// Beside a comparison they tell makespan and balance alone.
	tuned(t, filepath.Join(top, "all"), "all", "1", 2, 60, "nearest", "random")
	r = read(t, top)
	if n = r.of(t, "nearest"); len(r.Runs) != 4 || n.URLs != 8 || n.Difference == nil || n.Difference.Pairs != 8 {
		t.Errorf("%d runs, %+v", len(r.Runs), n)
	}
	near(t, "mean of the comparison", n.MeanMs, 60)
	if notes := strings.Join(r.Notes(), "\n"); strings.Contains(notes, kept) {
		t.Errorf("a comparison has fresh connections: %s", notes)
	}
	near(t, "makespan", n.MakespanS, 30-(2-.009))
	near(t, "balance", n.BalanceCV, 3.5/8.5)
	// Those that were not done within their time are the long ones.
	late := twoNodes()
	late.Assigners = []string{"nearest"}
	b := newBed(t, filepath.Join(top, "late"), late)
	b.nodes[0].queue(10, runlog.Queue{Accepted: 1, Pending: 1})
	b.nodes[0].stop()
	b.write()
	if n = read(t, top).of(t, "nearest"); n.MakespanS != nil || n.MakespanWhy != "1 URLs were still waiting when a run ended" {
		t.Errorf("%v, %q", n.MakespanS, n.MakespanWhy)
	}
}

// TestRunsOfOneSeedInOtherWorlds: the same addresses are other servers there, so pages are paired within a world only.
func TestRunsOfOneSeedInOtherWorlds(t *testing.T) {
	top := t.TempDir()
	for _, run := range []struct {
		name, label string
		factor      float64 // of the round trips
		ms          float64
	}{{"near-nearest", "nearest", 1, 50}, {"near-random", "random", 1, 60}, {"far-random", "random", 5, 900}, {"far-hash", "hash", 5, 800}} {
		w := twoNodes()
		w.Assigners = []string{run.label}
		for _, row := range w.RTTMs {
			for k := range row {
				row[k] *= run.factor
			}
		}
		b := newBed(t, filepath.Join(top, run.name), w)
		for _, s := range w.Servers {
			b.nodes[0].fetch(9, single(run.label, s.Hosts[0]+"/1", run.ms))
		}
		b.write()
	}
	r := read(t, top)
	for name, want := range map[string]float64{"nearest": -10, "hash": -100} {
		d := r.of(t, name).Difference
		if d == nil || d.Pairs != 2 || d.Servers != 2 {
			t.Fatalf("%s: %+v", name, d)
		}
		near(t, name+" to random in its own world", &d.Ms, want)
	}
	if h := r.Headline(); !strings.Contains(h, "chance cannot be judged") {
		t.Errorf("nearest and hash were in no common world: %s", h)
	}
	const says = "Rows were in different worlds"
	holds(t, strings.Join(r.Notes(), "\n"), says)
	if n := strings.Join(read(t, filepath.Join(top, "near-nearest"), filepath.Join(top, "near-random")).Notes(), "\n"); strings.Contains(n, says) {
		t.Errorf("both were in the near world: %s", n)
	}
}

// TestPagesThatOnlySomeGotAreTold: without the logs of the better node the rest says that both are equal, and must not say it alone.
func TestPagesThatOnlySomeGotAreTold(t *testing.T) {
	w := twoNodes()
	b := newBed(t, t.TempDir(), w)
	for page := range 4 {
		b.nodes[page%2].fetch(9, assigned("nearest", fmt.Sprintf("a.test/%d", page), 50+450*float64(page%2)))
		b.nodes[1].fetch(9, assigned("random", fmt.Sprintf("a.test/%d", page), 500))
	}
	for _, label := range []string{"nearest", "random"} { // a page that nobody got
		fails := assigned(label, "a.test/broken", 10)
		fails.Status = 503
		b.nodes[1].fetch(9, fails)
	}
	dir := b.write()
	const says = "pages have no times"
	if n := strings.Join(read(t, dir).Notes(), "\n"); strings.Contains(n, says) {
		t.Errorf("all got all: %s", n)
	}
	if err := os.RemoveAll(filepath.Dir(b.nodes[0].logs)); err != nil {
		t.Fatal(err)
	}
	holds(t, strings.Join(read(t, dir).Notes(), "\n"), "2 of 5 pages have no times, since the nodes of some assigners got them")
}

// alone writes a run of one assigner, in which each server's page takes so many ms, or fails at 0.
func alone(t *testing.T, dir, label string, seed uint64, ms float64) string {
	w := twoNodes()
	w.Assigners, w.Seed = []string{label}, seed
	b := newBed(t, dir, w)
	for _, s := range w.Servers {
		f := single(label, s.Hosts[0]+"/1", ms)
		if ms == 0 {
			f.Error = "refused"
		}
		b.nodes[0].fetch(9, f)
	}
	return b.write()
}

// TestRowOfAnotherWorldIsNotRanked: its differences are unknown and not 0, and the means of two worlds say nothing about who is faster.
func TestRowOfAnotherWorldIsNotRanked(t *testing.T) {
	top := t.TempDir()
	alone(t, filepath.Join(top, "a"), "geographic", 2, 900)
	alone(t, filepath.Join(top, "b"), "random", 1, 100)
	alone(t, filepath.Join(top, "c"), "hash", 1, 120)
	r := read(t, top)
	var order []string
	for _, a := range r.Order() {
		order = append(order, a.Name)
	}
	if got := strings.Join(order, " "); got != "random hash geographic" {
		t.Errorf("the order is %s", got)
	}
	if h := r.Headline(); !strings.HasPrefix(h, "random cannot be compared with geographic: chance cannot be judged") {
		t.Error(h)
	}
}

// TestNothingAnswered: where no node did anything the variation of their work is unknown. Of several runs, those with work count.
func TestNothingAnswered(t *testing.T) {
	top := t.TempDir()
	r := read(t, alone(t, filepath.Join(top, "failed"), "nearest", 1, 0))
	holds(t, r.Text(), "nearest alone: URLs per node 0 to 0 (cv –), busy 0 to 0 s (cv –)")
	alone(t, filepath.Join(top, "done"), "nearest", 1, 100)
	near(t, "balance", read(t, top).of(t, "nearest").BalanceCV, 1) // 2 and 0
}

// TestMakespansOfOtherWorldsAreTold: beside a comparison, runs of one assigner each tell makespans. Those of different seeds say nothing about
// who was done sooner.
func TestMakespansOfOtherWorldsAreTold(t *testing.T) {
	for seed, told := range map[uint64]bool{1: false, 2: true} {
		top := t.TempDir()
		tuned(t, filepath.Join(top, "both"), "both", "1", 2, 60, "nearest", "random")
		alone(t, filepath.Join(top, "a"), "nearest", 1, 100)
		alone(t, filepath.Join(top, "b"), "random", seed, 900)
		notes := strings.Join(read(t, top).Notes(), "\n")
		if strings.Contains(notes, "do not compare their makespans") != told || strings.Contains(notes, "do not compare their times") {
			t.Errorf("random alone with seed %d: %s", seed, notes)
		}
	}
}

// TestNoErrorIsNotNone: probes have none, and a server placed by them is not placed without fault.
func TestNoErrorIsNotNone(t *testing.T) {
	b := newBed(t, t.TempDir(), twoNodes())
	for i, label := range b.world.Assigners {
		b.nodes[0].decide(5, runlog.Assign{Label: label, Host: "a.test", Owner: b.nodes[0].id, Estimates: 3, Accuracy: 0.25 * float64(i)})
		b.nodes[0].fetch(9, assigned(label, "a.test/1", 50))
	}
	r := read(t, b.write())
	if e := r.of(t, "nearest").AccuracyP50; e != nil {
		t.Errorf("an error of %v", *e)
	}
	near(t, "error", r.of(t, "random").AccuracyP50, .25)
	for i, h := range r.Homes {
		if (h.AccuracyP50 == nil) != (i == 0) {
			t.Errorf("%s: %v", h.Row, h.AccuracyP50)
		}
	}
}

// TestRunsOfDifferentLengthAreTold: the mean of a run that ended early is of other pages. The difference is of those that both got.
func TestRunsOfDifferentLengthAreTold(t *testing.T) {
	const says = "do not compare times and ratios, only the differences, which are of the same pages"
	for pages, told := range map[int]bool{200: false, 180: false, 178: true, 100: true} {
		top := t.TempDir()
		for label, n := range map[string]int{"nearest": pages, "random": 200} {
			w := twoNodes()
			w.Assigners = []string{label}
			b := newBed(t, filepath.Join(top, label), w)
			for i := range n {
				b.nodes[0].fetch(9, single(label, fmt.Sprintf("%s/%d", w.Servers[i%2].Hosts[0], i), float64(i)))
			}
			b.write()
		}
		r := read(t, top)
		if notes := strings.Join(r.Notes(), "\n"); strings.Contains(notes, says) != told {
			t.Errorf("of 200 pages nearest got %d: %s", pages, notes)
		}
		near(t, "difference", &r.of(t, "nearest").Difference.Ms, 0)
		few, err := Read(t.Context(), []string{top}, Options{}) // too few servers for an interval
		if err != nil {
			t.Fatal(err)
		}
		if h := few.Headline(); strings.Contains(h, "cannot be compared with") != told {
			t.Errorf("of 200 pages nearest got %d: %s", pages, h)
		}
	}
}

// TestServersOfRealMachines: without a world they are those that were crawled or decided about, whether or not a place of theirs is known.
// Two rows of which each page was one download are equal.
func TestServersOfRealMachines(t *testing.T) {
	b := newBed(t, t.TempDir(), twoNodes())
	for _, label := range b.world.Assigners {
		for _, host := range []string{"a.test", "b.test"} {
			b.nodes[0].decide(5, runlog.Assign{Label: label, Host: host, Owner: b.nodes[0].id})
		}
	}
	b.nodes[0].fetch(9, assigned("nearest,random", "a.test/1", 90))
	r, err := Read(t.Context(), []string{filepath.Join(b.write(), rundir.NodesFolder)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Runs[0].Servers; n != 2 {
		t.Errorf("%d servers", n)
	}
	if h := r.Headline(); !strings.HasPrefix(h, "nearest and random are equal, with a mean time per page of 90 ms") {
		t.Error(h)
	}
}
