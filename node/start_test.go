package node_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"proxima/frontier"
	"proxima/node"
	"proxima/node/peer"
)

// A node that cannot do what its configuration says does not start, on a full disk neither. It says which file or key is the reason, takes no
// file that it cannot write for damaged, and holds nothing: the same directory serves the configuration without the fault.
func TestStartFails(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer used.Close()
	tmp := t.TempDir()
	file := filepath.Join(tmp, "file")
	readOnly := filepath.Join(tmp, "read-only")
	if err := errors.Join(os.WriteFile(file, []byte("{"), 0o600), os.MkdirAll(filepath.Join(readOnly, "frontier"), 0o700),
		os.Chmod(filepath.Join(readOnly, "frontier"), 0o500), os.Chmod(readOnly, 0o500)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(readOnly, 0o700)
	damage := func(c *node.Config, name string, head ...string) {
		must(t, os.WriteFile(filepath.Join(c.Node.Data, name), []byte(strings.Join(append(head, "{"), "\n")), 0o600))
	}
	secret := filepath.Join(tmp, "secret")
	must(t, peer.Keygen(secret))
	overlay := func(c *node.Config) {
		c.Peer.Secret, c.Peer.Listen, c.Member.Bind, c.Crawl.MaxPages = secret, "127.0.0.1:0", "127.0.0.1:0", 100
	}
	for _, c := range []struct {
		names string // what the error names
		is    error  // nil: any
		spoil func(c *node.Config)
	}{
		{"metrics.listen", nil, func(c *node.Config) { c.Metrics.Listen = used.Addr().String() }},
		{"console.listen", nil, func(c *node.Config) { c.Console.Listen = used.Addr().String() }},
		{"webmaster.listen", nil, func(c *node.Config) { c.WebMaster.Listen = used.Addr().String() }},
		{"geo.database", nil, func(c *node.Config) { c.Geo.Database = filepath.Join(c.Node.Data, "none") }},
		{"node.json", frontier.ErrDamaged, func(c *node.Config) { damage(c, "node.json") }},
		{"crawl.json", frontier.ErrDamaged, func(c *node.Config) { damage(c, "crawl.json") }},
		{"voters", frontier.ErrDamaged, func(c *node.Config) { overlay(c); damage(c, "voters", c.Node.Run) }},
		{"quota-*: the data directory is damaged: read quota: book:", frontier.ErrDamaged, func(c *node.Config) { overlay(c); damage(c, "quota-book") }},
		{"quota-*: the data directory is damaged: read quota: mine:", frontier.ErrDamaged, func(c *node.Config) { overlay(c); damage(c, "quota-mine") }},
		{file, nil, func(c *node.Config) { c.Output.Logs = file }},
		{file, nil, func(c *node.Config) { c.Sink.URL = "file://" + file }},
		{file, nil, func(c *node.Config) { c.Node.Data = file }},
		{file, nil, func(c *node.Config) { c.Node.Data = filepath.Join(file, "data") }},
		{"/proc/proxima-data", fs.ErrNotExist, func(c *node.Config) { c.Node.Data = "/proc/proxima-data" }},
		{"read-only", fs.ErrPermission, func(c *node.Config) { c.Node.Data = readOnly }},
		{"read-only", fs.ErrPermission, func(c *node.Config) { c.Node.Data = filepath.Join(readOnly, "data") }},
	} {
		if os.Getuid() == 0 && errors.Is(c.is, fs.ErrPermission) {
			continue // root may write to directories that are read-only
		}
		before := goleak.IgnoreCurrent()
		web := newWeb(t)
		good := config(t)
		good.Metrics.Listen, good.Console.Listen = "127.0.0.1:0", "127.0.0.1:0"
		bad := good
		bad.Frontier.MinFreeMiB = 1
		c.spoil(&bad)
		deps := depsOf(web)
		deps.FreeBytes = func() (uint64, error) { return 0, nil }
		n, err := node.New(bad, seeds(t, "http://a.test/"), deps)
		switch {
		case n != nil || err == nil || !strings.Contains(err.Error(), c.names):
			t.Errorf("%s: %v, %v", c.names, n, err)
		case c.is != nil && !errors.Is(err, c.is):
			t.Errorf("%s: %v, want %v", c.names, err, c.is)
		case errors.Is(err, frontier.ErrLocked) || errors.Is(err, frontier.ErrDamaged) && c.is != frontier.ErrDamaged: //nolint:errorlint // itself
			t.Errorf("%s: %v: the data are not to blame", c.names, err)
		}
		for _, name := range []string{"node.json", "crawl.json", "voters", "quota-book", "quota-mine"} {
			os.Remove(filepath.Join(good.Node.Data, name))
		}
		if end, err := run(t.Context(), t, good, depsOf(web), "http://a.test/"); err != nil || end.Pages != pagesPerHost {
			t.Errorf("%s: the directory is of no use any more: %+v, %v", c.names, end, err)
		}
		web.Close()
		goleak.VerifyNone(t, before)
	}
}
