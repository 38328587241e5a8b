package node_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/runlog"
)

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
