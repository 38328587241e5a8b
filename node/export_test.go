package node

import (
	"context"
	"io"
	"net/http"

	"proxima/node/webmaster"
)

// Door is the page for web masters.
func (n *Node) Door() http.Handler { return n.door }

// Live is the configuration in force.
func (n *Node) Live() Config { return *n.operator.live.Load() }

// Owns says whether this node owns a host.
func (n *Node) Owns(host string) bool {
	r, ok, err := n.overlay.owners.Record(host)
	return err == nil && ok && r.Owner == n.id.Node
}

// Requests returns what web masters have asked for without proof.
func (n *Node) Requests() ([]webmaster.Request, error) { return n.webMasters.requests() }

// Dismiss removes the request for a host.
func (n *Node) Dismiss(host, by string) error { return n.webMasters.dismiss(host, by) }

// Snapshot writes a snapshot of the frontier.
func (n *Node) Snapshot(ctx context.Context, w io.Writer) error {
	return writeSnapshot(ctx, n.frontier, w)
}
