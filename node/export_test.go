package node

import "net/http"

// Door is the page for web masters.
func (n *Node) Door() http.Handler { return n.door }
