// Package home decides who owns a host and moves hosts between nodes without losing a URL. It owns the records of
// hosts, the routing of links by them, hand-offs, second copies, and the fence by which an owner that its home no longer
// hears stops. It owns no URL (that is the frontier), no lease of a server (lease), and no choice of the nearest peer
// (batch and assign): it carries choices out.
//
// The home of a host is a function of a view (the settled members); what it decides is a Record on its disk. A record
// with a higher epoch wins over one with a lower, so that whatever two nodes believe, they agree once they have spoken.
// Three rules keep one owner per host:
//
//   - Only the home raises an epoch by itself; a former owner that hands a host on proposes, and the new owner crawls
//     only when the home has confirmed it (claim.go).
//   - An owner whose home has not answered for FenceAfter stops (fence.go); the home assigns anew only after TakeAfter.
//   - The smaller side of a partition raises nothing and crawls nothing (view.go).
//
// Whatever is in doubt after a crash is settled by raising the epoch beyond what may have been proposed (handoff.go).
package home
