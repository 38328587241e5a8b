package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/terminal"
	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/testbed/sites"
	"proxima/node"
	"proxima/node/crawl"
	"proxima/node/peer"
	"proxima/node/placement"
)

// fakePlatform runs nothing. It logs each call.
type fakePlatform struct {
	platform // for the methods that are not called
	begun    time.Time
	dir      string
	log      []string
	nodes    []*fakeNode
	ends     time.Duration // when the nodes end by themselves; 0 for never
	batches  bool          // whether each node makes and hands off a batch
	paused   string        // why no node crawls
	apart    string        // what nodes on real machines cannot do: "join" or "call"
}

func (b *fakePlatform) note(format string, args ...any) {
	b.log = append(b.log, fmt.Sprintf("%v %s", time.Since(b.begun).Round(time.Second), fmt.Sprintf(format, args...)))
}

func (b *fakePlatform) start(_ context.Context, i int) (runningNode, error) {
	b.note("start %d", i)
	a := &fakeNode{ending: newEnding(), fakePlatform: b, i: i, born: time.Now()}
	b.nodes = append(b.nodes, a)
	return a, nil
}

func (b *fakePlatform) SetBandwidth(a netip.Addr, up, down float64) error {
	b.note("bandwidth %v %v %v", a, up, down)
	return nil
}
func (b *fakePlatform) Slow(a netip.Addr, by time.Duration) error {
	b.note("slow %v %v", a, by)
	return nil
}
func (b *fakePlatform) Partition(some, others []netip.Addr) error {
	b.note("partition %v %d", some, len(others))
	return nil
}
func (*fakePlatform) Visits() map[netip.Addr][]sites.Visit { return nil }
func (b *fakePlatform) urls(int) []string                  { return nil }
func (b *fakePlatform) dial(int) (dialer, func(), error) {
	return nil, nil, errors.New("nothing to download here")
}
func (b *fakePlatform) Stats() (emulate.Stats, error) {
	return emulate.Stats{Emulation: "stage", Unplanned: 7}, nil
}

// fakeNode is a node of a fakePlatform.
type fakeNode struct {
	ending
	*fakePlatform
	i    int
	born time.Time
}

func (a *fakeNode) exit(err error) {
	select {
	case <-a.over:
	default:
		a.end(err)
	}
}
func (a *fakeNode) stop()              { a.note("stop %d", a.i); a.exit(nil) }
func (a *fakeNode) kill()              { a.note("kill %d", a.i); a.exit(nil) }
func (a *fakeNode) setShare(s float64) { a.note("share %d %v", a.i, s) }
func (a *fakeNode) status(context.Context) (node.Status, error) {
	alive := 0
	for _, other := range a.nodes {
		select {
		case <-other.over:
		default:
			alive++
		}
	}
	if a.ends > 0 && time.Since(a.begun) > a.ends {
		a.exit(nil)
	}
	s := node.Status{Crawl: crawl.Stats{Pages: int64(10 * a.i)},
		Overlay: &node.OverlayStatus{Alive: alive, Accuracy: 0.1, Batch: placement.Status{Phase: placement.PhaseIdle}}}
	s.Frontier.Paused = a.paused
	switch a.apart {
	case "join":
		s.Overlay.Alive = 1
	case "call":
		s.Crawl.Pages, s.Overlay.Calls.Failures = 0, map[string]uint64{peer.KindUnavailable: 3}
	}
	if a.batches {
		s.Overlay.Batch.Batches = 1
		if time.Since(a.born) < 20*time.Second {
			s.Overlay.Batch.Phase = placement.PhaseDecide
		}
	}
	return s, nil
}

