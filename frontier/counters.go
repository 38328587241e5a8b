package frontier

import (
	"maps"
	"strings"
	"sync"
	"time"
)

// counters count URLs since the process started. The count of pending URLs begins with those on disk.
type counters struct {
	// mu guards what follows.
	mu  sync.Mutex
	t   Totals
	due map[stamp]int64 // the number of pages to visit again, by their due time in steps of dueStep
}

// dueStep is the step in which due pages are counted, in seconds.
const dueStep = 256

// Totals are the counts of URLs: accepted + at start + arrived = done + failed + dropped + left + pending. URLs of hosts that are not owned
// are only in Held.
type Totals struct {
	Accepted  uint64 `json:"accepted"`
	Duplicate uint64 `json:"duplicate"`
	Done      uint64 `json:"done"`
	Failed    uint64 `json:"failed"`
	Dropped   uint64 `json:"dropped"`
	// Arrived and Left count the pending URLs that came and went with their hosts.
	Arrived uint64 `json:"arrived"`
	Left    uint64 `json:"left"`
	// Held is the number of pending URLs of hosts that are not owned.
	Held int64 `json:"held"`
	// Pending is the number of URLs of owned hosts that are not done.
	Pending int64 `json:"pending"`
	// AtStart is what Pending was when the process started.
	AtStart int64 `json:"at_start"`
	// Pages counts the pages of owned hosts that are visited again. Due counts those that are due now, with an error of some minutes.
	// Revisited counts the visits.
	Pages     int64  `json:"pages"`
	Due       int64  `json:"due"`
	Revisited uint64 `json:"revisited"`
	// Reasons counts failures, drops and refusals by reason.
	Reasons map[string]uint64 `json:"reasons"`
}

// change changes the totals. It is for those that no other method counts.
func (c *counters) change(how func(t *Totals)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how(&c.t)
}

// verdict counts a URL that was offered.
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
		c.reasonLocked(v.String(), 1)
	}
}

// page counts n more pages that are due at a time, or fewer if n is negative. Those of hosts not owned are not counted.
func (c *counters) page(role Role, due stamp, n int) {
	if role != Owned {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Pages += int64(n)
	if c.due[due/dueStep] += int64(n); c.due[due/dueStep] == 0 {
		delete(c.due, due/dueStep)
	}
}

// ended counts n pending URLs that ended in the same way.
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
	c.reasonLocked(reason, n)
}

// maxReasons bounds the reasons that are counted apart. Some reasons have an address or a rule after a colon. Beyond the bound, new ones are
// counted by the text before the colon.
const maxReasons = 500

// reasonLocked counts n URLs for a reason. A host that is given up may have none.
func (c *counters) reasonLocked(reason string, n int) {
	if n == 0 {
		return
	}
	if _, ok := c.t.Reasons[reason]; !ok && len(c.t.Reasons) >= maxReasons {
		reason, _, _ = strings.Cut(reason, ":")
	}
	c.t.Reasons[reason] += uint64(n)
}

// totals returns a copy of the totals.
func (c *counters) totals() Totals {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.t
	t.Reasons = maps.Clone(t.Reasons)
	now := stampOf(time.Now()) / dueStep
	for due, n := range c.due {
		if due < now {
			t.Due += n
		}
	}
	return t
}

// moved counts pending URLs of a host with a role: came of them from another node, and went are done at another node, or with their host there.
func (c *counters) moved(h Role, came, went int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h != Owned {
		c.t.Held += int64(came) - int64(went)
		return
	}
	c.t.Arrived += uint64(came)
	c.t.Left += uint64(went)
	c.t.Pending += int64(came) - int64(went)
}
