package node

import (
	"context"
	"io"
	"net/http"
	"testing"
)

// must ends a test whose set-up has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Door is the page for web masters.
func (n *Node) Door() http.Handler { return n.door }

// Live is the configuration in force.
func (n *Node) Live() Config { return *n.operator.live.Load() }

// Owns says whether this node owns a host.
func (n *Node) Owns(host string) bool {
	r, ok, err := n.overlay.owners.Record(host)
	return err == nil && ok && r.Owner == n.id.Node
}

// SayOver has this node say that the crawl is over, though it is not.
func (n *Node) SayOver() error { return n.overlay.members.Over() }

// Snapshot writes a snapshot of the frontier.
func (n *Node) Snapshot(ctx context.Context, w io.Writer) error {
	return writeSnapshot(ctx, n.frontier, w)
}
