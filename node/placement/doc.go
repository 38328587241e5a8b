// Package placement chooses nodes for hosts. For that it lets nodes download pages for one another: an estimate is a page of
// the crawl whose timing shows how far a node is from a server.
//
// A remote fetch (RemoteFetch) is one page. Who wants it sends an ask until the peer acknowledges it, and waits for the
// answer for a bounded time. Work that has waited too long for a fetcher is given back unmade; what has begun must end before
// the asker stops waiting, so that the asker may then send the next request to the same server without meeting the last. The
// answer is sent until it arrives, for as long. All of it is in memory, and bounded. The download itself is the crawl loop's,
// with what it finds in the Work; the queue is the frontier's.
package placement
