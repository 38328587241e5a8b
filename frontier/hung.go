package frontier

import (
	"sync"
	"time"
)

// hungAfter is how long the disk may take for one write before it counts as hung. A slow disk needs seconds.
const hungAfter = time.Minute

// calls are the calls to the disk that are under way. A disk that breaks, or whose network is gone, often answers none for minutes.
type calls struct {
	begun sync.Map // from a *time.Time, at which a call began, to nothing
}

// begin notes a call, until end is called.
func (c *calls) begin() (end func()) {
	at := time.Now()
	c.begun.Store(&at, nil)
	return func() { c.begun.Delete(&at) }
}

// hung says whether a call has been under way for too long.
func (c *calls) hung(now time.Time) bool {
	for at := range c.begun.Range {
		if now.Sub(*at.(*time.Time)) >= hungAfter {
			return true
		}
	}
	return false
}

// Hung reports whether the disk has let a write, a sync or a question wait for a minute.
func (f *Frontier) Hung() bool { return f.store.calls.hung(time.Now()) }
