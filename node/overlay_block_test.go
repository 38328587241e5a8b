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
		block := func(i int, on, why string, off bool) {
			b.t.Helper()
			if _, changed, err := b.nodes[i].node.Operator().Block(on, "ann", why, off); err != nil || !changed {
				b.t.Fatalf("block %s: %v, %v", on, changed, err)
			}
		}
		agree := func(what string, want []string, nodes ...int) {
			b.t.Helper()
			b.await(what, time.Minute, func() bool {
				for _, i := range nodes {
					var on []string
					for _, block := range b.nodes[i].node.Operator().Blocks() {
						on = append(on, block.On)
					}
					if !slices.Equal(on, want) || !slices.Equal(b.nodes[i].node.Operator().Blocks(), b.nodes[nodes[0]].node.Operator().Blocks()) {
						return false
					}
				}
				return true
			})
		}
		b.kill(2)
		block(0, "BAD.example.", "asked us to", false)
		if _, changed, err := b.nodes[0].node.Operator().Block("bad.example", "bob", "again", false); changed || err != nil {
			b.t.Errorf("blocked twice: %v", err)
		}
		agree("the first block", []string{"bad.example"}, 0, 1, 3)
		b.kill(0)
		block(3, address(2)+"/32", "", false)
		b.kill(3) // before it has told anybody
		b.start(2)
		b.start(4)
		agree("the first block, late", []string{"bad.example"}, 1, 2, 4)
		b.start(0)
		b.start(3)
		all := []int{0, 1, 2, 3, 4}
		agree("the second block", []string{address(2) + "/32", "bad.example"}, all...)
		block(1, "both.example", "said here", false)
		block(4, "both.example", "and there", false)
		agree("one of two blocks", []string{address(2) + "/32", "bad.example", "both.example"}, all...)
		block(2, "both.example", "", true)
		agree("what is blocked no more", []string{address(2) + "/32", "bad.example"}, all...)

		since := time.Now()
		b.awaitEnd(6 * time.Hour)
		for _, v := range b.Visits(nil) {
			if v.Start.After(since.Add(time.Second)) && slices.Contains([]string{"bad.example", "www.bad.example", "worse.example"}, v.Site) {
				b.t.Errorf("%s asked for %s %v after all knew", v.From, v.URL(), v.Start.Sub(since))
			}
		}
		if n := len(b.pagesOf("good.example")); n < 151 {
			b.t.Errorf("%d of 151 pages of a host that was not blocked", n)
		}
		for i := range b.nodes {
			var acts []runlog.Event
			for _, e := range logged[runlog.Event](b, i, runlog.LogNode) {
				if e.Event == runlog.EventControl && e.Attrs[runlog.KeyHost] == "bad.example" && e.Attrs[runlog.KeyBy] != "bob" {
					acts = append(acts, e)
				}
			}
			if len(acts) != 1 || acts[0].Attrs[runlog.KeyBy] != "ann" || acts[0].Attrs[runlog.KeyReason] != "blocked: asked us to" {
				b.t.Errorf("%s logs the act as %v", b.name(i), acts)
			}
		}
	})
}

// What makes no sense is not blocked, and no text of a person reaches the log that cannot be shown.
func TestBlockRefuses(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(1)
		w.opened = func(n *node.Node) {
			for _, c := range []struct{ on, by, why string }{
				{"", "", ""}, {"a b", "", ""}, {"*", "", ""}, {"http://a.test/", "", ""}, {"/x/", "", ""}, {"0.0.0.0/0", "", ""}, {"::/0", "", ""},
				{"192.0.2.0/33", "", ""}, {"1.2.3", "", ""}, {"<b>.test", "", ""}, {"a.test # x", "", ""}, {"a.test\n", "", ""},
				{"a.test", "", "\x1b[31mred"}, {"a.test", "\n", ""}, {"a.test", "", string(make([]byte, 501))}, {"a.test", "", "\xff"},
			} {
				if _, changed, err := n.Operator().Block(c.on, c.by, c.why, false); err == nil || changed {
					w.t.Errorf("blocked: %q", c)
				}
			}
			if _, changed, err := n.Operator().Block("a.test", "", "", true); changed || err != nil {
				w.t.Errorf("unblocked though it was not blocked: %v", err)
			}
			if len(n.Operator().Blocks()) > 0 {
				w.t.Errorf("blocks %v", n.Operator().Blocks())
			}
		}
		w.run("http://a.test/")
	})
}
