package node

import "net/http"

// Door is the page for web masters.
func (n *Node) Door() http.Handler { return n.door }

// Live is the configuration in force.
func (n *Node) Live() Config { return *n.live.Load() }

// Owns says whether this node owns a host.
func (n *Node) Owns(host string) bool {
	r, ok, err := n.overlay.owners.Record(host)
	return err == nil && ok && r.Owner == n.id.Node
}
