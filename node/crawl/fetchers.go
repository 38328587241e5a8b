package crawl

import (
	"context"
	"sync"
	"sync/atomic"
)

// Adjust changes, while it crawls, those values of its configuration that are marked as live.
func (l *Loop) Adjust(cfg Config) {
	next := *l.live.Load()
	next.Fetchers, next.Patience = cfg.Fetchers, cfg.Patience
	l.live.Store(&next)
	l.pool.want(next.Fetchers)
}

// fetchers are the goroutines that download, as many as are wanted now.
type fetchers struct {
	surplus atomic.Int64 // how many are to end

	// mu guards what follows.
	mu     sync.Mutex
	wanted int
	start  func() // starts one more; nil where nothing is crawled
}

// run starts those that are wanted; start makes one. It returns when the channel is closed: from then on none is started.
func (f *fetchers) run(start func(), over <-chan struct{}) {
	f.mu.Lock()
	f.start = start
	for range f.wanted {
		start()
	}
	f.mu.Unlock()
	<-over
	f.mu.Lock()
	f.start = nil
	f.mu.Unlock()
}

// want changes how many there are: more begin at once, and of those that are too many each ends what it is at.
func (f *fetchers) want(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	more := n - f.wanted
	f.wanted = n
	if f.start == nil {
		return
	}
	more = int(-f.surplus.Add(int64(-more)))
	if more > 0 {
		f.surplus.Store(0)
	}
	for range more {
		f.start()
	}
}

// excess says to one of them that it is one too many.
func (f *fetchers) excess() bool {
	for {
		n := f.surplus.Load()
		if n <= 0 {
			return false
		}
		if f.surplus.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// fetchAll carries tasks out until taking ends. A task that is under way then may go on until ctx ends.
func (l *Loop) fetchAll(ctx, taking context.Context) error {
	for !l.pool.excess() && l.limits.reserve(taking) {
		task, err := l.deps.Frontier.Take(taking)
		if err == nil {
			err = l.carryOut(ctx, task)
		} else {
			l.limits.giveBack(false, false)
		}
		if err != nil {
			if ended(err) {
				return nil
			}
			return err
		}
	}
	return nil
}
