// Package member finds the peers of a node by gossip and says who they are: which of them are settled, whether this side
// of the overlay is the larger one, and where each peer is in the coordinate space. It owns the node's own coordinate,
// which moves with the round trips of the probes, and what the node publishes about itself. It does not talk to peers
// about anything else: no URL travels by gossip, and what is hashed over the members or assigned to them is decided
// elsewhere.
package member
