package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/placement"
)

// Acts of operators on an overlay of five whose nodes die: a bystander before the act, who is told just after it. Both come
// back. What an act promises (docs/console.md) holds then, and the log of the node has it once.

const (
	// late is a site that no seed names.
	late = "late.example"
	// twin is on the server of the first site, and has its home.
	twin = "www.s0.example"
	// actPages is how many pages a site has: enough that most are left when nodes have died and come back.
	actPages = 60
)

// acting is an overlay of five with eight sites, when it has crawled some. Hosts stay with their homes.
func acting(t *testing.T, test func(b *bed)) {
	inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
		b.cfg = func(_ int, c *node.Config) {
			c.Batch.Mode, c.Frontier.MinFreeMiB = placement.ModeCrawl, 20
			c.Member.Join = []string{netsim.GossipAt(0), netsim.GossipAt(1)}
		}
		b.sitesBeside(8, actPages, 1)
		b.site(late, address(8), beside(b.nodes[0].at), actPages, 1)
		b.site(twin, address(0), beside(b.nodes[0].at), actPages, 1)
		b.sites = append(b.sites[:8], twin)
		b.startAll(2 * time.Second)
		b.awaitPages(50)
		test(b)
	})
}

// calm waits until hosts have followed their homes, and all links have arrived.
func (b *bed) calm() {
	b.t.Helper()
	b.await("all nodes settled", 2*time.Minute, func() bool {
		return !slices.ContainsFunc(b.nodes, func(n *bedNode) bool { return n.node.Status().Overlay.Settled != len(b.nodes) })
	})
	time.Sleep(20 * time.Second)
}

