package frontier

import (
	"maps"
	"sync"
)

// counters count URLs since the process started; pending is carried over from the disk.
type counters struct {
	mu sync.Mutex
	// guarded by mu
	t Totals
}

// Totals are the frontier's books: accepted + what was pending at start = done + failed + dropped + pending.
type Totals struct {
	Accepted  uint64 `json:"accepted"`
	Duplicate uint64 `json:"duplicate"`
	Done      uint64 `json:"done"`
	Failed    uint64 `json:"failed"`
	Dropped   uint64 `json:"dropped"`
	// Pending is the number of URLs on disk that are not done.
	Pending int64 `json:"pending"`
	// AtStart is how many of them were there when the process started.
	AtStart int64 `json:"at_start"`
	// Reasons counts failures, drops and refusals by reason.
	Reasons map[string]uint64 `json:"reasons"`
}

func (c *counters) verdict(v Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch v {
	case Accepted:
		c.t.Accepted++
		c.t.Pending++
	case Duplicate:
		c.t.Duplicate++
	default:
		c.reason(v.String(), 1)
	}
}

func (c *counters) known(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Duplicate += uint64(n)
}

func (c *counters) ended(e Ending, reason string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Pending -= int64(n)
	switch e {
	case Done:
		c.t.Done += uint64(n)
		return
	case Failed:
		c.t.Failed += uint64(n)
	case Dropped:
		c.t.Dropped += uint64(n)
	}
	c.reason(reason, n)
}

// reason needs mu held.
func (c *counters) reason(reason string, n int) {
	if c.t.Reasons == nil {
		c.t.Reasons = make(map[string]uint64)
	}
	c.t.Reasons[reason] += uint64(n)
}

func (c *counters) totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.t
	t.Reasons = maps.Clone(t.Reasons)
	return t
}

func (c *counters) start(pending int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Pending, c.t.AtStart = pending, pending
}
