package crawl

import (
	"sync"
	"sync/atomic"
)

// fetchers starts and ends the goroutines that download, so that there are as many as are wanted.
type fetchers struct {
	// They change under mu. A fetcher reads them after each task without it.
	running, wanted atomic.Int64

	// mu guards what follows.
	mu    sync.Mutex
	start func() // starts one more; nil while nothing is crawled
}

// run starts as many as are wanted. It returns when the channel is closed; after that none is started.
func (f *fetchers) run(start func(), over <-chan struct{}) {
	f.mu.Lock()
	f.start = start
	f.fillLocked()
	f.mu.Unlock()
	<-over
	f.mu.Lock()
	f.start = nil
	f.mu.Unlock()
}

// want changes how many are wanted. Missing ones start at once. Those that are too many end after their task.
func (f *fetchers) want(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted.Store(int64(n))
	f.fillLocked()
}

func (f *fetchers) fillLocked() {
	for f.start != nil && f.running.Load() < f.wanted.Load() {
		f.running.Add(1)
		f.start()
	}
}

// excess reports to one of them whether it has to end.
func (f *fetchers) excess() bool {
	if f.running.Load() <= f.wanted.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running.Load() <= f.wanted.Load() {
		return false
	}
	f.running.Add(-1)
	return true
}
