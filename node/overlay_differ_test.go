package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/crawl"
	"proxima/node/peer"
	"proxima/node/placement"
	"proxima/node/runlog"
)

// Nodes whose configurations differ.

// The crawl goes on at all nodes while one of them never ends or is paused, whichever that is, and the node that asks the others says why.
func TestOverlayGoesOnForOneNode(t *testing.T) {
	for what, c := range map[string]struct {
		never   int // a node; -1 for none
		because string
	}{
		"the first never ends": {0, `its crawl.end is "never"`},
		"the last never ends":  {2, `its crawl.end is "never"`},
		"the owner is paused":  {-1, "it downloads no page now: paused by its operator"},
	} {
		t.Run(what, func(t *testing.T) {
			inBed(t, square()[:3], func(b *bed) {
				b.cfg = func(i int, n *node.Config) {
					if i == c.never {
						n.Crawl.End = crawl.EndNever
					}
				}
				b.sitesBeside(1, 10, 1)
				b.startAll(time.Second)
				if c.never < 0 {
					b.awaitPages(3)
					must(t, b.operator(b.ownerOf(b.sites[0])).Pause("ann"))
				}
				b.await("a reason", 10*time.Minute, func() bool { return strings.Contains(b.nodes[0].node.Status().Overlay.End, c.because) })
				time.Sleep(10 * time.Minute)
				for i, n := range b.nodes {
					if n.hasEnded() {
						t.Errorf("%s ended as %q", b.name(i), n.end.Reason)
					}
				}
			})
		})
	}
}

// Each node chooses owners in its own way. No host travels to and fro, no page is downloaded twice, and the crawl ends.
func TestOverlayOfDifferentAssigners(t *testing.T) {
	inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
		const perSite = 100
		b.cfg = func(i int, c *node.Config) {
			c.Batch.Assigners = []string{[]string{"nearest", "random", "geographic", "nearest", "hash"}[i]}
			if i == 3 {
				c.Batch.Mode, c.Assign.Nearest.Estimates = placement.ModeCrawl, 1
			}
		}
		for i := range 15 { // some share a server, which one of their homes leases
			b.site(b.homed(i%5), address(i%12), beside(b.nodes[i%3*2].at), perSite, 5000)
		}
		b.startAll(80 * time.Second)
		b.awaitEnd(time.Hour)
		b.complete(perSite, false)
		for _, s := range b.sites {
			if moves, _ := b.turns(s, b.began); moves > 4 {
				t.Errorf("%s moved %d times: %v", s, moves, b.by(s, b.began))
			}
		}
	})
}

// A node of another version of the peer protocol, which would be home and grantor and answer no call, is no member, and the log says so.
func TestOverlayOfTwoVersions(t *testing.T) {
	for label, same := range map[string]bool{"crawl": false, fmt.Sprint("crawl v", peer.Version+1): false, fmt.Sprint("crawl v", peer.Version): true} {
		inBed(t, square()[:3], func(b *bed) {
			b.sitesBeside(3, 30, 1)
			b.startAll(80 * time.Second)
			b.lie(label)
			time.Sleep(time.Second)
			alive, said := b.nodes[0].node.Status().Overlay.Alive, fmt.Sprint(b.events(0).of(runlog.EventWarning).reasons())
			if (alive == 4) != same || strings.Contains(said, "it is of another run, version or member.faster") == same {
				t.Errorf("with a node with the label %q there are %d, and it is said: %s", label, alive, said)
			}
		})
	}
}

// One after the other each node gets live keys and then, in its next life, another limit, number of nodes, assigner and memory. Next to nothing is
// asked for twice, and as many pages as the new limit says, though the old one was all but reached.
func TestOverlayIsReconfigured(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		const old, raised = 450, 700
		next := map[int]bool{}
		b.cfg = func(i int, c *node.Config) {
			c.Batch.Mode, c.Politeness.MinGap, c.Crawl.MaxPages = placement.ModeCrawl, 2*time.Second, old
			if next[i] {
				c.Crawl.MaxPages, c.Termination.ExpectedNodes, c.Crawl.Fetchers, c.Node.MemoryMiB = raised, 3+i%2, 4, 96
				c.Batch.Mode, c.Batch.Assigners = placement.ModeCycle, []string{[]string{"random", "hash"}[i%2]} // neither asks for estimates
			}
		}
		b.seeds = func(int) []string { return b.fronts() }
		b.sitesBeside(12, 100, 1000)
		b.startAll(2 * time.Second)
		b.awaitPages(150)
		for i := range b.nodes {
			must(t, b.operator(i).Set(b.t.Context(), "politeness.min_gap", "1s", "ann"))
			must(t, b.operator(i).Set(b.t.Context(), "crawl.fetchers", "2", "ann"))
			time.Sleep(2 * time.Second)
			b.leave(i)
			next[i] = true
			b.start(i)
			time.Sleep(3 * time.Second)
			t.Logf("%d pages when %s has its new limit", len(pages(b.Visits(nil))), b.name(i))
		}
		b.endBy("max_pages")
		if n := len(pages(b.Visits(nil))); n != raised {
			t.Errorf("%d pages are asked for, not %d", n, raised)
		}
		again := 0
		for _, n := range b.got() {
			again += n - 1
		}
		if again > len(b.nodes) { // the page that a node has just had when it stops may not be at the replica yet
			t.Errorf("%d pages came again", again)
		}
	})
}

// TestOverlayFirstNode: where all nodes have one configuration, the first one has its own address to join. It begins as soon as one that has
// none, and looks for nobody.
func TestOverlayFirstNode(t *testing.T) {
	inBed(t, square()[:1], func(b *bed) {
		b.cfg = func(i int, c *node.Config) { c.Member.Join = []string{b.gossipAt(i)} }
		b.sitesBeside(1, 20, 1)
		b.start(0)
		b.await("the first page", 14*time.Second, func() bool { return len(b.pagesOf("s0.example")) > 0 })
		b.awaitEnd(5 * time.Minute)
		for _, e := range b.events(0).of(runlog.EventWarning) {
			if why, _ := e.Attrs[runlog.KeyReason].(string); strings.Contains(why, "member.join") {
				t.Errorf("it says: %s", why)
			}
		}
	})
}

// TestOverlayOfOneAlone: a node that has crawled alone goes on as the first of an overlay. Its hosts are shared with the others: each page is
// crawled once.
func TestOverlayOfOneAlone(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		alone := true
		b.cfg = func(_ int, c *node.Config) {
			if alone {
				c.Peer.Secret, c.Peer.Listen, c.Member.Join, c.Termination.ExpectedNodes = "", "127.0.0.1:7947", nil, 1
			}
		}
		b.seeds = func(i int) []string {
			if i == 0 {
				return []string{"http://hub.example/"} // it alone leads to the others
			}
			return nil
		}
		b.sitesBeside(6, 60, 1)
		b.site("hub.example", address(6), b.nodes[1].at, 0, 1)
		b.Site("hub.example", address(6)).Page("/", b.fronts()...)
		b.start(0)
		b.awaitPages(100)
		b.kill(0)
		alone = false
		b.startAll(2 * time.Second)
		b.awaitEnd(time.Hour)
		if n := b.got()["hub.example/"]; n != 1 {
			t.Errorf("a page that was done before is downloaded %d times", n)
		}
		b.sites = b.sites[:6]
		if again := b.complete(60, true); again > 8 {
			t.Errorf("%d pages are downloaded again, which is more than were under way", again)
		}
	})
}

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
