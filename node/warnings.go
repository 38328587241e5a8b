package node

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"proxima/node/peer"
	"proxima/node/runlog"
)

// silenceFor is how long one warning of an unavailable peer stands for all others. While peers start, end or are dead, each part of a node
// that calls them would warn again and again.
const silenceFor = 10 * time.Second

// warnings counts those that are not logged.
type warnings struct {
	// mu guards what follows.
	mu     sync.Mutex
	until  time.Time // of the silence
	silent int       // warnings that were not logged since the last one
}

// warn logs a problem that the node lives with.
func (n *Node) warn(err error) {
	text := err.Error()
	if errors.Is(err, peer.ErrUnavailable) && !n.warnings.heard(&text, time.Now()) {
		return
	}
	n.runlog.Events().Warn(runlog.EventWarning, runlog.KeyReason, text)
}

// heard reports whether a warning is to be logged, and adds to its text how many were not.
func (w *warnings) heard(text *string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Before(w.until) {
		w.silent++
		return false
	}
	if w.silent > 0 {
		*text += fmt.Sprintf(" (and %d other calls failed)", w.silent)
	}
	w.until, w.silent = now.Add(silenceFor), 0
	return true
}
