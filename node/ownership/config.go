package ownership

import "time"

// Config holds the times of ownership. They depend on one another, so no config key sets one alone; member.faster divides them
// all. In proportion: an owner stops before its home gives the host away, a lost message does not stop it, and a new home hears
// from all owners before it decides.
type Config struct {
	// RenewEvery is how often an owner renews at each home. A shorter time detects deaths sooner and costs more messages.
	RenewEvery time.Duration
	// SuspendAfter is how long an owner goes on without an answer from a host's home, by its own clock. A shorter time is safer when
	// the network is cut, and suspends more hosts when it is slow.
	SuspendAfter time.Duration
	// TakeAfter is how long a home waits for a silent owner before it takes the hosts back; longer than SuspendAfter.
	TakeAfter time.Duration
	// SilentAfter is how long an owner goes on while the node with a host's replica does not answer. If the owner is the one cut
	// off, the pages of that time are downloaded again. If it is shorter than it takes to detect a death, a death suspends hosts.
	SilentAfter time.Duration
	// Collect is how long a home that is new or has just started waits for the owners' claims before it treats a host as unknown;
	// longer than RenewEvery. Links to unknown hosts wait that long.
	Collect time.Duration
	// ReplicateEvery is how long changes of a host gather before they go to its replica. Pages of that time are downloaded again if
	// a disk is lost. Links that a peer delivered wait for a quarter of it at most.
	ReplicateEvery time.Duration
	// SweepEvery is how often all replicas are compared with their hosts: one small message for a few hundred hosts.
	SweepEvery time.Duration
	// ChunkURLs is about how many URLs one message of a hand-off holds, fewer if they are long. More save round trips and take memory at
	// both ends.
	ChunkURLs int
	// CachedRecords is how many records are kept in memory, about 300 bytes each. The others are read from disk.
	CachedRecords int
}

// Default returns the values of the design.
func Default() Config {
	return Config{
		RenewEvery: 15 * time.Second, SuspendAfter: 60 * time.Second, TakeAfter: 90 * time.Second, SilentAfter: 5 * time.Second,
		Collect: 30 * time.Second, ReplicateEvery: time.Second, SweepEvery: 10 * time.Minute, ChunkURLs: 5000, CachedRecords: 65536,
	}
}
