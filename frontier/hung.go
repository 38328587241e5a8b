package frontier

import (
	"sync"
	"time"
)

// hungAfter is how long the disk may take for one write before it counts as hung. A slow disk needs seconds.
const hungAfter = time.Minute

// calls are the calls to the disk that are under way. A disk that breaks, or whose network is gone, often answers none for minutes.
type calls struct {
	mu    sync.Mutex
	begun map[*time.Time]struct{}
}

// begin notes a call, until end is called.
func (c *calls) begin() (end func()) {
	at := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun == nil {
		c.begun = make(map[*time.Time]struct{})
	}
	c.begun[&at] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.begun, &at)
	}
}

// hung says whether a call has been under way for too long.
func (c *calls) hung(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := range c.begun {
		if now.Sub(*at) >= hungAfter {
			return true
		}
	}
	return false
}

// Hung reports whether the disk has let a write, a sync or a question wait for a minute.
func (f *Frontier) Hung() bool { return f.store.calls.hung(time.Now()) }
