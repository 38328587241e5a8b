package ownership

import "time"

// Config are the times of ownership. They stand in proportion, and no file sets them apart (member.faster divides them): an owner stops before
// its home gives the host away, one lost message does not stop it, and a new home hears from all owners before it decides.
type Config struct {
	// RenewEvery is how often an owner shows each home that it lives. Shorter: deaths are noticed sooner, more messages.
	RenewEvery time.Duration
	// FenceAfter is how long an owner goes on without an answer of a host's home, on its own clock. Shorter: safer when
	// the network is cut, and more crawling stops when it is slow.
	FenceAfter time.Duration
	// TakeAfter is how long a home waits for an owner before it takes the hosts back. It is longer than FenceAfter.
	TakeAfter time.Duration
	// SilentAfter is how long an owner goes on while the node that keeps a host's replica does not answer: pages of that time are
	// downloaded again where it is the owner that is cut off. Shorter than the time until a death is noticed: some hosts stop then.
	SilentAfter time.Duration
	// Collect is how long a new home, and one that has just started beside others, waits for what the owners tell it
	// before it calls a host unknown. Longer than RenewEvery; links to unknown hosts wait that long.
	Collect time.Duration
	// ReplicateEvery is how long changes of a host gather before they go to its replica: pages of that time are downloaded
	// again when a disk is lost. Links that a peer delivered wait for a quarter of it at most.
	ReplicateEvery time.Duration
	// SweepEvery is how often all replicas are compared with the hosts they are copies of. 10 minutes cost one small
	// message a few hundred hosts.
	SweepEvery time.Duration
	// ChunkURLs is how many URLs one message of a hand-off holds, fewer where they are long. More: fewer round trips, more
	// memory at both ends.
	ChunkURLs int
	// CachedRecords is how many records of hosts are kept in memory, about 150 bytes each; the others are read from disk.
	CachedRecords int
}

// Default are the values of the design.
func Default() Config {
	return Config{
		RenewEvery: 15 * time.Second, FenceAfter: 60 * time.Second, TakeAfter: 90 * time.Second, SilentAfter: 5 * time.Second, Collect: 30 * time.Second,
		ReplicateEvery: time.Second, SweepEvery: 10 * time.Minute, ChunkURLs: 5000, CachedRecords: 65536,
	}
}
