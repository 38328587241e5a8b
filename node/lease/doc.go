// Package lease grants the right to ask servers, and holds it.
//
// Every server (an address) has one grantor among the settled nodes, found by rendezvous hashing. The grantor leases the server
// to one node at a time and keeps what is known of the server (assign.Memory) on disk. Only the holder of the lease asks the
// server. It updates the memory with its own downloads and returns it when it renews. Every node is both: a Grantor for its share
// of the servers, and a Holder for the servers that its frontier wants. If it is its own grantor, it calls itself.
//
// The package does not decide who is settled (package member), what is downloaded (frontier), or which node should get a server
// (packages placement and assign), and it does not carry messages (package peer).
//
// # States
//
// The states of a server at its holder, as the fields of lease tell:
//
//	         wanted, or held (Hold)             not wanted for long, or Give
//	(nothing) ─────► asked for ────► live ────────────────────► withdrawn ────► drained ────► (nothing)
//	                   ▲   │        │ ▲  │                          │  nothing in       given
//	       later, again└───┘        │ └──┘ renewed                  │  flight           back
//	                   ▲            │ ▲                             │
//	                   │            │ └─────────────────────────────┘ wanted again before the grantor was told
//	                   └────────────┘ expired, or another node has it
//
// # What makes it safe
//
// No two nodes hold a live lease on one server, provided that nodes which can talk to each other see a change of the settled
// members within Config.Skew of one another. The rules:
//
//   - At the holder, a lease ends one lease time after the request was sent. At the grantor it ends one lease time and the skew
//     after the request arrived. So the holder stops first.
//   - A grantor does not know what its predecessor granted if it has just started, has become the grantor by a change of members,
//     or was in a minority. Until a lease time and the skew have passed it confirms the first node that renews, and grants to
//     nobody else. It may begin earlier once all members have told what they hold (see inquiry.go).
//   - A holder whose grantor has changed renews at the new one while its lease lives. An answer to a renewal counts only while the
//     old lease lives, so nobody was in between. Answers count only from the current grantor.
//   - A restarted holder is another node, because peers may still download for its former life. It gets its servers back when all
//     members have told what they do for it, or when its old leases have expired.
//   - A grantor grants and renews for members only that are alive. Others would not be asked what they hold.
//   - A grantor without a majority grants and renews nothing. The majority will, after waiting.
//   - A right is checked when it is used (MayAsk): by the monotonic clock and by the wall clock, which must agree. A node that was
//     frozen, or whose clock jumped, forgets what it knew as a grantor, and asks nobody until its leases are renewed. Requests under
//     way may finish while their lease lives by both clocks.
//   - Messages of a holder are numbered. One that arrives after a later one changes nothing.
//
// The pure parts (grants, leases, pace, members) take time and randomness as arguments. Grantor and Holder wrap them.
package lease
