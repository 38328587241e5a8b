// Package placement chooses nodes for hosts.
//
// # Batches
//
// A batch (batch.go) takes hosts of this home that are ready, and hands each to the node that the assigner chooses:
//
//	gather ─► resolve ─► lease ─► decide ─► compare ─► hand off
//	             │         │         ▲  │      (with more than one assigner)
//	             │         │         └──┴─ round ◄─┐
//	             │         │            └──────────┘ (mode persistent: rounds instead of a hand-off)
//	             ▼         ▼
//	    left out: its     joined: another node
//	    name does not     has the lease of its
//	    resolve           server
//
// From the lease to the hand-off the servers of a batch are reserved: their URLs are downloaded only by remote fetches, one at a
// time for each server (server.go), and spaced like any other request. Nothing here is on disk. A host that is not handed off
// stays with its home, and a batch that a crash ends is gathered anew. Package assign knows how to choose a node; decide.go makes
// the estimates that an assigner asks for.
//
// Servers whose hosts were assigned are reconsidered later (later.go). A server moves if another node is faster. A small share of
// its downloads is made by other nodes, so that a node that has recovered is noticed.
//
// # Remote fetches
//
// A remote fetch is one page that a node downloads for another. An estimate is a remote fetch whose timing shows how far a node
// is from a server. The asker repeats one call with the same number until it is answered or its time is over (remote.go). The
// other node carries it out and answers when the page is there (work.go):
//
//	asked ── queued ──► begun ──► ended: kept until nobody can ask for it any more
//	           └──── given back: it waited too long, the asker is gone, or the node stops
//
// A download that has begun ends before the asker stops waiting, and before the asker can lose the server. So it never overlaps
// with the next request to the server. The crawl loop makes the download, and finds what it must know in the Work. The
// frontier queues it.
package placement
