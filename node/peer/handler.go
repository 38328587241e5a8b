// Package peer carries the peer protocol: the cluster secret and the keys made from it, a server that lets in only
// those who hold it, a client with deadlines and retries, and the outbox, the durable list of links that peers have not
// answered yet. It owns who may speak, how large and how many messages may be, and that no link is lost on its way. It
// does not own what messages mean, which peers exist, or who owns a host: handlers and callbacks say so.
//
// The messages are those of package wire; docs/protocol.md describes the protocol.
package peer

import (
	"context"

	"proxima/node/wire"
)

// Version is the version of the peer protocol, in the header of every request.
const Version = 4

// Handler carries out the calls of peers. From is the id of the peer, proved by its certificate.
//
// Messages come at least once: a client repeats one whose answer was lost, with the same (sender, boot, id) in its
// header. Handlers are idempotent; none needs a list of what it has seen. They are called concurrently, and must not
// wait for calls to other peers: accepting never waits for sending. Fetch and Deliver alone wait, for a download and for a
// replica, and bound how many calls do. The request is the handler's own.
//
// An error that is ErrMalformed tells the caller that the message will never be understood, ErrUnavailable that it may
// be sent again soon; any other is a fault of this node. All change nothing at the caller.
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

// Told is what a node has been told about the crawl: what the seeds of all nodes bring into scope, and what is blocked. It only grows, or what it
// has of something is replaced by what is newer. A call tells the digest of its sender's; a callee that does not know all of that refuses it, is
// told, and then asked again. So whoever is given a host or a link knows the scope that it belongs to. It is called concurrently.
type Told interface {
	// Entries returns all and its digest, 0 where there is nothing; Digest the digest alone.
	Entries() (entries []string, digest uint64)
	Digest() uint64
	// Knows says whether this node has every entry of a digest, or a newer one in its place.
	Knows(digest uint64) bool
	// Unite adds entries, on disk before it returns. Where whole is not 0 it is the digest of all of which these were the last.
	Unite(entries []string, whole uint64) error
}