// play runs a scenario on a fakePlatform.
func play(t *testing.T, text string, ctx context.Context, b *fakePlatform) (*run, string, error) {
	t.Helper()
	var out bytes.Buffer
	b.dir = t.TempDir()
	r := &run{plan: draw(t, parsed(t, text), 1), dir: b.dir, platform: b, out: terminal.New(&out)}
	for i := range r.plan.Nodes {
		if err := os.MkdirAll(filepath.Join(r.nodeDir(i), "logs"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if b.apart != "" {
		r.plan.RTTMs = nil
	}
	b.begun = time.Now()
	err := r.execute(ctx)
	return r, out.String(), err
}

const twoNodes = `length = "1m"
[[nodes]]
name = "a"
[[nodes]]
name = "b"
count = 2
[[sites]]
name = "w"
`

// event is the text of an event with more keys.
func event(at, kind string, keys ...string) string {
	return fmt.Sprintf("[[events]]\nat='%s'\nkind='%s'\n%s\n", at, kind, strings.Join(keys, "\n"))
}

func TestEventsHappenAtTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakePlatform{}
		r, out, err := play(t, twoNodes+event("10s", "bandwidth", "busiest_of='b'", "factor=0.2")+event("20s", "cpu", "busiest_of='b'", "factor=0.2")+
			event("25s", "slow", "server='w'", "add_ms=5000.0")+event("30s", "kill", "node='a'")+event("40s", "restart", "node='a'")+
			event("45s", "partition", "nodes=['a']")+event("50s", "heal"), t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		// Half a second passes until the nodes are seen up. Of the two nodes in group b, the second has more pages.
		hit := r.plan.Nodes[2]
		want := []string{"0s start 0", "0s start 1", "0s start 2", fmt.Sprintf("11s bandwidth %v %v %v", hit.Addr, hit.Up*0.2, hit.Down*0.2),
			"21s share 2 0.2", fmt.Sprintf("26s slow %v 5s", r.plan.Servers[0].Addr), "31s kill 0", "41s start 0",
			fmt.Sprintf("46s partition [%v] 2", r.plan.Nodes[0].Addr), "51s partition [] 3", "1m1s stop 0", "1m1s stop 1", "1m1s stop 2"}
		if !slices.Equal(b.log, want) {
			t.Errorf("it went\n%q, want\n%q", b.log, want)
		}
		w, err := rundir.ReadWorld(r.dir)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for i, e := range w.Events {
			kinds = append(kinds, e.Kind)
			if planned := r.plan.Scenario.Events[i].At.Seconds(); math.Abs(e.AtS-planned) > 1.01 || e.AtS < planned {
				t.Errorf("event %s at %v, planned at %v", e.Kind, e.AtS, planned)
			}
		}
		if want := []string{"bandwidth", "cpu", "slow", "kill", "restart", "partition", "heal"}; !slices.Equal(kinds, want) {
			t.Errorf("the world knows of %q", kinds)
		}
		if e := w.Events[1]; e.Node != "b-2" || e.AddMs != micro(loadMs(0.2)) {
			t.Errorf("burnt: %+v", e)
		}
		if e := w.Events[2]; e.Server != r.plan.Servers[0].Addr || e.AddMs != 5000 {
			t.Errorf("slowed: %+v", e)
		}
		says(t, out, "b-2: bandwidth ÷ 5", "w: +5 s", "3 of 3 nodes up", "2 of 3 nodes up",
			"coordinate error 10 %", "the length of the scenario is over", "NOT TO BE TRUSTED: 7 packets were dropped unplanned")
	})
}

func TestARunEndsWithTheCrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakePlatform{ends: 30 * time.Second}
		if _, out, err := play(t, twoNodes, t.Context(), b); err != nil || !strings.Contains(out, "ended by itself") {
			t.Errorf("%v\n%s", err, out)
		}
		if took := time.Since(b.begun); took > 35*time.Second {
			t.Errorf("it took %v", took)
		}
	})
	// Events that come too late are left out, and said to be. A restart brings a node back that may have URLs.
	for event, length := range map[string]time.Duration{event("50s", "slow", "server='w'", "add_ms=5000.0"): 35 * time.Second,
		event("45s", "restart", "node='a'"): 50 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := &fakePlatform{ends: 30 * time.Second}
			_, out, err := play(t, twoNodes+event, t.Context(), b)
			if late := strings.Contains(out, "ended by itself: nothing was left to do; 1 of the events would have come later"); err != nil || late != (length < 45*time.Second) {
				t.Errorf("%v\n%s", err, out)
			}
			if took := time.Since(b.begun); took > length {
				t.Errorf("%s took %v", event, took)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := &fakePlatform{batches: true}
		_, out, err := play(t, "until = \"batches\"\n"+twoNodes, t.Context(), b)
		if err != nil || !strings.Contains(out, "all batches are handed off") {
			t.Errorf("%v\n%s", err, out)
		}
		if took := time.Since(b.begun); took < 30*time.Second || took > 34*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestProgressSaysWhyNothingIsCrawled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, out, err := play(t, twoNodes, t.Context(), &fakePlatform{ends: 30 * time.Second, paused: "disk full"})
		if err != nil {
			t.Fatal(err)
		}
		says(t, out, "paused: disk full · 3 of 3 nodes up")
	})
}

