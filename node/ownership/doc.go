// Package ownership decides which node crawls a host, keeps two copies of every host, and moves hosts between nodes
// without losing a URL.
//
// It owns the records (host, epoch, owner), the routing of links, replicas, hand-offs and take-overs, and the rules for when an
// owner may crawl. It owns no URLs (the frontier does) and no leases (package lease), and it does not choose the nearest peer
// (package placement): it carries the choice out.
//
// New makes an Ownership, SetView tells it the members, and Run works. Calls of peers go to Renew and Claim (this node is a home), to Store,
// Load and Commit (it owns hosts or keeps replicas), and to Deliver (links). The crawl loop asks Route where links go. Placement asks for
// hand-offs by HandOff and Wish, an operator by Move and Drain. Ownership tells the frontier what it decides: roles (SetRole), and which
// hosts must not be crawled now (Suspend).
//
// docs/overlay.md explains what the package does: who decides, where the copies are, which roles a host has (frontier.Role), hand-offs
// and take-overs. Two rules are behind it all:
//
//   - Every host has a home, computed from its registrable domain and the settled members. The home decides who owns the host, and
//     keeps the decision on disk as a Record. The record with the higher epoch wins, so two nodes agree as soon as they have talked.
//   - Two copies of a host can always be united. So data moves by union first, remove last: a node removes its copy only after the
//     owner and the node with the replica have both confirmed that they stored all of it.
//
// One loop (reconcile.go) compares the record and the members with the role of each host, takes one step, and repeats that until
// they agree.
//
// # Parts
//
// All parts share the book. Each uses only the book and the parts listed before it.
//
//	book        records, members, unfinished business                           book.go, records.go, tallies.go, queue.go, hostlock.go
//	census      this node as a home: who owns its hosts, which owners are gone  census.go
//	replicator  replicas: streams changes to them, mends those that differ      replicate.go, stream.go, union.go, chunk.go
//	rights      this node as an owner: what it may crawl                        rights.go
//	router      links: finds their owner, takes in those for this node          route.go
//	reconciler  hand-offs, take-overs, removal of copies                        reconcile.go, handoff.go, store.go, drain.go
package ownership
