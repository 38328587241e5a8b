package crawl

import (
	"context"
	"math"
	"sync"
)

// Limits bound the pages and bytes of a crawl. A task takes a place before it is taken from the frontier, and keeps it until it is
// known whether it counts as a page. So the limit of pages is never exceeded, however many downloads are under way. In an overlay the
// limits of the configuration hold for all nodes together: Allow and End then say what they mean for this one.
type Limits struct {
	cfg Config
	// idle reports whether the frontier has nothing to download. It is nil where the limits are those of one node.
	idle func() bool

	// mu guards what follows.
	mu sync.Mutex
	// allowed is how many pages may count. pages counts those that do, and places the tasks that may still become pages. begun counts the places whose
	// task is being carried out.
	allowed, pages, places, begun int64
	bytes                         int64
	reached                       string        // the key of the limit that is reached
	freed                         chan struct{} // closed when a place becomes free
	enough                        chan struct{} // closed when a limit is reached
}

// NewLimits returns the limits of a node. idle reports whether the frontier of a node of an overlay, which starts without a page to request, has
// nothing to download. It is nil for a node that crawls alone.
func NewLimits(cfg Config, idle func() bool) *Limits {
	l := &Limits{cfg: cfg, idle: idle, freed: make(chan struct{}), enough: make(chan struct{})}
	if cfg.MaxPages == 0 {
		l.allowed = math.MaxInt64
	} else if idle == nil {
		l.allowed = cfg.MaxPages
	}
	return l
}

// shared reports whether the limits are those of a whole overlay.
func (l *Limits) shared() bool { return l.idle != nil }

// reserve takes a place, and waits while all are taken. It returns false when there will be none.
func (l *Limits) reserve(ctx context.Context) bool {
	for {
		ok, freed := l.try()
		if ok {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-l.enough:
			return false
		case <-freed:
		}
	}
}

// try takes a place if one is free. Otherwise it returns a channel that is closed when one may be.
func (l *Limits) try() (ok bool, freed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reached != "" || l.pages+l.places >= l.allowed {
		return false, l.freed
	}
	l.places++
	return true, nil
}

// join takes a place for a task that was taken without one, even if none is free. begin then says whether the task may be carried out.
func (l *Limits) join() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places++
}

// begin reports whether a task with a place may be carried out. It may not if a limit is reached, if join gave a
// place too many, or if Withdraw took it back.
func (l *Limits) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reached != "" || l.pages+l.begun >= l.allowed {
		return false
	}
	l.begun++
	return true
}

// giveBack ends a place. begun is what begin returned. The place becomes free again unless the task became a page.
func (l *Limits) giveBack(begun, page bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.places--
	if begun {
		l.begun--
	}
	if page {
		l.pages++
	} else if l.cfg.MaxPages > 0 {
		l.wakeLocked()
	}
	if page && !l.shared() && l.pages == l.cfg.MaxPages {
		l.endLocked("max_pages")
	}
}

// wakeLocked wakes those who wait for a place.
func (l *Limits) wakeLocked() {
	close(l.freed)
	l.freed = make(chan struct{})
}

// received counts bytes of bodies.
func (l *Limits) received(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes += bytes; l.cfg.MaxBytes > 0 && !l.shared() && l.bytes >= l.cfg.MaxBytes {
		l.endLocked("max_bytes")
	}
}

// End ends the crawl because the limit with this key is reached.
func (l *Limits) End(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(key)
}

func (l *Limits) endLocked(key string) {
	if l.reached == "" {
		l.reached = key
		close(l.enough)
	}
}

// why returns the key of the limit that ended the crawl, or "" if none is reached. Once one is, no request may begin.
func (l *Limits) why() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reached
}

// wantsBelow is how many more pages a node may request when it asks for more: so it has them before it waits for them.
const wantsBelow = 100

// Spent returns how many pages and bytes count at this node. wants means that it could use more pages than it is allowed.
func (l *Limits) Spent() (pages, bytes int64, wants bool) {
	idle := l.idle()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pages, l.bytes, !idle && l.reached == "" && l.allowed-l.pages-l.begun < wantsBelow
}

// Allow sets how many pages this node may request in all. It must not be called while Withdraw runs.
func (l *Limits) Allow(pages int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowed = max(pages, l.pages+l.begun)
	l.wakeLocked()
}

// Withdraw takes back the pages that this node may request and has not begun to, and returns how many.
func (l *Limits) Withdraw() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.allowed - l.pages - l.begun
	l.allowed -= n
	return n
}
