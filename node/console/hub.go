package console

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// mostStreams is how many event streams are open at once.
	mostStreams = 64
	// tickEvery is how often they get something.
	tickEvery = time.Second
	// patience is how long a reader may take for one tick.
	patience = 10 * time.Second
)

// Hub sends the same events to all who watch. It costs nothing while nobody does.
type Hub struct {
	tick  func(ctx context.Context) []byte // what has happened since the last call, as JSON
	woken chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	streams map[chan []byte]struct{}
	closed  bool
}

// NewHub makes a hub that sends what tick gives, once a second. It sends nothing before Run.
func NewHub(tick func(ctx context.Context) []byte) *Hub {
	return &Hub{tick: tick, woken: make(chan struct{}, 1), streams: map[chan []byte]struct{}{}}
}

// Run feeds the streams until the context ends, and ends them.
func (h *Hub) Run(ctx context.Context) error {
	defer h.close()
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for {
		if h.watched() {
			h.send(h.tick(ctx))
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-h.woken:
		}
	}
}

func (h *Hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams) > 0
}

// send gives each stream a tick; one that has not read the last two misses it.
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

// enter opens a stream; nil where there are too many.
func (h *Hub) enter() chan []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.streams) >= mostStreams {
		return nil
	}
	s := make(chan []byte, 2)
	h.streams[s] = struct{}{}
	select {
	case h.woken <- struct{}{}:
	default:
	}
	return s
}

func (h *Hub) leave(s chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, s)
}

// ServeHTTP is one stream of server-sent events.
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
			for _, part := range [][]byte{[]byte("data: "), event, []byte("\n\n")} {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
			if out.Flush() != nil {
				return
			}
		}
	}
}
