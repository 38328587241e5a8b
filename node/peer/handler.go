// Package peer carries the peer protocol. It has the cluster secret with the keys derived from it, a server that admits
// only holders of the secret, a client with deadlines and retries, and the outbox, the durable list of links that peers
// have not answered yet. It decides who may talk, how large and how many messages may be, and sees to it that no link
// is lost. It does not decide what messages mean, which peers exist, or who owns a host: handlers and callbacks do.
//
// The messages are those of package wire; docs/protocol.md describes the protocol.
package peer

import (
	"context"

	"proxima/node/wire"
)

// Version is the version of the peer protocol, in the header of every request.
const Version = 4

// Handler carries out the calls of peers. From is the peer's id, proved by its certificate.
//
// A message comes at least once: a client repeats it if the answer was lost, with the same (sender, boot, id) in its
// header. Handlers are idempotent; none keeps a list of messages seen. They are called concurrently and must not wait
// for calls to other peers, so that accepting never waits for sending. Only Fetch and Deliver wait, for a download and
// for a replica, and they bound how many calls do. The handler owns the request.
//
// ErrMalformed tells the caller that the message will never be understood, ErrUnavailable that it may be sent again
// soon. Any other error is a fault of this node. After an error the caller changes nothing.
type Handler interface {
	Deliver(ctx context.Context, from string, req *wire.DeliverRequest) (*wire.DeliverResponse, error)
	Lease(ctx context.Context, from string, req *wire.LeaseRequest) (*wire.LeaseResponse, error)
	Rights(ctx context.Context, from string, req *wire.RightsRequest) (*wire.RightsResponse, error)
	Renew(ctx context.Context, from string, req *wire.RenewRequest) (*wire.RenewResponse, error)
	Claim(ctx context.Context, from string, req *wire.ClaimRequest) (*wire.ClaimResponse, error)
	Store(ctx context.Context, from string, req *wire.StoreRequest) (*wire.StoreResponse, error)
	Load(ctx context.Context, from string, req *wire.LoadRequest) (*wire.LoadResponse, error)
	Commit(ctx context.Context, from string, req *wire.CommitRequest) (*wire.CommitResponse, error)
	Fetch(ctx context.Context, from string, req *wire.FetchRequest) (*wire.FetchResponse, error)
	Idle(ctx context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error)
	Quota(ctx context.Context, from string, req *wire.QuotaRequest) (*wire.QuotaResponse, error)
	Ask(ctx context.Context, from string, req *wire.AskRequest) (*wire.AskResponse, error)
}

// Told is what a node has been told about the crawl: what the seeds of all nodes bring into scope, and what is blocked.
// Entries are added, or replaced by newer ones. Each call carries the digest of what its sender knows; a callee that
// does not know all of that refuses the call, is told, and is then called again. So whoever is given a host or a link
// knows the scope that it belongs to. Methods are called concurrently.
type Told interface {
	// Entries returns all entries and their digest, 0 for none; Digest returns the digest alone.
	Entries() (entries []string, digest uint64)
	Digest() uint64
	// Knows reports whether this node has every entry behind a digest, or a newer one in its place.
	Knows(digest uint64) bool
	// Unite adds entries, on disk before it returns. If whole is not 0, these entries are the last ones and whole is
	// the digest of all.
	Unite(entries []string, whole uint64) error
}
