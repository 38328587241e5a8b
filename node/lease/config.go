package lease

import "time"

// Config sets the times of leases. All nodes of an overlay need the same values.
type Config struct {
	// Time is how long a lease lasts, at least Skew. A longer time saves messages; a server waits longer when its holder or grantor
	// dies. The other times scale with it.
	Time time.Duration
	// Skew is how far the views of two nodes may lag behind one another, even if one is cut off (member.Config.HearWithin). A
	// grantor waits that much longer than a lease before it grants a server again that was not given back.
	Skew time.Duration
	// Founding is how long the founder of an overlay, a new node that was told of no peers, waits before it grants; Time and Skew at
	// most. If it is really an old member that has lost its disk, a longer time lets its peers find it first.
	Founding time.Duration
}

// Default returns values for an overlay over the Internet.
func Default() Config {
	return Config{Time: time.Minute, Skew: 30 * time.Second, Founding: 10 * time.Second}
}

// Window is how long a grant may live without anybody hearing of it.
func (c Config) Window() time.Duration { return c.Time + c.Skew }

// ReleaseAfter is how long a server must be unwanted before its lease is given back.
func (c Config) ReleaseAfter() time.Duration { return c.Time / 6 }

// HeldRetry is when to ask again for a server that another node holds, give or take a quarter.
func (c Config) HeldRetry() time.Duration { return c.Time / 12 }

// lookEvery is how often the Holder looks at the frontier's servers. Another node may wait for one that is no longer in use.
func (c Config) lookEvery() time.Duration { return min(c.Time/60, time.Second) }

// timeout bounds a call to a grantor. Two calls fit into the second half of a lease.
func (c Config) timeout() time.Duration { return min(c.Time/4, 5*time.Second) }

// early is how much earlier a lease may be renewed if a message goes to its grantor anyway.
func (c Config) early() time.Duration { return c.Time / 4 }

// retryMin is the first pause after a failed call or a grantor that disagreed. It doubles up to retryMax.
func (c Config) retryMin() time.Duration { return min(500*time.Millisecond, c.retryMax()) }

// retryMax is the longest such pause.
func (c Config) retryMax() time.Duration { return c.Time / 8 }

const (
	// farewell is how long a stopping node may take to give its leases back.
	farewell = 2 * time.Second
	// maxItems bounds the items of a message; a grantor refuses further ones. With memories, that is about 1 MiB.
	maxItems = 500
	// maxServers bounds the servers that a node has granted at a time, about 200 bytes of memory each.
	maxServers = 200_000
	// memoryKeep is how long the memory of an unused server stays on disk.
	memoryKeep = 30 * 24 * time.Hour
	// maxMemories bounds the memories on disk, mostly 0.5 KiB and at most 2 KiB each. The oldest go first.
	maxMemories = 200_000
)
