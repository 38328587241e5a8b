// Package peer carries the peer protocol: the cluster secret and the keys made from it, a server that lets in only
// those who hold it, a client with deadlines and retries, and the outbox, the durable list of links that peers have not
// answered yet. It owns who may speak, how large and how many messages may be, and that no link is lost on its way. It
// does not own what messages mean, which peers exist, or who owns a host: handlers and callbacks say so.
//
// The messages are those of package wire; docs/protocol.md describes the protocol.
package peer
