package lease

import "time"

// Config of leases. All nodes of an overlay need the same values.
type Config struct {
	// Time is how long a lease lasts, no less than Skew. Longer costs fewer messages; a server whose holder or grantor died waits
	// longer. The other times of leases scale with it.
	Time time.Duration
	// Skew is by how much the nodes' views of the members may lag behind one another, those of nodes that are cut off
	// included (member.Config.HearWithin). A grantor waits that much longer than a lease before it grants a server again that
	// was not given back.
	Skew time.Duration
	// Founding is how long the first life of a node that nobody told of peers waits before it grants, time and skew at most:
	// it founds an overlay, in which nothing can be granted yet. Shorter begins sooner. Where it only has lost its disk, and is
	// the founder by name, longer lets its peers find it before it asks a server beside one of them.
	Founding time.Duration
}

// Default suits an overlay over the Internet.
func Default() Config {
	return Config{Time: time.Minute, Skew: 30 * time.Second, Founding: 10 * time.Second}
}

// Window is how long a grant may live on that nobody hears of.
func (c Config) Window() time.Duration { return c.Time + c.Skew }

// ReleaseAfter is how long a server must not be wanted before its lease is given back.
func (c Config) ReleaseAfter() time.Duration { return c.Time / 6 }

// HeldRetry is when a server is asked for again that another node holds, give or take a quarter.
func (c Config) HeldRetry() time.Duration { return c.Time / 12 }

// check is how often the frontier's servers are looked at while one of them is about to be given back.
func (c Config) check() time.Duration { return c.Time / 60 }

// timeout bounds one call to a grantor. With a retry it fits into the second half of a lease.
func (c Config) timeout() time.Duration { return min(c.Time/4, 5*time.Second) }

// early is how long before its time a lease is renewed where a message goes to its grantor anyway.
func (c Config) early() time.Duration { return c.Time / 4 }

// retryMin is the first pause after a call that failed or a grantor that disagreed; it doubles up to retryMax.
func (c Config) retryMin() time.Duration { return min(500*time.Millisecond, c.retryMax()) }

// retryMax is the longest such pause.
func (c Config) retryMax() time.Duration { return c.Time / 8 }

// memoryEvery is the least time between two memories of one server sent to its grantor.
func (c Config) memoryEvery() time.Duration { return c.Time / 6 }

const (
	// farewell bounds the time in which leases are given back when the node stops.
	farewell = 2 * time.Second
	// maxItems is the most items that a message has; further ones are refused. With their memories it is about 1 MiB.
	maxItems = 500
	// maxServers bounds the servers that a node has granted at a time, in memory (about 200 bytes each).
	maxServers = 200_000
	// memoryKeep is how long the memory of a server that nobody asked for stays on disk.
	memoryKeep = 30 * 24 * time.Hour
	// maxMemories bounds them on disk (up to 2 KiB each, 0.5 as a rule); the oldest go first.
	maxMemories = 200_000
)
