// Package ownership decides which node crawls a host, keeps two copies of every host, and moves hosts between nodes
// without losing a URL.
//
// It owns the records (host, epoch, owner), the routing of links, replicas, hand-offs and take-overs, and the rules for when an
// owner may crawl. It owns no URLs (the frontier does) and no leases (package lease), and it does not choose the nearest peer
// (package placement): it carries the choice out.
//
// # Records
//
// Every host has a home, computed from its registrable domain and the settled members. The home decides who owns the host,
// and keeps the decision on disk as a Record. The record with the higher epoch wins, so two nodes agree as soon as they have
// talked. Three rules keep one owner per host:
//
//   - Only the home raises an epoch by itself. An owner that hands a host over proposes a record, and the new owner crawls
//     once the home has confirmed it.
//   - An owner suspends a host if its home has not answered for FenceAfter. The home takes the host back only after TakeAfter.
//   - A node that does not see a majority raises no epoch and crawls nothing.
//
// # Copies
//
// Two copies of a host can always be united, because URLs only change from unknown to known and from known to done. (If a host
// was given up, the copy that knows so decides what is pending.) So data moves by one rule: union first, remove last. A node
// adds what it receives to what it has. It removes its copy only after the owner and the node with the replica have both
// confirmed that they stored all of it. An interrupted transfer leaves too many copies, never too few.
//
// # Roles
//
// The frontier stores what a host is to this node (frontier.Role): owned, leaving or replica. docs/overlay.md draws how the roles
// change. One loop (reconcile.go) compares the record and the members with the role of each host, takes one step, and repeats
// that until they agree.
//
// # Parts
//
// All parts share the book. Each uses only the book and the parts listed before it. The book tells all of them when a record
// changes.
//
//	book        records, members, unfinished business                           book.go, records.go, tallies.go, queue.go
//	census      this node as a home: who owns its hosts, which owners are gone  census.go
//	replicator  replicas: streams changes to them, mends those that differ      replicate.go, stream.go, union.go
//	rights      this node as an owner: what it may crawl                        rights.go
//	router      links: finds their owner, takes in those for this node          route.go
//	reconciler  hand-offs, take-overs, removal of copies                        reconcile.go, handoff.go, store.go, drain.go
package ownership
