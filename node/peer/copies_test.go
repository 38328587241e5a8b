package peer_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/wire"
)

// crowd is peers of which some are frozen, or gone, and which note what they are to keep.
type crowd struct {
	mu     sync.Mutex
	frozen map[string]bool
	gone   map[string]bool
	kept   map[string]int // links by peer
	got    map[string]int
}

func (c *crowd) deliver(ctx context.Context, to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	c.mu.Lock()
	frozen := c.frozen[to]
	c.mu.Unlock()
	if frozen {
		select {
		case <-time.After(20 * time.Second):
		case <-ctx.Done():
		}
		return nil, errors.New("no answer")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if req.Keep {
		c.kept[to] += len(req.Links)
	} else {
		c.got[to] += len(req.Links)
	}
	return accepts(req.Links), nil
}

func (c *crowd) isGone(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone[id]
}

func (c *crowd) custodian(not ...string) string {
	for _, id := range []string{"b", "c", "d"} {
		if !slices.Contains(not, id) && !c.isGone(id) {
			return id
		}
	}
	return ""
}

func (c *crowd) set(in map[string]bool, id string, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	in[id] = yes
}

// onCrowd runs an outbox among the peers b, c and d, the first of them frozen.
func onCrowd(t *testing.T, test func(t *testing.T, c *crowd, o *peer.Outbox)) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{frozen: map[string]bool{"b": true}, gone: map[string]bool{}, kept: map[string]int{}, got: map[string]int{}}
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Deliver: c.deliver, Gone: c.isGone, Custodian: c.custodian})
		test(t, c, o)
	})
}

// What a frozen peer does not answer is with another one within seconds, once, also what was added while it was asked.
func TestLinksOfFrozenPeersAreCopied(t *testing.T) {
	onCrowd(t, func(t *testing.T, c *crowd, o *peer.Outbox) {
		for i := range 10 {
			add(t, o, "b", linksOf(string(rune('a'+i)), 3))
			sleep(time.Second)
			if i == 0 && o.Settled(time.Now()) {
				t.Error("links count as settled that no other node has")
			}
		}
		added := time.Now()
		sleep(4 * time.Second)
		if n := c.kept["c"]; n != 30 || !o.Settled(added) {
			t.Errorf("another node keeps %d of 30 links; settled: %v", n, o.Settled(added))
		}
		sleep(5 * time.Minute)
		if n := c.kept["c"] + c.kept["d"]; n != 30 {
			t.Errorf("%d copies of 30 links", n)
		}
		c.set(c.frozen, "b", false)
		sleep(time.Minute)
		if c.got["b"] != 30 || o.Pending() != 0 {
			t.Errorf("%d of 30 links delivered, %d pending", c.got["b"], o.Pending())
		}
	})
}

// What is urgent is copied at once, also while the peer is asked.
func TestUrgentLinksAreCopiedAtOnce(t *testing.T) {
	onCrowd(t, func(t *testing.T, c *crowd, o *peer.Outbox) {
		add(t, o, "b", linksOf("x", 3))
		sleep(peer.Default().OutboxWait + time.Millisecond)
		add(t, o, "b", linksOf("y", 3)) // while the peer is asked for the others
		o.Hurry()
		sleep(time.Millisecond)
		if n := c.kept["c"]; n != 6 || !o.Settled(time.Now()) {
			t.Errorf("another node keeps %d of 6 links; settled: %v", n, o.Settled(time.Now()))
		}
		added := time.Now()
		add(t, o, "b", linksOf("z", 3))
		sleep(time.Millisecond)
		if o.Settled(added) {
			t.Error("a later link is copied as well")
		}
		o.Hurry()
		sleep(time.Millisecond)
		add(t, o, "b", linksOf("w", 3))
		o.Hurry() // at the same instant, and nothing else waits
		sleep(time.Millisecond)
		if n := c.kept["c"]; n != 12 {
			t.Errorf("another node keeps %d of 12 links", n)
		}
	})
}

// Where no other node is there, urgent links are looked at once, not again and again: time passes.
func TestUrgentLinksWithoutACustodian(t *testing.T) {
	onCrowd(t, func(t *testing.T, c *crowd, o *peer.Outbox) {
		c.set(c.gone, "c", true)
		c.set(c.gone, "d", true)
		add(t, o, "b", linksOf("x", 3))
		o.Hurry()
		sleep(time.Second)
		c.set(c.frozen, "b", false)
		sleep(time.Minute)
		if c.got["b"] != 3 {
			t.Errorf("%d of 3 links delivered", c.got["b"])
		}
	})
}

// Where the custodian does not answer either, or has gone, it is another one that keeps the links.
func TestAnotherCustodianIsFound(t *testing.T) {
	onCrowd(t, func(t *testing.T, c *crowd, o *peer.Outbox) {
		c.set(c.frozen, "c", true)
		add(t, o, "b", linksOf("x", 3))
		sleep(30 * time.Second)
		if n := c.kept["d"]; n != 3 || !o.Settled(time.Now()) {
			t.Fatalf("the second one keeps %d of 3 links; settled: %v", n, o.Settled(time.Now()))
		}
		c.set(c.frozen, "c", false)
		c.set(c.gone, "d", true)
		sleep(time.Minute)
		if n := c.kept["c"]; n != 3 || !o.Settled(time.Now()) {
			t.Errorf("the third one keeps %d of 3 links; settled: %v", n, o.Settled(time.Now()))
		}
	})
}

