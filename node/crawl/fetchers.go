package crawl

import "sync"

// fetchers starts and ends the goroutines that download, so that there are as many as are wanted.
type fetchers struct {
	// mu guards what follows.
	mu              sync.Mutex
	running, wanted int
	start           func() // starts one more; nil while nothing is crawled
}

// run starts as many fetchers as are wanted, each by a call of start. It returns when over is closed; after that it starts none.
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

// want changes how many fetchers are wanted. Missing ones start at once. Those that are too many end after their task.
func (f *fetchers) want(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted = n
	f.fillLocked()
}

// fillLocked starts those that are missing.
func (f *fetchers) fillLocked() {
	for f.start != nil && f.running < f.wanted {
		f.running++
		f.start()
	}
}

// excess tells the fetcher that calls it whether it has to end.
func (f *fetchers) excess() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running <= f.wanted {
		return false
	}
	f.running--
	return true
}