// TestMachinesApart: a firewall between real machines is told long before the scenario's length is over, and what must pass it.
func TestMachinesApart(t *testing.T) {
	const ports = " (a firewall? all machines need each other's port 7946 for TCP and UDP, and 7947 for TCP)"
	long := strings.Replace(twoNodes, "1m", "3m", 1)
	synctest.Test(t, func(t *testing.T) {
		b := &fakePlatform{apart: "join"}
		_, _, err := play(t, long, t.Context(), b)
		if err == nil || time.Since(b.begun) > 65*time.Second || !strings.Contains(err.Error(), "knows only 1 of 3"+ports) {
			t.Errorf("after %v: %v", time.Since(b.begun), err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		_, out, err := play(t, long, t.Context(), &fakePlatform{apart: "call"})
		if err != nil || strings.Count(out, "\n 1:00  no page yet: 3 of 3 nodes cannot call others"+ports+"\n") != 1 {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func TestAFailingNodeIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakePlatform{}
		time.AfterFunc(20*time.Second, func() {
			path := filepath.Join(b.dir, rundir.NodesFolder, "b-1", outputFile)
			if err := os.WriteFile(path, []byte("one\ntwo\nthree\nfour\nfive\nsix: no space left\n"), 0o600); err != nil {
				t.Error(err)
			}
			b.nodes[1].exit(errors.New("exit status 1"))
		})
		_, _, err := play(t, twoNodes, t.Context(), b)
		if err == nil {
			t.Fatal("no error")
		}
		says(t, err.Error(), "node b-1 failed: exit status 1", "six: no space left", "two")
		if strings.Contains(err.Error(), "one") {
			t.Errorf("more than the last lines:\n%v", err)
		}
		if last := strings.Join(b.log[len(b.log)-2:], " "); !strings.Contains(last, "stop 0") || !strings.Contains(last, "stop 2") {
			t.Errorf("the others are not stopped: %q", b.log)
		}
	})
}

func TestCtrlCStopsAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(15*time.Second, cancel)
		b := &fakePlatform{}
		r, out, err := play(t, twoNodes, ctx, b)
		if !errors.Is(err, context.Canceled) || time.Since(b.begun) > 16*time.Second {
			t.Errorf("%v after %v", err, time.Since(b.begun))
		}
		for _, a := range b.nodes {
			select {
			case <-a.over:
			default:
				t.Errorf("node %d is left", a.i)
			}
		}
		bed, err := rundir.ReadTestbed(r.dir)
		if err != nil {
			t.Errorf("what was known is not written down: %v", err)
		}
		const broken = "the run of nearest was broken off after 15s of at most 1m0s"
		says(t, strings.Join(bed.Why, "; "), broken)
		says(t, out, broken)
	})
	// With -keep Ctrl-C is the end of a run whose length is over, and of no other.
	for at, broken := range map[time.Duration]bool{30 * time.Second: true, 90 * time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			r := &run{plan: draw(t, parsed(t, twoNodes), 1), dir: t.TempDir(), keep: true, platform: &fakePlatform{begun: time.Now()}, out: terminal.New(io.Discard)}
			_ = r.execute(ctx)
			if bed, err := rundir.ReadTestbed(r.dir); err != nil || strings.Contains(strings.Join(bed.Why, "; "), "broken off") != broken {
				t.Errorf("%v, broken off after %v: %q", err, at, bed.Why)
			}
		})
	}
}

