// Package ownership decides which node crawls a host, keeps two copies of every host, and moves hosts between nodes
// without losing a URL.
//
// It owns the records (host, epoch, owner), the routing of links by them, replicas, hand-offs, take-overs, and what an
// owner must know to crawl at all. It owns no URL (that is the frontier), no lease of a server (package lease), and does
// not choose the nearest peer (package placement): it carries choices out.
//
// # Records
//
// Every host has a home: a function of its registrable domain and the settled members. The home decides who owns the
// host; what it decided is a Record on its disk. Of two records the one with the higher epoch wins, so that whatever two
// nodes believe, they agree once they have spoken. Three rules keep one owner per host:
//
//   - Only the home raises an epoch by itself. An owner that hands a host over proposes a record, and the new owner
//     crawls when the home has confirmed it.
//   - An owner whose home has not answered for FenceAfter suspends the host; the home gives it away after TakeAfter.
//   - A node that cannot see a majority raises nothing and crawls nothing.
//
// # Copies
//
// What two nodes have of a host can always be united: URLs only come to be known, and known ones only come to be done
// (where a host was given up, the copy that knows of it is right about what is pending). So data moves by one rule, union
// first, remove last: a node unites what it is given with what it has, and removes what it has only after the owner and
// the node with the replica have said that they stored all of it. A transfer that breaks off leaves more behind, never less.
//
// # Roles
//
// What a host is to a node is kept in the frontier (frontier.Role):
//
//	             first link, take-over, commit of a hand-off to here
//	(nothing) ─────────────────────────────────────────────► owned ◄───────────┐
//	    │                                                     │ ▲              │
//	    │ data stored by a peer            hand-off begins    │ │ refused, or  │ take-over, commit
//	    ▼                                                     ▼ │ settled      │ of a hand-off to here
//	 replica ◄───────────────── hand-off committed ──────── leaving            │
//	    │  ▲ └─────────────────────────────────────────────────────────────────┘
//	    │  └──────────────────── a newer record names another owner ── owned
//	    ▼
//	(nothing): the owner and the node with the replica have all of it, and this node is neither
//
// # Parts
//
// All parts share a book: the records, the members, and what is open about a host. Each uses only the book and the parts
// above it; when a record changes, the book tells them all.
//
//	book        records, members, what is open                                         book.go, records.go, tallies.go, queue.go
//	census      this node as a home: who owns its hosts, and who of them is gone       census.go
//	replicator  the second copies: what changes goes there, what differs is mended     replicate.go, stream.go, union.go
//	rights      this node as an owner: what its homes confirmed, what may be crawled   rights.go
//	router      links: whose they are, which are taken in                              route.go
//	reconciler  steps: hand-offs, take-overs, data that is not this node's             reconcile.go, handoff.go, store.go, drain.go
//
// One loop (reconcile.go) compares, for each host, the record and the members with the role, takes one step, and comes
// back until they agree.
package ownership
