package node

import (
	"net/netip"
	"sync"
	"time"

	"proxima/assign"
)

// doubtAfter is how long a node without downloads trusts what it has learnt about itself. After that it trusts it less and less.
const doubtAfter = 30 * time.Second

// performance is what this node learns about itself from its downloads.
type performance struct {
	self string

	// mu guards what follows.
	mu     sync.Mutex
	own    *assign.Own
	learnt time.Time     // when own last learnt or was made to doubt
	mean   time.Duration // moving average of the time of a download
}

func newPerformance(self string) *performance {
	return &performance{self: self, own: assign.NewOwn(assign.Factors{})}
}

// downloaded counts a download for the average.
func (p *performance) downloaded(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mean += (took - p.mean) / 16
}

// learn learns from a download. memory returns what is known of the server, or false if that is nothing. It is called only if needed,
// because it copies.
func (p *performance) learn(server netip.Addr, t assign.Timing, memory func() (*assign.Memory, bool), peers assign.View) {
	now := time.Now()
	p.mu.Lock()
	due := p.own.Due(now)
	p.mu.Unlock()
	var m *assign.Memory
	if memory != nil && due {
		var known bool
		if m, known = memory(); !known {
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.learnt = now
	p.own.Observe(p.self, server, t, m, peers, now)
}

// factors returns how this node differs from what its coordinate predicts. Without downloads it becomes less and less sure: a node that
// was slow once would otherwise never be asked again.
func (p *performance) factors(now time.Time) assign.Factors {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.own.Factors()
	if now.Sub(p.learnt) > doubtAfter {
		p.own, p.learnt = assign.NewOwn(f), now
	}
	return f
}

// wait returns how long a new task would wait here: until the fetchers have finished the servers that are ready.
func (p *performance) wait(ready, inFlight, fetchers int) time.Duration {
	if inFlight < fetchers {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(ready+1) * p.mean / time.Duration(fetchers)
}