// What is kept for another node is sent like all else, but nobody's pages wait for it. It is on the disk of that node and on this one. When that
// node is gone it is copied on: else it would be lost with the next disk.
func TestKeptLinks(t *testing.T) {
	onCrowd(t, func(t *testing.T, c *crowd, o *peer.Outbox) {
		must(t, o.Keep(t.Context(), "d", map[string][]*wire.Link{"b": linksOf("x", 3), "c": linksOf("y", 3)}))
		if !o.Settled(time.Now()) {
			t.Error("links of another node count as this one's")
		}
		copies := func(after time.Duration, want int) {
			t.Helper()
			if sleep(after); c.kept["c"]+c.kept["d"] != want {
				t.Errorf("%d links are copied, want %d", c.kept["c"]+c.kept["d"], want)
			}
		}
		copies(time.Minute, 0)
		if c.got["c"] != 3 || o.Pending() != 3 {
			t.Errorf("%d delivered, %d pending", c.got["c"], o.Pending())
		}
		add(t, o, "b", linksOf("z", 3))
		copies(time.Minute, 3)
		c.set(c.gone, "d", true)
		if copies(10*time.Second, 6); !o.Settled(time.Now()) {
			t.Error("not settled")
		}
		copies(time.Minute, 6)
	})
}

// While a custodian does not answer, the peer gets what is new.
func TestNewLinksWaitForNoCustodian(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &answerer{answer: func(_ string, l *wire.Link) *wire.Delivered {
			if l.Depth == 9 {
				return verdict(wire.Verdict_VERDICT_LATER)
			}
			return verdict(wire.Verdict_VERDICT_ACCEPTED)
		}}
		c := &crowd{frozen: map[string]bool{"c": true}}
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Gone: c.isGone, Custodian: c.custodian,
			Deliver: func(ctx context.Context, to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
				if req.Keep {
					return c.deliver(ctx, to, req)
				}
				return a.deliver(ctx, to, req)
			}})
		add(t, o, "b", []*wire.Link{{Url: "http://b.example/", Depth: 9}})
		sleep(3 * time.Second)
		add(t, o, "b", linksOf("new", 3))
		sleep(peer.Default().OutboxWait + time.Millisecond)
		if n := o.Pending(); n != 1 {
			t.Errorf("%d links wait, want 1", n)
		}
	})
}

// While a receiver takes nothing, the others come and go. Each of them has a link twice at most, as its own and for another node: without a
// bound there would be more copies with each absence, and those of the copies.
func TestCopiesDoNotMultiply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := []string{"a", "b", "c", "d", "e"}
		c := &crowd{gone: map[string]bool{}}
		boxes, full := map[string]*peer.Outbox{}, true
		all := func() (most int) {
			for _, box := range boxes {
				most = max(most, box.Pending())
			}
			return most
		}
		for _, id := range ids {
			boxes[id], _ = running(t, peer.Default(), peer.OutboxDeps{Gone: c.isGone,
				Custodian: func(not ...string) string {
					others := append(ids[slices.Index(ids, not[len(not)-1])+1:len(ids):len(ids)], ids...)
					i := slices.IndexFunc(others, func(other string) bool { return other != id && !slices.Contains(not, other) && !c.isGone(other) })
					return others[i]
				},
				Deliver: func(ctx context.Context, to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
					c.mu.Lock()
					refused := to == "f" && full
					c.mu.Unlock()
					switch {
					case refused || c.isGone(to) || c.isGone(id):
						return nil, errors.New("no answer")
					case to == "f":
						return accepts(req.Links), nil
					}
					return accepts(req.Links), boxes[to].Keep(ctx, id, map[string][]*wire.Link{"f": req.Links})
				}})
		}
		absences := func(n int) {
			for i := range n {
				for _, gone := range []bool{true, false} {
					c.set(c.gone, ids[i%len(ids)], gone)
					for _, box := range boxes {
						box.Review()
					}
					sleep(20 * time.Second)
				}
			}
		}
		add(t, boxes["a"], "f", linksOf("x", 10))
		sleep(10 * time.Second)
		if absences(100); all() > 20 {
			t.Errorf("a node has 10 links %d times", all())
		}
		c.mu.Lock()
		full = false
		c.mu.Unlock()
		if sleep(time.Minute); all() > 0 {
			t.Errorf("%d links wait for a node that takes them", all())
		}
		if err := boxes["b"].Keep(t.Context(), "a", map[string][]*wire.Link{"g": linksOf("x", 10)}); err != nil || all() != 10 {
			t.Errorf("%d of 10 links are kept that were answered before: %v", all(), err)
		}
	})
}

// What lies here since an earlier life is not kept again.
func TestKeptLinksOfAnEarlierLife(t *testing.T) {
	shelf := new(netsim.Shelf)
	for range 3 {
		o := opened(t, peer.Default(), peer.OutboxDeps{Shelf: shelf})
		if err := o.Keep(t.Context(), "d", map[string][]*wire.Link{"b": linksOf("x", 3)}); err != nil || o.Pending() != 3 {
			t.Errorf("%d of 3 links are kept: %v", o.Pending(), err)
		}
	}
}

// What could not be kept, because its sender did not wait, is kept when it is sent again.
func TestLinksThatCouldNotBeKept(t *testing.T) {
	o := opened(t, peer.Default(), peer.OutboxDeps{})
	ended, end := context.WithCancel(t.Context())
	end()
	links := map[string][]*wire.Link{"b": linksOf("x", 3)}
	if err := o.Keep(ended, "d", links); !errors.Is(err, context.Canceled) {
		t.Errorf("kept for a sender that has gone: %v", err)
	}
	if err := o.Keep(t.Context(), "d", links); err != nil || o.Pending() != 3 {
		t.Errorf("%d of 3 links are kept: %v", o.Pending(), err)
	}
}
