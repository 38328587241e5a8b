package bell

import (
	"sync"
	"time"
)

// Hush lets one of many warnings be heard at a time, which stands for all others. The zero value lets the first one be heard. It is safe for
// concurrent use.
type Hush struct {
	// mu guards what follows.
	mu     sync.Mutex
	until  time.Time // of the silence
	silent int       // warnings that were not heard since the last one that was
}

// Heard reports whether a warning is to be heard, which then stands for all others for some time. It returns how many were not heard since the
// last one that was.
func (h *Hush) Heard(now time.Time, stands time.Duration) (silent int, heard bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Before(h.until) {
		h.silent++
		return 0, false
	}
	silent, h.silent = h.silent, 0
	h.until = now.Add(stands)
	return silent, true
}
