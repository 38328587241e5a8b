package node_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxima/node"
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
		none(t, b.Visits(nil), "out of scope", func(v visit) bool { return v.Site != first && v.Site != late })
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