// stubborn is a node that ends only when it is killed.
type stubborn struct{ *fakeNode }

func (s stubborn) stop() { s.note("stop %d", s.i) }
func (s stubborn) kill() { time.AfterFunc(time.Second, s.fakeNode.kill) }

// TestOnlyWhoDoesNotStopIsKilled: the others have ended while the run waited.
func TestOnlyWhoDoesNotStopIsKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &fakePlatform{begun: time.Now()}
		r := &run{plan: &Plan{}, pages: make([]int64, 20)}
		var all []*fakeNode
		for i := range r.pages {
			a := &fakeNode{ending: newEnding(), fakePlatform: b, i: i}
			all = append(all, a)
			r.plan.Nodes = append(r.plan.Nodes, PlannedNode{Node: rundir.Node{Name: fmt.Sprint("n", i)}})
			if r.running = append(r.running, a); i == 3 || i == 5 {
				r.running[i] = stubborn{a}
			}
		}
		err := r.stop()
		want := "node n3 did not stop within 20s and was killed\nnode n5 did not stop within 20s and was killed"
		if err == nil || err.Error() != want {
			t.Errorf("%v, want\n%s", err, want)
		}
		for i, a := range all {
			select {
			case <-a.done():
			default:
				t.Errorf("node %d runs on", i)
			}
		}
	})
}

func TestPagesOfEarlierLivesCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, out, err := play(t, twoNodes+event("20s", "kill", "node='b-2'"), t.Context(), &fakePlatform{})
		if err != nil {
			t.Fatal(err)
		}
		says(t, out, "3 of 3 nodes up · 30 pages", "2 of 3 nodes up · 30 pages")
	})
}

// TestRunBesideItsModel: where downloads take other times than those of the model, choices are judged by a truth that was not there.
func TestRunBesideItsModel(t *testing.T) {
	exact := emulate.Stats{Emulation: emulate.Portable}
	for median, why := range map[float64]string{
		0.7:  "an ordinary client took 0.70 times the time of the model, by which choices are judged; 0.80 to 1.25 are allowed",
		0.85: "", 1: "", 1.2: "",
		1.53: "an ordinary client took 1.53 times the time of the model, by which choices are judged; 0.80 to 1.25 are allowed",
	} {
		q := quality(exact, []float64{median / 2, median, 2 * median})
		if q.Trusted != (why == "") || strings.Join(q.Why, "") != why || q.CalibrationP50 != median {
			t.Errorf("%v times the model: %+v", median, q)
		}
	}
	if q := quality(exact, nil); !q.Trusted {
		t.Errorf("without a download nothing is known against it: %+v", q)
	}
}

// TestWaitsThatNobodyMeasured: nothing is said of waits for a core where the emulation or the kernel does not measure them.
func TestWaitsThatNobodyMeasured(t *testing.T) {
	for wait, want := range map[time.Duration]bool{0: false, 3 * time.Millisecond: true} {
		var out bytes.Buffer
		r := &run{out: terminal.New(&out)}
		r.printQuality(quality(emulate.Stats{Emulation: emulate.Portable, WaitP99: wait}, nil))
		if got := strings.Contains(out.String(), "waited for a core"); got != want || !strings.Contains(out.String(), "cores busy") {
			t.Errorf("waits of %v:\n%s", wait, &out)
		}
	}
}

// TestLoadOfTheMachine: the load that a portable run tells is that of the machine, whatever runs there, not that of its own process.
func TestLoadOfTheMachine(t *testing.T) {
	idle, total, err := emulate.Ticks()
	if err != nil {
		t.Skip(err)
	}
	since := &portable{began: time.Now().Add(-time.Hour)} // of all time since the machine began, of which this process has used nothing
	if got, want := since.busy(time.Hour, 1), 1-idle/total; math.Abs(got-want) > .01 {
		t.Errorf("busy %.3f, the machine %.3f", got, want)
	}
}
