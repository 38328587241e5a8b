package ownership

import (
	"errors"
	"fmt"
	"time"
)

// Config are the times of ownership. They stand in proportion: an owner stops before its home gives the host away.
type Config struct {
	// RenewEvery is how often an owner shows each home that it lives. Shorter: deaths are noticed sooner, more messages.
	RenewEvery time.Duration `toml:"renew_every"`
	// FenceAfter is how long an owner goes on without an answer of a host's home, on its own clock. Shorter: safer when
	// the network is cut, and more crawling stops when it is slow.
	FenceAfter time.Duration `toml:"fence_after"`
	// TakeAfter is how long a home waits for an owner before it takes the hosts back. It must be longer than fence_after.
	TakeAfter time.Duration `toml:"take_after"`
	// Collect is how long a new home, and one that has just started beside others, waits for what the owners tell it
	// before it calls a host unknown. Longer than renew_every; links to unknown hosts wait that long.
	Collect time.Duration `toml:"collect"`
	// ReplicateEvery is how long changes of a host gather before they go to its replica: pages of that time are downloaded
	// again when a disk is lost. Links that a peer delivered wait for a quarter of it at most.
	ReplicateEvery time.Duration `toml:"replicate_every"`
	// SweepEvery is how often all replicas are compared with the hosts they are copies of. 10 minutes cost one small
	// message a few hundred hosts.
	SweepEvery time.Duration `toml:"sweep_every"`
	// ChunkURLs is how many URLs one message of a hand-off holds, fewer where they are long. More: fewer round trips, more
	// memory at both ends.
	ChunkURLs int `toml:"chunk_urls"`
	// CachedRecords is how many records of hosts are kept in memory, about 150 bytes each; the others are read from disk.
	CachedRecords int `toml:"cached_records"`
}

// Default are the values of the design.
func Default() Config {
	return Config{
		RenewEvery: 15 * time.Second, FenceAfter: 60 * time.Second, TakeAfter: 90 * time.Second, Collect: 30 * time.Second,
		ReplicateEvery: time.Second, SweepEvery: 10 * time.Minute, ChunkURLs: 5000, CachedRecords: 65536,
	}
}

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	var errs []error
	positive := func(key string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be longer than 0", key))
		}
	}
	positive("renew_every", c.RenewEvery)
	positive("replicate_every", c.ReplicateEvery)
	positive("sweep_every", c.SweepEvery)
	if c.FenceAfter < 2*c.RenewEvery {
		errs = append(errs, errors.New("fence_after: must be at least twice renew_every, or one lost message stops the crawl"))
	}
	if c.TakeAfter <= c.FenceAfter {
		errs = append(errs, errors.New("take_after: must be longer than fence_after, or two nodes crawl one host"))
	}
	if c.Collect <= c.RenewEvery {
		errs = append(errs, errors.New("collect: must be longer than renew_every, or a new home knows too little"))
	}
	if c.ChunkURLs < 1 || c.ChunkURLs > 50000 {
		errs = append(errs, errors.New("chunk_urls: must be 1 to 50000"))
	}
	if c.CachedRecords < 1000 {
		errs = append(errs, errors.New("cached_records: must be at least 1000"))
	}
	return errors.Join(errs...)
}