// actAndDie kills a bystander, has a node act, kills it at once, and starts both again.
func (b *bed) actAndDie(actor int, act func(o *node.Operator) error) {
	b.t.Helper()
	bystander := (actor + 2) % len(b.nodes)
	b.kill(bystander)
	must(b.t, act(b.operator(actor)))
	b.kill(actor)
	time.Sleep(5 * time.Second)
	b.start(bystander)
	b.start(actor)
	b.await("all nodes", 5*time.Minute, func() bool {
		return !slices.ContainsFunc(b.nodes, func(n *bedNode) bool {
			o := n.node.Status().Overlay
			return o.Alive != len(b.nodes) || !o.Majority
		})
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

// acted looks for an act in the log of the node that did it.
func (b *bed) acted(actor int, act string, times int) {
	b.t.Helper()
	acts := slices.DeleteFunc(b.events(actor).actsOf("ann"), func(why string) bool { return !strings.HasPrefix(why, act) })
	if len(acts) != times {
		b.t.Errorf("the log of %s has %q, want %d about %s", b.name(actor), acts, times, act)
	}
}

// finish waits until all pages are crawled.
func (b *bed) finish() {
	b.t.Helper()
	b.awaitEnd(3 * time.Hour)
	b.complete(actPages, true)
}

// A node that is paused stays so over its death, and its hosts stay with it; the others go on. It resumes for good, too.
func TestOverlayActsPause(t *testing.T) {
	acting(t, func(b *bed) {
		b.calm()
		actor := b.ownerOf("s0.example")
		var paused time.Time
		b.actAndDie(actor, func(o *node.Operator) error {
			paused = time.Now()
			return o.Pause("ann")
		})
		time.Sleep(5 * time.Minute)
		none(b.t, b.Visits(nil), "though it was paused", func(v Visit) bool { return v.From == b.name(actor) && v.Start.After(paused.Add(time.Second)) })
		if why := b.nodes[actor].node.Status().Frontier.Paused; !strings.Contains(why, "paused by its operator") {
			b.t.Errorf("its status says %q", why)
		}
		b.actAndDie(actor, func(o *node.Operator) error { return o.Resume("ann") })
		b.finish()
		b.acted(actor, "pause", 1)
		b.acted(actor, "resume", 1)
	})
}

// Seeds that were added belong to the crawl of all, whoever dies. A host of theirs that waits for an hour is asked soon after it was told to
// be, though its owner died at once.
func TestOverlayActsSeeds(t *testing.T) {
	acting(t, func(b *bed) {
		var well atomic.Bool
		site := b.Site(late, address(8)).Took(20 * time.Millisecond).Pages(actPages)
		site.Handle("/", func(out http.ResponseWriter, r *http.Request) {
			if answer := Status(http.StatusServiceUnavailable, "Retry-After", "3600"); !well.Load() {
				answer(out, r)
			} else {
				html(numbered(actPages)...)(out, r)
			}
		})
		b.actAndDie(1, func(o *node.Operator) error {
			refused, err := o.AddSeeds(b.t.Context(), seeds(b.t, "http://"+late+"/"), "ann")
			if len(refused) > 0 {
				err = fmt.Errorf("refused: %v", refused)
			}
			return err
		})
		b.await("the first try", 10*time.Minute, func() bool { return site.Count("/") > 0 })
		time.Sleep(5 * time.Second)
		well.Store(true)
		owner := b.ownerOf(late)
		b.actAndDie(owner, func(o *node.Operator) error { return o.Retry(b.t.Context(), late, "ann") })
		b.await("the second try", 5*time.Minute, func() bool { return site.Count("/") >= 2 })
		b.sites = append(b.sites, late)
		b.finish()
		b.acted(1, "add seeds", 1)
		b.acted(owner, "retry", 1)
	})
}

// What was dropped stays dropped when its owner comes back, and when it does not.
func TestOverlayActsDrop(t *testing.T) {
	acting(t, func(b *bed) {
		drop := func(site string) func(o *node.Operator) error {
			return func(o *node.Operator) error {
				dropped, err := o.Drop(b.t.Context(), site, "ann")
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
		must(b.t, drop(site)(b.operator(owner)))
		time.Sleep(5 * time.Second) // the node that has the replica knows
		b.kill(owner)
		later := time.Now()
		b.awaitEnd(3 * time.Hour)
		none(b.t, pages(b.Visits(nil)), "though it was dropped", func(v Visit) bool {
			return v.Site == first && v.Start.After(at) || v.Site == site && v.Start.After(later)
		})
	})
}

// A host is moved to the member that is named, with the others of its server. They are there though the node that gave them died, and then the
// one that got them.
func TestOverlayActsMove(t *testing.T) {
	acting(t, func(b *bed) {
		b.await("both hosts of the server at one node", 5*time.Minute, func() bool {
			return len(b.pagesOf(twin)) > 0 && slices.ContainsFunc(b.nodes, func(n *bedNode) bool {
				return n.node.Owns("http://s0.example") && n.node.Owns("http://"+twin)
			})
		})
		b.calm()
		owner := b.ownerOf("s0.example")
		to := (owner + 1) % 5
		id := func(i int) string { return b.nodes[i].node.ID().Node }
		for _, c := range []struct{ host, to string }{{"s0.example", ""}, {"s0.example", "zz"}, {"s0.example", id(owner)}, {"nobody.example", id(to)}} {
			if moved, err := b.operator(owner).Move(b.t.Context(), c.host, c.to, "bob"); err == nil {
				b.t.Errorf("%s moved to %q: %v", c.host, c.to, moved)
			}
		}
		b.actAndDie(owner, func(o *node.Operator) error {
			moved, err := o.Move(b.t.Context(), "s0.example", id(to), "ann")
			if got := strings.Join(moved, " "); err == nil && got != "http://s0.example http://"+twin {
				err = fmt.Errorf("moved: %s", got)
			}
			return err
		})
		for _, site := range []string{"s0.example", twin} {
			if now := b.ownerOf(site); now != to {
				b.t.Errorf("%s crawls %s, not %s", b.name(now), site, b.name(to))
			}
		}
		b.kill(to)
		time.Sleep(5 * time.Second)
		b.start(to)
		b.finish()
		b.acted(owner, "move to "+id(to), 2)
	})
}

// A key that was set holds for one life of one node; one that the file has again holds for the next.
func TestOverlayActsSet(t *testing.T) {
	acting(t, func(b *bed) {
		gap := func(i int) string { return b.nodes[i].node.Live().Politeness.MinGap.String() }
		must(b.t, b.operator(1).Set(b.t.Context(), "politeness.min_gap", "7s", "ann"))
		if changed, refused, err := b.operator(0).Reload(b.t.Context(), "ann"); len(changed)+len(refused) > 0 || err != nil {
			b.t.Errorf("a file that has not changed: %q, %q, %v", changed, refused, err)
		}
		b.kill(3)
		if gap(1) != "7s" || gap(0) == "7s" {
			b.t.Errorf("gaps %s and %s", gap(1), gap(0))
		}
		b.start(3)
		b.actAndDie(1, func(o *node.Operator) error { return o.Set(b.t.Context(), "politeness.min_gap", "9s", "ann") })
		if gap(1) != gap(0) {
			b.t.Errorf("gaps %s and %s after a start", gap(1), gap(0))
		}
		b.finish()
		b.acted(1, "set politeness.min_gap", 2)
	})
}

// The secret is rotated to its end while nodes die at each step: all are in the overlay with the new one, those too that slept through a step.
func TestOverlayActsRotate(t *testing.T) {
	acting(t, func(b *bed) {
		for step := range 3 {
			b.actAndDie(step, func(o *node.Operator) error {
				_, err := o.RotateSecret("ann")
				return err
			})
			b.await("the secret everywhere", time.Minute, func() bool {
				return !slices.ContainsFunc(b.nodes, func(n *bedNode) bool {
					return n.node.Status().Overlay.Secret != b.nodes[0].node.Status().Overlay.Secret
				})
			})
			b.acted(step, "rotate secret", 1)
		}
		if says := b.nodes[0].node.Status().Overlay.Secret; strings.Contains(says, ",") {
			b.t.Errorf("two secrets at the end: %s", says)
		}
		b.finish()
	})
}

// TestOverlayActsWithoutRoom: a node that can write nothing says so to its operator at once.
func TestOverlayActsWithoutRoom(t *testing.T) {
	acting(t, func(b *bed) {
		host := b.sites[1]
		owner := b.ownerOf(host)
		o := b.operator(owner)
		b.nodes[owner].full.Store(4)
		b.await("a full disk", time.Minute, func() bool { return b.nodes[owner].node.Status().Frontier.Paused != "" })
		for what, act := range map[string]func(ctx context.Context) error{
			"drop":  func(ctx context.Context) error { _, err := o.Drop(ctx, host, "ann"); return err },
			"retry": func(ctx context.Context) error { return o.Retry(ctx, host, "ann") },
			"move": func(ctx context.Context) error {
				_, err := o.Move(ctx, host, netsim.ID((owner+1)%len(b.nodes)), "ann")
				return err
			},
			"add seeds": func(ctx context.Context) error {
				_, err := o.AddSeeds(ctx, seeds(b.t, "http://"+late+"/"), "ann")
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
			if err := act(ctx); !errors.Is(err, frontier.ErrDiskFull) {
				b.t.Errorf("%s: %v", what, err)
			}
			cancel()
		}
	})
}
