package lease

import (
	"errors"
	"fmt"
	"time"
)

// Config of leases. All nodes of an overlay need the same Time and Skew.
type Config struct {
	// Time is how long a lease lasts. Longer costs fewer messages; a server whose holder or grantor died waits longer.
	Time time.Duration `toml:"time"`
	// Skew is by how much the nodes' views of the members may lag behind one another, those of nodes that are cut off
	// included (member.hear_within). A grantor waits that much longer than a lease before it grants a server again that
	// was not given back.
	Skew time.Duration `toml:"skew"`
	// Founding is how long the first life of a node that nobody told of peers waits before it grants, time and skew at most:
	// it founds an overlay, in which nothing can be granted yet. Shorter begins sooner. Where it only has lost its disk, and is
	// the founder by name, longer lets its peers find it before it asks a server beside one of them.
	Founding time.Duration `toml:"founding"`
	// ReleaseAfter is how long a server must not be wanted before its lease is given back. Longer saves messages for
	// servers that are wanted now and then; shorter lets others have them.
	ReleaseAfter time.Duration `toml:"release_after"`
	// Check is how often the frontier's servers are looked at.
	Check time.Duration `toml:"check"`
	// Timeout of one call to a grantor. With a retry it must fit into the second half of a lease.
	Timeout time.Duration `toml:"timeout"`
	// HeldRetry is when a server is asked for again that another node holds, give or take a quarter.
	HeldRetry time.Duration `toml:"held_retry"`
	// RetryMin is the first pause after a call that failed or a grantor that disagreed; it doubles up to RetryMax.
	RetryMin time.Duration `toml:"retry_min"`
	// RetryMax is the longest such pause.
	RetryMax time.Duration `toml:"retry_max"`
	// Farewell bounds the time in which leases are given back when the node stops. 0 leaves them to run out.
	Farewell time.Duration `toml:"farewell"`
	// Batch is the most items in a message. A message of 500 with their memories is about 1 MiB.
	Batch int `toml:"batch"`
	// MaxServers bounds the servers that this node has granted at a time, in memory (about 200 bytes each).
	MaxServers int `toml:"max_servers"`
	// MemoryEvery is the least time between two memories of one server sent to its grantor.
	MemoryEvery time.Duration `toml:"memory_every"`
	// MemoryKeep is how long the memory of a server that nobody asked for stays on disk.
	MemoryKeep time.Duration `toml:"memory_keep"`
	// MaxMemories bounds them on disk (up to 2 KiB each, 0.5 as a rule); the oldest go first.
	MaxMemories int `toml:"max_memories"`
	// Pace says when a server counts as overloaded.
	Pace PaceConfig `toml:"pace"`
}

// PaceConfig says when a server is overloaded and how much it is spared.
type PaceConfig struct {
	// From is how many times its usual time (assign.Memory.Slowed) a server must take to be spared, where the node's other
	// servers do not; smaller reacts to noise.
	From float64 `toml:"from"`
	// Max bounds the factor on the spacing of requests.
	Max float64 `toml:"max"`
}

// Default suits an overlay over the Internet.
func Default() Config {
	return Config{
		Time: time.Minute, Skew: 30 * time.Second, Founding: 10 * time.Second, ReleaseAfter: 10 * time.Second, Check: time.Second,
		Timeout: 5 * time.Second, HeldRetry: 5 * time.Second, RetryMin: 500 * time.Millisecond, RetryMax: 8 * time.Second,
		Farewell: 2 * time.Second, Batch: 500, MaxServers: 200_000,
		MemoryEvery: 10 * time.Second, MemoryKeep: 30 * 24 * time.Hour, MaxMemories: 200_000,
		Pace: PaceConfig{From: 2, Max: 8},
	}
}

// Validate reports all values that cannot be.
func (c Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.Time >= 100*time.Millisecond && c.Time <= time.Hour, "time: %v is not between 100ms and 1h", c.Time)
	check(c.Skew >= 0 && c.Skew <= c.Time, "skew: %v is not between 0 and the time (%v)", c.Skew, c.Time)
	check(c.Founding >= 0, "founding: %v is negative", c.Founding)
	check(c.ReleaseAfter >= 0, "release_after: %v is negative", c.ReleaseAfter)
	quarter := c.Time / 4
	check(c.Check > 0 && c.Check <= quarter, "check: %v is not between 0 and a quarter of the time (%v)", c.Check, quarter)
	check(c.Timeout > 0 && c.Timeout <= quarter, "timeout: %v is not between 0 and a quarter of the time (%v)", c.Timeout, quarter)
	check(c.HeldRetry > 0, "held_retry: %v is not positive", c.HeldRetry)
	check(c.RetryMin > 0, "retry_min: %v is not positive", c.RetryMin)
	check(c.RetryMax >= c.RetryMin, "retry_max: %v is less than retry_min (%v)", c.RetryMax, c.RetryMin)
	check(c.Farewell >= 0, "farewell: %v is negative", c.Farewell)
	check(c.Batch >= 1 && c.Batch <= maxItems, "batch: %d is not between 1 and %d", c.Batch, maxItems)
	check(c.MaxServers >= 1, "max_servers: %d is not positive", c.MaxServers)
	check(c.MemoryEvery >= 0, "memory_every: %v is negative", c.MemoryEvery)
	check(c.MemoryKeep > 0, "memory_keep: %v is not positive", c.MemoryKeep)
	check(c.MaxMemories >= 1, "max_memories: %d is not positive", c.MaxMemories)
	check(c.Pace.From > 1, "pace.from: %v is not more than 1", c.Pace.From)
	check(c.Pace.Max >= 1, "pace.max: %v is less than 1", c.Pace.Max)
	return errors.Join(faults...)
}

// maxItems is the most items that a message may have; further ones are refused.
const maxItems = 500
