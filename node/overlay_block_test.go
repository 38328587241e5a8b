package node_test

import (
	"slices"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/runlog"
)

// What one node is told to leave alone all do, those too that are down or not there yet: at once, for good, and with one line in each log.
func TestOverlayBlocks(t *testing.T) {
	inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
		sites := []string{"bad.example", "www.bad.example", "worse.example", "both.example", "good.example"}
		for i, name := range sites {
			b.site(name, address(i), beside(b.nodes[i%4].at), 150, 1)
		}
		b.cfg = func(i int, c *node.Config) { c.Member.Join = []string{netsim.GossipAt(0), netsim.GossipAt(1)} }
		b.seeds = func(i int) []string {
			if i == 1 {
				return b.fronts()
			}
			return nil
		}
		for i := range 4 { // the last one comes late
			b.start(i)
			time.Sleep(200 * time.Millisecond)
		}
		b.await("pages", 10*time.Minute, func() bool {
			return !slices.ContainsFunc(sites, func(s string) bool { return len(b.pagesOf(s)) < 5 })
		})
		block := func(i int, on, by, why string, off, news bool) {
			b.t.Helper()
			if _, changed, err := b.operator(i).Block(on, by, why, off); err != nil || changed != news {
				b.t.Fatalf("block %s: %v, %v", on, changed, err)
			}
		}
		agree := func(what string, want []string, nodes ...int) {
			b.t.Helper()
			b.await(what, time.Minute, func() bool {
				first := b.operator(nodes[0]).Blocks()
				return slices.EqualFunc(first, want, func(block node.Block, on string) bool { return block.On == on }) &&
					!slices.ContainsFunc(nodes, func(i int) bool { return !slices.Equal(b.operator(i).Blocks(), first) })
			})
		}
		b.kill(2)
		block(0, "BAD.example.", "ann", "asked us to", false, true)
		block(0, "bad.example", "bob", "again", false, false)
		agree("the first block", []string{"bad.example"}, 0, 1, 3)
		b.kill(0)
		block(3, address(2)+"/32", "ann", "", false, true)
		b.kill(3) // before it has told anybody
		b.start(2)
		b.start(4)
		agree("the first block, late", []string{"bad.example"}, 1, 2, 4)
		b.start(0)
		b.start(3)
		all := []int{0, 1, 2, 3, 4}
		agree("the second block", []string{address(2) + "/32", "bad.example"}, all...)
		block(1, "both.example", "ann", "said here", false, true)
		block(4, "both.example", "ann", "and there", false, true)
		agree("one of two blocks", []string{address(2) + "/32", "bad.example", "both.example"}, all...)
		block(2, "both.example", "ann", "", true, true)
		agree("what is blocked no more", []string{address(2) + "/32", "bad.example"}, all...)

		since := time.Now()
		b.awaitEnd(6 * time.Hour)
		none(b.t, b.Visits(nil), "after all knew", func(v visit) bool {
			return v.Start.After(since.Add(time.Second)) && slices.Contains(sites[:3], v.Site)
		})
		if n := len(b.pagesOf("good.example")); n < 151 {
			b.t.Errorf("%d of 151 pages of a host that was not blocked", n)
		}
		for i := range b.nodes {
			acts := b.events(i).of(runlog.EventControl, runlog.KeyHost, "bad.example", runlog.KeyBy, "ann")
			if len(acts) != 1 || acts.reasons()[0] != "blocked: asked us to" {
				b.t.Errorf("%s logs the act as %v", b.name(i), acts)
			} else if _, elsewhere := acts[0].Attrs[runlog.KeyPeer]; elsewhere != (i != 0) {
				b.t.Errorf("%s logs that the act was done at another node: %v", b.name(i), elsewhere)
			}
		}
	})
}
