// Package lease grants the right to ask servers, and holds it.
//
// It owns leases, both ends of them, and what is known of servers. Every server (an address) has one grantor among the
// settled nodes, found by a rendezvous hash. The grantor grants the server to one node at a time and stores the server's
// memory (assign.Memory) on disk; the node that holds the lease is the only one that asks the server, keeps the memory
// current with its own downloads, and sends it back with its renewals. A node is both: a Grantor of its share of the
// servers, a Holder of the servers that its frontier wants. Where it is the grantor of a server that it wants itself, the
// same steps are taken without the network.
//
// It does not decide which nodes are settled (package member), what is downloaded (frontier), which node should get a
// server (packages batch and assign), nor how messages travel (package peer). It meets them by the interfaces below.
//
// # States
//
// A server at its holder, as the fields of lease say:
//
//	         wanted, or held (Hold)             not wanted for long, or Give
//	(nothing) ─────► asked for ────► live ────────────────────► withdrawn ────► drained ────► (nothing)
//	                   ▲   │        │ ▲  │                          │  nothing is in     given
//	       later, again└───┘        │ └──┘ renewed                  │  flight any more   back
//	                   ▲            │ ▲                             │
//	                   │            │ └─────────────────────────────┘ wanted again, and the grantor was not told yet
//	                   └────────────┘ ran out, or another node has it
//
// # What makes it safe
//
// No two nodes hold a live lease on one server, provided that nodes which can talk to each other see a change of the
// settled members within Config.Skew of one another. The rules:
//
//   - A lease ends at its holder one lease time after the request was sent; at its grantor one lease time and the skew
//     after the request arrived. So the holder stops first.
//   - A grantor that has not been one of the server for a lease time and the skew without a gap (it just started, it became
//     the grantor by a change of members, or it was on the smaller side of a partition) does not know what its predecessor
//     granted: it confirms the first node that renews, and grants to no one else until that time is over, or until all
//     members have said what they hold (inquiry.go says what makes that safe).
//   - A holder whose grantor changed renews at the new one while its lease lives. An answer to a renewal counts only while
//     the old lease lives: nobody was in between. No answer counts that comes from a node that is not the grantor now.
//   - A holder that has restarted is another node: what its former life asked its peers to download may be under way. It
//     gets what it had when all members have said what they do for it, or when its old lease has run out.
//   - A grantor grants and renews for members only that are alive: the others would not be asked what they hold.
//   - A grantor without the majority of the members grants and renews nothing: the other side will, once it has waited.
//   - A right is checked when it is used (MayAsk): by the monotonic clock and by the wall clock, which must agree. A node that
//     was stopped, or whose clock jumped, ends what it knows as a grantor before it does anything else, and asks nobody before its
//     leases have been renewed. Requests under way may end while their lease lasts by both clocks: nobody else has it.
//   - Messages of one holder that arrive out of order are told by their numbers, and an older one changes nothing.
//
// The pure parts (grants, leases, history, pace) take time and randomness as arguments; Grantor and Holder wrap them.
package lease
