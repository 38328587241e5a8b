package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/peer"
	"proxima/node/placement"
	"proxima/node/runlog"
)

// Nodes are replaced one by one by those of the next version of the peer protocol, which do not hear the others.

// upgrading is an overlay of five in the middle of that.
type upgrading struct {
	*bed
	next map[int]bool  // the nodes of the next version
	both time.Duration // for how long nodes of both versions have seen a majority
}

// deciding says for each version whether nodes of it see a majority.
func (u *upgrading) deciding() (sides map[bool]bool) {
	sides = map[bool]bool{}
	for i, n := range u.nodes {
		if !n.dead.Load() && !n.hasEnded() && n.node.Status().Overlay.Majority {
			sides[u.next[i]] = true
		}
	}
	return sides
}

// pass lets time pass. Only one version may have a majority, but for as long as a node counts that has just died: its leases last no longer.
func (u *upgrading) pass(d time.Duration) {
	u.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
		if len(u.deciding()) < 2 {
			u.both = 0
		} else if u.both += time.Second; u.both == 20*time.Second {
			u.t.Errorf("after %v both versions have a majority", u.since(time.Now()))
		}
	}
}

// upgrade stops a node, or kills it, and starts it again on the same directory.
func (u *upgrading) upgrade(i int, stop func(i int)) {
	u.t.Helper()
	stop(i)
	u.pass(3 * time.Second)
	u.next[i] = true
	u.start(i)
	u.pass(5 * time.Second)
}

// While an overlay is upgraded node by node, at once or with a pause, the nodes of one version crawl and the others wait, and say for whom. Each
// node is given the seeds at each start. When the last node is upgraded, all crawl what is left, and next to nothing twice.
func TestOverlayIsUpgraded(t *testing.T) {
	const perSite, pause = 100, 15 * time.Minute // longer than dead nodes vote
	for what, c := range map[string]struct {
		first  int           // how many nodes are upgraded before a pause; 0 for none
		gap    time.Duration // between the pages of a site: whether all are there when the pause ends
		killed bool          // as by a power cut: such nodes still have their votes
		works  bool          // the next version crawls in the pause
	}{
		"at once":                       {0, 2 * time.Second, false, false},
		"two before a pause, killed":    {2, 10 * time.Second, true, false},
		"three before a pause":          {3, 2 * time.Second, false, false},
		"three before a pause, killed ": {3, 10 * time.Second, true, true},
	} {
		t.Run(what, func(t *testing.T) {
			inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
				u := &upgrading{bed: b, next: map[int]bool{}}
				b.cfg = func(i int, n *node.Config) {
					if n.Politeness.MinGap = c.gap; !c.killed {
						n.Batch.Mode = placement.ModeCrawl // downloads of others that are under way when a node stops would come again
					}
					if u.next[i] {
						n.Hasten(1.000001) // it is in the label of the gossip like the version, and so little changes nothing else
					}
				}
				b.seeds = func(int) []string { return b.fronts() }
				b.sitesBeside(8, perSite, 1000)
				b.startAll(2 * time.Second)
				b.calm()
				stop := b.leave
				if c.killed {
					stop = b.kill
				}
				for i := range b.nodes {
					if i == c.first && i > 0 {
						u.pass(pause / 2)
						began := time.Now()
						u.pass(pause / 2)
						u.judge(c.works, began)
					}
					u.upgrade(i, stop)
				}
				b.awaitEnd(3 * time.Hour)
				again := b.complete(perSite, true)
				t.Logf("ended after %v, %d pages came again", b.since(time.Now()), again)
				if !c.killed && again > len(b.nodes) { // the page that a node has just had when it stops may not be at the replica yet
					t.Error("too many")
				}
			})
		})
	}
}

// judge looks at the end of a pause: which version has crawled since a time, and what the nodes of the other one say.
func (u *upgrading) judge(works bool, since time.Time) {
	u.t.Helper()
	deciders, crawled := 0, 0
	for i, n := range u.nodes {
		asked := len(u.Visits(func(v Visit) bool { return v.From == u.name(i) && v.Start.After(since) }))
		s, said := n.node.Status().Overlay, fmt.Sprint(u.events(i).of(runlog.EventWarning).reasons())
		switch {
		case n.hasEnded() && !u.next[i]:
		case (u.next[i] == works) != s.Majority, !s.Majority && asked > 0:
			u.t.Errorf("%s has a majority: %v, and asked for %d pages", u.name(i), s.Majority, asked)
		case !s.Majority && !strings.Contains(s.Reason, "those of another version"):
			u.t.Errorf("%s says %q", u.name(i), s.Reason)
		case !u.next[i] && !strings.Contains(said, fmt.Sprintf("it says \"crawl v%d ", peer.Version)):
			u.t.Errorf("%s said %s", u.name(i), said)
		}
		crawled += asked
		if s.Majority && !n.hasEnded() {
			deciders++
		}
	}
	if deciders > 0 && crawled == 0 {
		u.t.Error("nobody crawls")
	}
}
