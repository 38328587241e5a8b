// Package placement chooses nodes for hosts.
//
// A batch (batch.go) finds the hosts of this home that are ready and moves them:
//
//	gather ─► resolve ─► lease ─► decide ─► compare ─► hand off
//	             │         │         ▲  │      (with more than one assigner)
//	             │         │         └──┴─ round ◄─┐
//	             │         │            └──────────┘ (mode persistent: again and again, instead)
//	             ▼         ▼
//	    left out: lost     joined: another node has the server
//
// From the lease to the hand-off its servers are reserved: their URLs are downloaded only as remote fetches, one at a time for
// each server (server.go), spaced like any other request. Nothing here is on disk: a host that is not
// handed off is with its home, as before, and a batch that a crash ends is gathered anew. How a server is chosen, package
// assign knows; decide.go asks for the estimates that an assigner wants.
//
// Servers that this node has are looked at again (later.go): one that another node would be faster for moves there, and a small
// share of the downloads is made by others, so that one that has recovered is noticed.
//
// A remote fetch is one page that a node downloads for another: an estimate is a page of the crawl whose timing shows how far a
// node is from a server. It is one call (remote.go), repeated under the same number until it is answered or its time is over; who
// carries it out (work.go) answers when the page is there:
//
//	asked ── queued ──► begun ──► ended: kept until nobody can ask for it any more
//	           └──── given back: waited too long, asker gone, node stops ────┘
//
// What has begun must end before the asker stops waiting, and before it may lose the server, so that the next request to the
// server does not meet the last. The download is the crawl loop's, with what it finds in the Work; the queue is the frontier's.
package placement
