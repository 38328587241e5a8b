package node_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/placement"
	"proxima/node/runlog"
)

// Acts of operators on an overlay of five whose nodes die: a bystander before the act, who is told just after it. Both come
// back. What an act promises (docs/console.md) holds then, and the log of the node has it once.

const (
	// late is a site that no seed names.
	late = "late.example"
	// actPages is how many pages a site has: enough that most are left when nodes have died and come back.
	actPages = 60
)

// acting is an overlay of five with eight sites, when it has crawled some. Hosts stay with their homes.
func acting(t *testing.T, test func(b *bed)) {
	inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
		b.cfg = func(_ int, c *node.Config) {
			c.Batch.Mode = placement.ModeCrawl
			c.Member.Join = []string{netsim.GossipAt(0), netsim.GossipAt(1)}
		}
		for i := range 8 {
			b.site(fmt.Sprintf("s%d.example", i), address(i), beside(b.nodes[i%5].at), actPages, 1)
		}
		b.site(late, address(8), beside(b.nodes[0].at), actPages, 1)
		b.sites = b.sites[:8]
		b.startAll(2 * time.Second)
		b.await("pages", 10*time.Minute, func() bool { return len(b.Visits(nil)) > 50 })
		test(b)
	})
}

// actAndDie kills a bystander, has a node act, kills it at once, and starts both again.
func (b *bed) actAndDie(actor int, act func(n *node.Node) error) {
	b.t.Helper()
	bystander := (actor + 2) % len(b.nodes)
	b.kill(bystander)
	if err := act(b.nodes[actor].node); err != nil {
		b.t.Fatal(err)
	}
	b.kill(actor)
	time.Sleep(5 * time.Second)
	b.start(bystander)
	b.start(actor)
	b.await("all nodes", 5*time.Minute, func() bool {
		for _, n := range b.nodes {
			if o := n.node.Status().Overlay; o.Alive != len(b.nodes) || !o.Majority {
				return false
			}
		}
		return true
	})
}

// ownerOf is the node that crawls a site.
func (b *bed) ownerOf(site string) int {
	b.t.Helper()
	for i, n := range b.nodes {
		if n.node.Owns("http://" + site) {
			return i
		}
	}
	b.t.Fatalf("nobody owns %s", site)
	return 0
}

// acted counts the lines about an act in the log of a node.
func (b *bed) acted(i int, act string) (lines int) {
	b.t.Helper()
	for _, e := range logged[runlog.Event](b, i, runlog.LogNode) {
		if why, _ := e.Attrs[runlog.KeyReason].(string); e.Event == runlog.EventControl && strings.HasPrefix(why, act) && e.Attrs[runlog.KeyBy] == "ann" {
			lines++
		}
	}
	return lines
}

// finish waits until all pages are crawled, and looks for an act of a node in its log.
func (b *bed) finish(actor int, act string, times int) {
	b.t.Helper()
	b.awaitEnd(3 * time.Hour)
	b.complete(actPages, true)
	if n := b.acted(actor, act); n != times {
		b.t.Errorf("the log has %d lines about %s, not %d", n, act, times)
	}
}

// A node that is paused stays so over its death, and its hosts stay with it; the others go on. It resumes for good, too.
func TestOverlayActsPause(t *testing.T) {
	acting(t, func(b *bed) {
		actor := b.ownerOf("s0.example")
		var paused time.Time
		b.actAndDie(actor, func(n *node.Node) error {
			paused = time.Now()
			return n.Operator().Pause("ann")
		})
		time.Sleep(5 * time.Minute)
		for _, v := range b.Visits(nil) {
			if v.From == b.name(actor) && v.Start.After(paused.Add(time.Second)) {
				b.t.Errorf("%s asked for %s %v after it was paused", v.From, v.URL(), v.Start.Sub(paused))
			}
		}
		if why := b.nodes[actor].node.Status().Frontier.Paused; !strings.Contains(why, "paused by its operator") {
			b.t.Errorf("its status says %q", why)
		}
		b.actAndDie(actor, func(n *node.Node) error { return n.Operator().Resume("ann") })
		b.finish(actor, "pause", 1)
		b.finish(actor, "resume", 1)
	})
}

// Seeds that were added belong to the crawl of all, whoever dies.
func TestOverlayActsSeeds(t *testing.T) {
	acting(t, func(b *bed) {
		b.actAndDie(1, func(n *node.Node) error {
			refused, err := n.Operator().AddSeeds(b.t.Context(), seeds(b.t, "http://"+late+"/"), "ann")
			if len(refused) > 0 {
				err = fmt.Errorf("refused: %v", refused)
			}
			return err
		})
		b.sites = append(b.sites, late)
		b.finish(1, "add seeds", 1)
	})
}

