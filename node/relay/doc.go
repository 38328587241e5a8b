// Package relay reaches nodes that cannot be dialled. Such a node, outbound only, keeps a link to each of a few reachable
// ones, its relays, the nearest by network coordinate, and publishes who they are. What is for it goes through them: packets of the gossip, and
// connections, which it makes itself when a relay asks it to. All of it runs over the port for peers, so both ends of each
// link have proved by mutual TLS who they are, and a relay carries for members alone. What it carries is encrypted end to end, as it would be
// without it. Rooms above see connections and packets; which way those came they are not told.
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
// So each connection that is carried is one of TCP: a slow end slows its own, and a relay holds two small buffers for it. A
// link carries frames only. Its queue is bounded, and what does not fit is dropped, as of any packet.
//
// A link is dialled when something is to be sent by it, and then serves both ends:
//
//	(none) ── dialled ──► opening ── stands ──► open ── unused for Idle, silent for Silence, reset ──► (none)
//	                         │                                                                            ▲
//	                         └────── cannot be dialled: not tried again for Backoff ──────────────────────┘
//
// How this node can be reached it asks of others: some dial its port for peers, and send a packet to its port of the gossip,
// both with a nonce.
//
//	outbound ◄── most of those asked cannot dial it, twice ─── direct
//	    └──────── most of those asked can, and a packet came ────► ▲
//	    └──────── most of those asked can, but no packet ──► streams (UDP is blocked: the gossip goes by links)
//
// A node begins as what it was in its life before. A new one that has somebody to join begins as outbound, which works for all, and asks at once.
package relay
