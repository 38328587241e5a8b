package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// silenceFor is how long one warning of an unavailable peer stands for all others. While peers start, end or are dead, each part of a node
// that calls them would warn again and again.
const silenceFor = 10 * time.Second

// warnings lets one of many warnings through at a time.
type warnings struct {
	// mu guards what follows.
	mu     sync.Mutex
	until  time.Time // of the silence
	silent int       // warnings that were not logged since the last one
}

// warn logs a problem that the node lives with.
func (n *Node) warn(err error) {
	text := err.Error()
	if errors.Is(err, peer.ErrUnavailable) {
		silent, heard := n.warnings.heard(time.Now(), silenceFor)
		if !heard {
			return
		}
		if silent > 0 {
			text += fmt.Sprintf(" (and %d other calls failed)", silent)
		}
	}
	n.runlog.Events().Warn(runlog.EventWarning, runlog.KeyReason, public(text))
}

// followFile has a file read at each interval, to follow its changes. It warns of each error once.
func (n *Node) followFile(ctx context.Context, every time.Duration, read func() error) error {
	warned := ""
	return bell.Every(ctx, every, func() {
		err := read()
		switch {
		case err == nil:
			warned = ""
		case err.Error() != warned:
			warned = err.Error()
			n.warn(err)
		}
	})
}

// heard reports whether a warning is to be logged, which then stands for all others for some time. It returns how many were not logged
// since the last one.
func (w *warnings) heard(now time.Time, stands time.Duration) (silent int, heard bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Before(w.until) {
		w.silent++
		return 0, false
	}
	silent, w.silent = w.silent, 0
	w.until = now.Add(stands)
	return silent, true
}