// What was dropped stays dropped when its owner comes back, and when it does not.
func TestOverlayActsDrop(t *testing.T) {
	acting(t, func(b *bed) {
		drop := func(site string) func(n *node.Node) error {
			return func(n *node.Node) error {
				dropped, err := n.Operator().Drop(b.t.Context(), site, "ann")
				if err == nil && dropped == 0 {
					err = errors.New("nothing was dropped")
				}
				return err
			}
		}
		// The last node offers its seeds at each start, and a link to a host begins it again: neither it nor who dies with it acts.
		pick := func(not string) (string, int) {
			for _, site := range b.sites {
				if owner := b.ownerOf(site); site != not && owner != 2 && owner != 4 && len(b.pagesOf(site)) < actPages-5 {
					return site, owner
				}
			}
			b.t.Fatal("no site to drop")
			return "", 0
		}
		first, actor := pick("")
		b.actAndDie(actor, drop(first))
		at := time.Now()
		site, owner := pick(first)
		if err := drop(site)(b.nodes[owner].node); err != nil {
			b.t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // the node that has the replica knows
		b.kill(owner)
		later := time.Now()
		b.awaitEnd(3 * time.Hour)
		for _, v := range pages(b.Visits(nil)) {
			if v.Site == first && v.Start.After(at) || v.Site == site && v.Start.After(later) {
				b.t.Errorf("%s asked for %s after it was dropped", v.From, v.URL())
			}
		}
	})
}

// A host that waits for an hour is asked soon after it was told to be, though its owner died at once.
func TestOverlayActsRetry(t *testing.T) {
	acting(t, func(b *bed) {
		var well atomic.Bool
		b.Site(late, address(8)).Handle("/", func(out http.ResponseWriter, _ *http.Request) {
			if !well.Load() {
				out.Header().Set("Retry-After", "3600")
				out.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		if _, err := b.nodes[0].node.Operator().AddSeeds(b.t.Context(), seeds(b.t, "http://"+late+"/"), "bob"); err != nil {
			b.t.Fatal(err)
		}
		b.await("the first try", 10*time.Minute, func() bool { return len(b.pagesOf(late)) > 0 })
		time.Sleep(5 * time.Second)
		well.Store(true)
		owner := b.ownerOf(late)
		b.actAndDie(owner, func(n *node.Node) error { return n.Operator().Retry(b.t.Context(), late, "ann") })
		b.await("the second try", 5*time.Minute, func() bool { return len(b.pagesOf(late)) >= 2 })
		b.awaitEnd(3 * time.Hour)
		if n := b.acted(owner, "retry"); n != 1 {
			b.t.Errorf("the log has %d lines", n)
		}
	})
}

// A host that was moved is where it was moved to, though the node that gave it died, and then the one that got it.
func TestOverlayActsMove(t *testing.T) {
	acting(t, func(b *bed) {
		owner := b.ownerOf("s0.example")
		to := (owner + 1) % 5
		b.actAndDie(owner, func(n *node.Node) error {
			moved, err := n.Operator().Move(b.t.Context(), "s0.example", b.nodes[to].node.ID().Node, "ann")
			if err == nil && len(moved) != 1 {
				err = fmt.Errorf("moved: %q", moved)
			}
			return err
		})
		if now := b.ownerOf("s0.example"); now != to {
			b.t.Errorf("%s crawls it, not %s", b.name(now), b.name(to))
		}
		b.kill(to)
		time.Sleep(5 * time.Second)
		b.start(to)
		b.finish(owner, "move to "+b.nodes[to].node.ID().Node, 1)
	})
}

// A key that was set holds for one life of one node; one that the file has again holds for the next.
func TestOverlayActsSet(t *testing.T) {
	acting(t, func(b *bed) {
		gap := func(i int) string { return b.nodes[i].node.Live().Politeness.MinGap.String() }
		if err := b.nodes[1].node.Operator().Set(b.t.Context(), "politeness.min_gap", "7s", "ann"); err != nil {
			b.t.Fatal(err)
		}
		if changed, refused, err := b.nodes[0].node.Operator().Reload(b.t.Context(), "ann"); len(changed)+len(refused) > 0 || err != nil {
			b.t.Errorf("a file that has not changed: %q, %q, %v", changed, refused, err)
		}
		b.kill(3)
		if gap(1) != "7s" || gap(0) == "7s" {
			b.t.Errorf("gaps %s and %s", gap(1), gap(0))
		}
		b.start(3)
		b.actAndDie(1, func(n *node.Node) error { return n.Operator().Set(b.t.Context(), "politeness.min_gap", "9s", "ann") })
		if gap(1) != gap(0) {
			b.t.Errorf("gaps %s and %s after a start", gap(1), gap(0))
		}
		b.finish(1, "set politeness.min_gap", 2)
	})
}

// The secret is rotated to its end while nodes die at each step: all are in the overlay with the new one, those too that slept through a step.
func TestOverlayActsRotate(t *testing.T) {
	acting(t, func(b *bed) {
		for step := range 3 {
			b.actAndDie(step, func(n *node.Node) error {
				_, err := n.Operator().RotateSecret("ann")
				return err
			})
			b.await("the secret everywhere", time.Minute, func() bool {
				for _, n := range b.nodes {
					if n.node.Status().Overlay.Secret != b.nodes[0].node.Status().Overlay.Secret {
						return false
					}
				}
				return true
			})
			if n := b.acted(step, "rotate secret"); n != 1 {
				b.t.Errorf("the log has %d lines", n)
			}
		}
		if says := b.nodes[0].node.Status().Overlay.Secret; strings.Contains(says, ",") {
			b.t.Errorf("two secrets at the end: %s", says)
		}
		b.awaitEnd(3 * time.Hour)
		b.complete(actPages, true)
	})
}
