// Package frontier decides which URL is downloaded next, and never forgets one.
//
// It owns the seen set, the pending URLs of every host in three queues (assigned, estimates, discovered), the
// politeness clocks of servers and hosts, and the durable store of all that (Badger). Its parts:
//
//   - the ledger is what is on disk: one goroutine decides what is new, groups the changes of many callers into one
//     transaction and answers them after the commit. Nothing is acknowledged before.
//   - the workbench is what can be crawled now: hosts with a window of their URLs, grouped by server, servers ordered
//     by the time of their next request. Taking the next URL is a matter of heads of queues, never of a scan.
//   - between the two stand activation, which brings hosts onto the workbench, placing, which finds out where they are, leases, and
//     transfers, which carry hosts from node to node. They share a front: one lock, and who waits.
//   - both know the role of a host: owned ones are crawled; those on their way away and replicas are
//     only kept. Export and Import carry a host from node to node in chunks, Changes tells what becomes of it, and a Digest
//     says whether two copies are one.
//   - the workbench obeys what the node is told by others: a server is asked while it is leased (Grant), a host unless
//     it is suspended (Suspend), the servers of a batch by the batch alone (Reserve, TakeFrom). Pages for other nodes (Enqueue) are
//     drawn with one's own. All that is in memory only.
//   - a Shelf keeps what other rooms must remember in the same store.
//   - package identity says when two URLs are one, and which URLs are in scope.
//
// It does not download, does not parse pages or robots.txt, resolves no names, and knows nothing of peers: the node
// carries names, addresses and outcomes between the frontier and the rooms that make them.
package frontier
