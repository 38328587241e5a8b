// Package relay reaches nodes that cannot be dialled. Such a node, outbound only, keeps a link to each of a few
// reachable nodes, its relays, the nearest by network coordinate, and publishes their ids. Traffic for it goes through
// them: gossip packets, and connections, which the node itself makes when a relay asks it to. All of it runs over the
// port for peers, so both ends of each link have proved by mutual TLS who they are, and a relay carries for members
// only. Carried traffic is encrypted end to end as it would be without a relay. Its users see connections and
// packets, but not which way they came.
//
//	caller                        relay                         outbound node
//	  │                             │ ◄───── link, kept ───────────── │
//	  │ ── call ID ───────────────► │                                 │
//	  │                             │ ── frame: call, token ────────► │
//	  │                             │ ◄── answer, token ───────────── │  a connection of its own
//	  │ ◄──────── accepted ──────── │                                 │
//	  │ ◄════════ TLS of the two ends, copied both ways ════════════► │
//	  │ ── frame: packet for ID ──► │ ── frame: packet from caller ─► │
//
// Each carried connection is a TCP connection of its own: a slow end slows only that one, and a relay holds two small
// buffers for it. A link carries frames only. Its queue is bounded, and excess frames are dropped, as packets may be.
//
// A link is dialled when there is something to send, and then serves both ends:
//
//	(none) ── dialled ──► opening ── stands ──► open ── unused for Idle, silent for Silence, reset ──► (none)
//	                         │                                                                            ▲
//	                         └────── cannot be dialled: not tried again for Backoff ──────────────────────┘
//
// A node asks others how it can be reached: some dial its port for peers, and send a packet to its gossip port, both
// with a nonce.
//
//	outbound ◄── most of those asked cannot dial it, twice ─── direct
//	    └──────── most of those asked can, and a packet came ────► ▲
//	    └──────── most of those asked can, but no packet ──► streams (UDP is blocked: gossip goes by links)
//
// A node starts as what it was in its earlier life. A new node with somebody to join starts as outbound, which always
// works, and asks at once.
package relay
