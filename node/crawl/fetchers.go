package crawl

import (
	"sync"
	"sync/atomic"
)

// fetchers starts and ends the goroutines that download, so that there are as many as are wanted.
type fetchers struct {
	surplus atomic.Int64 // how many have to end

	// mu guards what follows.
	mu     sync.Mutex
	wanted int
	start  func() // starts one more; nil while nothing is crawled
}

// run starts as many as are wanted. It returns when the channel is closed; after that none is started.
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

// want changes how many are wanted. Missing ones start at once. Those that are too many end after their task.
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

// excess reports to one of them whether it has to end.
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
