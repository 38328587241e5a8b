// Package batch assigns the hosts of a home: it finds the hosts that are ready, takes the leases of their servers, lets the
// assigners decide, and hands the hosts off to the nodes that were chosen.
//
// It owns the course of a batch and what it remembers in between (which hosts wait, for how long). It does not know how a
// server is chosen (package assign does), how an errand reaches a peer (errand), how a host moves (home), who holds a lease
// (lease), or where URLs wait (frontier): it drives them. Nothing here is on disk: a host that is not handed off is with
// its home, as before, and a batch that a crash ends is gathered anew.
//
// A batch has these phases, one after the other: gather, resolve, lease, decide, compare (with more than one assigner),
// hand off. From the lease to the hand-off its servers are reserved: their URLs are downloaded only as errands, one at a
// time for each server, spaced like any other request.
package batch
