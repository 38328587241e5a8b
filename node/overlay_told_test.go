package node_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/runlog"
)

// The scope is the crawl's: one node has seeds and the others none, and nobody leaves their hosts. A seed that another node brings later is
// everybody's from then on, and what a node was told it knows when it comes back.
func TestOverlaySharesItsScope(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		b.cfg = func(_ int, c *node.Config) { c.Scope.SeedScope = "host" }
		first, late := "one.example", "two.example"
		for i, name := range []string{first, late, "outside.example"} {
			addr := address(i)
			b.servers[netip.MustParseAddr(addr)] = beside(b.nodes[i].at)
			s := b.Site(name, addr).Took(20 * time.Millisecond).Pages(60)
			for _, path := range numbered(60) {
				s.Page(path, "http://outside.example/", "http://two.example/", "http://www.one.example/")
			}
		}
		b.sites = []string{first}
		b.startAll(2 * time.Second)
		b.await("pages", 10*time.Minute, func() bool { return len(b.pagesOf(first)) > 10 })
		if n := len(b.pagesOf(late)); n > 0 {
			t.Fatalf("%d pages of a host that no seed names", n)
		}

		b.kill(0)
		b.seeds = func(i int) []string {
			if i == 0 {
				return []string{"http://" + late + "/"}
			}
			return nil
		}
		b.start(0)
		b.await("pages of the later seed", 20*time.Minute, func() bool { return len(b.pagesOf(late)) > 5 })
		b.kill(1)
		b.start(1) // without a seed
		b.awaitEnd(time.Hour)
		text, err := os.ReadFile(filepath.Join(b.config(1).Node.Data, "crawl.json"))
		if err != nil || !strings.Contains(string(text), `"learnt":["host one.example","host two.example"]`) {
			t.Errorf("a node without seeds remembers %s: %v", text, err)
		}
		b.sites = []string{first, late}
		b.complete(60, true)
		none(t, b.Visits(nil), "out of scope", func(v Visit) bool { return v.Site != first && v.Site != late })
	})
}

// A seed that redirects to its twin brings that into scope at all nodes, whichever of them asked for the seed.
func TestOverlayTakesTheTwinsOfItsSeeds(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		b.cfg = func(_ int, c *node.Config) { c.Scope.SeedScope = "host" }
		var fronts []string
		for i := range 8 {
			name, addr := fmt.Sprintf("s%d.example", i), address(i)
			b.servers[netip.MustParseAddr(addr)] = beside(b.nodes[i%4].at)
			b.Site(name, addr).Took(20*time.Millisecond).Redirect("/", "http://www."+name+"/")
			b.Site("www."+name, addr).Took(20 * time.Millisecond).Pages(30)
			b.sites, fronts = append(b.sites, "www."+name), append(fronts, "http://"+name+"/")
		}
		b.seeds = func(i int) []string { return map[int][]string{0: fronts}[i] }
		b.startAll(2 * time.Second)
		b.awaitEnd(time.Hour)
		b.complete(30, true)
	})
}

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
		none(b.t, b.Visits(nil), "after all knew", func(v Visit) bool {
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

// siteOfFiles adds a site whose files all nodes are to read in a directory, and which has ten pages by HTTP.
func (b *bed) siteOfFiles(dir string) {
	b.t.Helper()
	sites := siteTables(b.t, fmt.Sprintf("[[site]]\nhost = \"files.example\"\nfiles = %q\n", dir))
	b.cfg = func(_ int, c *node.Config) { c.Site, c.Scope.SeedScope = sites, "host" }
	b.servers[netip.MustParseAddr(address(0))] = beside(b.nodes[0].at)
	b.Site("files.example", address(0)).Took(time.Second).Pages(10)
}

// A site's files are read by the node that has them, whoever owned its host first, without a lease.
func TestOverlayReadsFilesWhereTheyAre(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		dir := siteTree(t)
		hidden := dir + ".elsewhere"
		b.siteOfFiles(dir)
		b.sites = []string{"files.example"}
		for _, i := range []int{2, 0, 1, 3} { // only node 2 finds the directory when it starts
			if b.start(i); i == 2 {
				must(t, os.Rename(dir, hidden))
			}
		}
		task := filepath.Join(b.config(2).Node.Data, "crawl.json") // where node 2 keeps what it tells others, which a disk may refuse for a while
		must(t, errors.Join(os.Remove(task), os.MkdirAll(filepath.Join(task, "refused"), 0o700)))
		b.await("a warning", time.Minute, func() bool {
			return strings.Contains(fmt.Sprint(b.events(2).of(runlog.EventWarning).reasons()), "not told which directories")
		})
		must(t, os.RemoveAll(task))
		told := time.Now().Add(5 * time.Second)
		b.awaitEnd(time.Hour)
		read := map[string]bool{}
		for i := range b.nodes {
			for _, f := range logged[runlog.Fetch](b, i, runlog.LogFetch) {
				if f.Protocol == "file" {
					if i != 2 {
						t.Errorf("%s read %s", b.name(i), f.URL)
					}
					read[f.URL] = true
				}
			}
		}
		if late := b.Visits(func(v Visit) bool { return v.Start.After(told) }); len(late) > 0 {
			t.Errorf("%d requests by HTTP, though all know who has the directory", len(late))
		}
		if len(read) < 30 || !read["http://files.example/docs/deep/"] {
			t.Errorf("%d files were read", len(read))
		}
	})
}

// Nodes that have lost the directory of a site since their last lives ask for the site by HTTP. None sends it to another one for ever.
func TestOverlayReadsNoFilesThatAreGone(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		inBed(t, square()[:nodes], func(b *bed) {
			dir := siteTree(t)
			b.siteOfFiles(dir)
			for _, requests := range []int{0, 12} {
				for i := range nodes {
					b.start(i)
				}
				b.awaitEnd(time.Hour)
				if n := len(b.Visits(nil)); n < requests || requests == 0 && n > 0 {
					t.Errorf("%d nodes: %d requests by HTTP, want %d", nodes, n, requests)
				}
				must(t, os.RemoveAll(dir))
				b.sites = []string{"files.example"}
			}
		})
	}
}
