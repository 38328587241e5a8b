package node_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"proxima/node"
)

// A node that cannot do what its configuration says does not start, and says which key is the reason. Nothing stays open.
func TestStartFails(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	c := config(t)
	for key, set := range map[string]func(c *node.Config, to string){
		"metrics.listen":   func(c *node.Config, to string) { c.Metrics.Listen = to },
		"console.listen":   func(c *node.Config, to string) { c.Console.Listen = to },
		"webmaster.listen": func(c *node.Config, to string) { c.WebMaster.Listen = to },
		"geo.database":     func(c *node.Config, to string) { c.Geo.Database = filepath.Join(c.Node.Data, to) },
	} {
		broken := c
		set(&broken, used.Addr().String())
		if _, err := node.New(broken, seeds(t, "http://a.test/"), node.Deps{}); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	c.Metrics.Listen, c.Console.Listen = "127.0.0.1:0", "127.0.0.1:0"
	if _, err := run(t.Context(), t, c, depsOf(newWeb(t))); err != nil {
		t.Error(err)
	}
}
