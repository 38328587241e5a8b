package node_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "proxima/"

// within says whether a package has this path, or lies below it.
func within(pkg, path string) bool { return pkg == path || strings.HasPrefix(pkg, path+"/") }

// layers are the packages of node in their order: each may use those before it. Of two on one line neither uses the other.
var layers = [][]string{
	{"wire", "bell"},
	{"strict"},
	{"runlog"},
	{"lobby"},
	{"sink", "console"},
	{"view"},
	{"relay"},
	{"member"},
	{"peer"},
	{"lease"},
	{"ownership"},
	{"placement", "termination", "quota"},
	{"site", "webmaster"},
	{"crawl"},
	{"netsim"},
}

// below says whether a package of node may import another: one that lies in it, or in a layer before it.
func below(from, to string) bool {
	place := func(pkg string) (top string, at int) {
		top, _, _ = strings.Cut(strings.TrimPrefix(pkg, "node/"), "/")
		for i, line := range layers {
			if slices.Contains(line, top) {
				return top, i
			}
		}
		return top, -1
	}
	a, i := place(from)
	b, j := place(to)
	return a == b || j >= 0 && j < i
}

// mayImport says whether a package of the project may import another; both are paths within the module.
func mayImport(from, to string) bool {
	uses := func(paths ...string) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return within(to, path) })
	}
	switch {
	case within(from, "cmd") || within(from, "scripts"):
		return true
	case within(from, "node/runlog"):
		return uses("node/runlog")
	case within(from, "node/wire"):
		return uses("node/wire")
	case strings.HasPrefix(from, "node/") && within(to, "node"):
		return below(from, to)
	case within(from, "node"):
		return uses("node", "frontier", "fetch", "assign", "ncoord")
	case within(from, "assign"):
		return uses("assign", "ncoord")
	case from == "fetch/blocklist" && to == "fetch/resolve": // the form of host names
		return true
	case from == "fetch" || from == "frontier":
		return uses(from)
	}
	// What lies in fetch or frontier, and ncoord, is a leaf.
	parts := strings.Split(from, "/")
	return uses(strings.Join(parts[:min(2, len(parts))], "/"))
}

// impure are the packages of the standard library that code without input, output, log and goroutines does not need.
func impure(pkg string) bool {
	return slices.Contains([]string{"net", "net/http", "io/fs", "syscall", "unsafe"}, pkg) ||
		slices.ContainsFunc([]string{"os", "log", "sync", "runtime"}, func(p string) bool { return within(pkg, p) })
}

// pure says whether a package must be a function of its arguments.
func pure(pkg string) bool { return within(pkg, "assign") || within(pkg, "ncoord") }

// importFaults are the imports that the order of the packages forbids.
func importFaults(s source) []string {
	var faults []string
	if s.tree == nil || s.isTest() {
		return nil
	}
	for _, spec := range s.tree.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser would not have let it through
		}
		to, own := strings.CutPrefix(name, module)
		switch {
		case own && !mayImport(s.dir(), to):
			faults = append(faults, fmt.Sprintf("%s: %s must not import %s", s.at(spec), s.dir(), to))
		case pure(s.dir()) && impure(name):
			faults = append(faults, fmt.Sprintf("%s: %s is pure and must not import %s", s.at(spec), s.dir(), name))
		}
	}
	return faults
}

func TestImportFaultsAreFound(t *testing.T) {
	for _, c := range []struct {
		file, imports string
		want          bool
	}{
		{"node/made_up.go", "proxima/frontier/identity", false},
		{"node/site/made_up.go", "proxima/node/crawl", true},
		{"node/crawl/made_up.go", "proxima/node/site", false},
		{"node/made_up.go", "proxima/cmd/proxima", true},
		{"node/made_up.go", "proxima/scripts/generate", true},
		{"node/crawl/made_up.go", "proxima/node/runlog", false},
		{"node/ownership/made_up.go", "proxima/node/wire", false},
		{"node/ownership/made_up.go", "proxima/node/lease", false},
		{"node/lease/made_up.go", "proxima/node/ownership", true},
		{"node/placement/made_up.go", "proxima/node/termination", true},
		{"node/crawl/made_up.go", "proxima/node/netsim", true},
		{"node/ownership/made_up.go", "proxima/node", true},
		{"node/peer/made_up.go", "proxima/node/peer/peertest", false},
		{"node/wire/made_up.go", "proxima/node/peer", true},
		{"node/runlog/made_up.go", "proxima/node", true},
		{"node/runlog/made_up.go", "proxima/fetch", true},
		{"nodes/made_up.go", "proxima/node", true},
		{"frontier/made_up.go", "proxima/frontier/identity", false},
		{"frontier/made_up.go", "proxima/fetch/robots", true},
		{"frontier/made_up.go", "proxima/node/runlog", true},
		{"frontier/identity/made_up.go", "proxima/frontier", true},
		{"fetch/made_up.go", "proxima/fetch/warc", false},
		{"fetch/made_up.go", "proxima/frontier/identity", true},
		{"fetch/page/made_up.go", "proxima/fetch/robots", true},
		{"fetch/page/made_up.go", "proxima/fetch", true},
		{"fetch/page/made_up.go", "proxima/fetch/page/pagetest", false},
		{"assign/made_up.go", "proxima/ncoord", false},
		{"assign/made_up.go", "proxima/node/runlog", true},
		{"assign/made_up.go", "sync", true},
		{"assign/made_up.go", "time", false},
		{"ncoord/made_up.go", "proxima/assign", true},
		{"ncoord/made_up.go", "net/netip", false},
		{"ncoord/made_up.go", "net", true},
		{"ncoord/made_up.go", "log/slog", true},
		{"ncoord/made_up.go", "os/exec", true},
		{"ncoord/made_up_test.go", "os", false},
		{"cmd/proxima/made_up.go", "proxima/frontier", false},
		{"scripts/made/up.go", "proxima/node", false},
	} {
		s := parsed(t, c.file, fmt.Sprintf("package made\nimport _ %q\n", c.imports))
		if got := importFaults(s); (len(got) > 0) != c.want {
			t.Errorf("%s imports %s: %q, want a fault: %v", c.file, c.imports, got, c.want)
		}
	}
}
