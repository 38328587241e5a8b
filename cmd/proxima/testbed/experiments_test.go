package testbed

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/node/runlog"
	"proxima/scripts/lab"
)

// decision is that of an assigner about one server.
type decision struct {
	at   time.Duration // since the run began
	node string
}

// experimentLength is how long an experiment takes. It ends while the node that was hit is still slow.
const experimentLength = 150 * time.Second

// experiment runs a kept scenario with one assigner on a fake clock and returns the decisions that were made.
func experiment(t *testing.T, name, assigner string) (w rundir.World, made []decision) {
	t.Helper()
	if testing.Short() {
		t.Skip("minutes of an overlay of whole nodes take some seconds even on a fake clock")
	}
	s := kept(t, name)
	s.Assigners, s.Events, s.Length = []string{assigner}, s.Events[:1], experimentLength
	dir, _ := whole(t, s, Options{})
	var err error
	if w, err = rundir.ReadWorld(dir); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, n := range draw(t, s, s.Seed).Nodes {
		names[n.ID] = n.Name
	}
	for _, n := range w.Nodes {
		var a runlog.Assign
		if _, err := lab.Lines(filepath.Join(dir, rundir.NodesFolder, n.Name, rundir.LogsFolder), runlog.LogAssign, &a, func() {
			if a.Decided {
				made = append(made, decision{a.Time.Sub(w.Started), names[a.Owner]})
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	return w, made
}

// stretch counts the decisions of a span of time, and those of them for a node.
type stretch struct{ its, all int }

func (s *stretch) add(made []decision, node string, from, until time.Duration) {
	for _, d := range made {
		if d.at >= from && d.at < until {
			s.all++
			if d.node == node {
				s.its++
			}
		}
	}
}

// share is the share of the node; of no decisions it is not a number.
func (s *stretch) share() float64 { return float64(s.its) / float64(s.all) }

// The American node that gets most is hit, and loses most of what it had: from 20 s on it keeps a sixth at most with a fifth of its
// bandwidth, and 0.30 to 0.47 in 12 runs with a fifth of its processor. Some servers are so near that it stays the best for them.
func TestTheNodeThatIsHitLosesItsAssignments(t *testing.T) {
	for name, runs := range map[string]int{"bandwidth": 1, "load": 4} {
		t.Run(name, func(t *testing.T) {
			var its, others, after stretch // what the nodes that were hit had, what they got when they were slow
			for range runs {
				w, made := experiment(t, name, "nearest")
				hit := w.Events[0] // each run hits the node that has most in it, which need not be the same
				at := time.Duration(hit.AtS * float64(time.Second))
				if !strings.HasPrefix(hit.Node, "america-") || at < 49*time.Second || at > 52*time.Second {
					t.Fatalf("hit: %+v", hit)
				}
				other := map[string]string{"america-1": "america-2", "america-2": "america-1"}[hit.Node]
				its.add(made, hit.Node, 0, at)
				others.add(made, other, 0, at)
				after.add(made, hit.Node, at+20*time.Second, experimentLength)
			}
			t.Logf("share of the node that was hit: %.2f before, %.2f from 20 s after", its.share(), after.share())
			if !(its.share() >= 0.35 && after.share() <= its.share()/2) {
				t.Errorf("share of the node that was hit: %.2f before, %.2f (of %d) from 20 s after", its.share(), after.share(), after.all)
			}
			if europe := 1 - its.share() - others.share(); !(europe <= 0.1) {
				t.Errorf("before, %.2f of the American servers went to Europe", europe)
			}
		})
	}
}

// comparisonSeed is that of a comparison in which the home is next to many servers.
const comparisonSeed = 655

var otherComparison = flag.Uint64("comparison", comparisonSeed, "`seed` of the comparison on a fake clock")

// A home gets the servers next to it, although its link is full of their pages until the batch begins: nearest chooses at 1.01 to 1.04 times
// the best (1.14 if the home is not measured anew). Other seeds are for measuring: where the home goes on crawling other hosts, its link
// stays full.
func TestTheHomeOfABatchGetsItsNeighbours(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes of an overlay of whole nodes take some seconds even on a fake clock")
	}
	s := kept(t, "comparison")
	s.Assigners = []string{"nearest", "random"}
	dir, _ := whole(t, s, Options{Seed: *otherComparison})
	r, table := compared(t, dir)
	t.Log(table)
	for _, a := range r.Assigners {
		if a.Name == "nearest" && *otherComparison == comparisonSeed && !(a.ChoiceRatio != nil && *a.ChoiceRatio < 1.09) {
			t.Error("the home did not get the servers next to it")
		}
	}
}
