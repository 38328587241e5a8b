package console

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"proxima/node/bell"
)

const (
	// mostStreams bounds the open event streams.
	mostStreams = 64
	// tickEvery is how often each gets an event.
	tickEvery = time.Second
	// patience is how long a reader may take for one event.
	patience = 10 * time.Second
)

// Hub sends the same server-sent events to all watchers. It does nothing while there are none.
type Hub struct {
	tick func(ctx context.Context) []byte // returns the next event as JSON

	// mu guards the fields below.
	mu      sync.Mutex
	streams map[chan []byte]struct{}
	closed  bool
}

// NewHub makes a hub that, once a second while Run runs, sends what tick returns.
func NewHub(tick func(ctx context.Context) []byte) *Hub {
	return &Hub{tick: tick, streams: map[chan []byte]struct{}{}}
}

// Run feeds the streams until ctx ends, and then ends them.
func (h *Hub) Run(ctx context.Context) error {
	defer h.close()
	return bell.Every(ctx, tickEvery, func() {
		if h.watched() {
			h.send(h.tick(ctx))
		}
	})
}

func (h *Hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams) > 0
}

// send gives each stream an event, except for those that have not yet read the last two.
func (h *Hub) send(event []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		select {
		case s <- event:
		default:
		}
	}
}

func (h *Hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.streams {
		close(s)
	}
	clear(h.streams)
}

// enter opens a stream. It returns nil if there are too many.
func (h *Hub) enter() chan []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.streams) >= mostStreams {
		return nil
	}
	s := make(chan []byte, 2)
	h.streams[s] = struct{}{}
	return s
}

func (h *Hub) leave(s chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
}

// ServeHTTP serves one event stream until its reader leaves or the hub ends.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := h.enter()
	if s == nil {
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, "too many watch this node already")
		return
	}
	defer h.leave(s)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for {
		select {
		case <-r.Context().Done():
			return
		case event, open := <-s:
			if !open || out.SetWriteDeadline(time.Now().Add(patience)) != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "data: %s\n\n", event); err != nil || out.Flush() != nil {
				return
			}
		}
	}
}
