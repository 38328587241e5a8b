package errand

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// courier carries items to peers: those for one peer share messages, a message that fails is sent again later, and
// peers do not wait for one another. It owns the goroutines that send, no knowledge of what they send.
type courier[T any] struct {
	// send carries items to a peer and returns those that must be sent again; not empty means that the message failed.
	send func(ctx context.Context, to string, items []T) (again []T)
	// size is about the bytes of an item; nil: they are small.
	size func(T) int
	most int // items in a message
	wake chan struct{}

	// mu guards what follows.
	mu    sync.Mutex
	lanes map[string]*lane[T]
}

// lane is what waits for one peer.
type lane[T any] struct {
	items    []T
	due      time.Time // when they are sent, if there are any
	last     time.Time // when a message went
	resting  time.Time // after a failure nothing is sent before
	failures int
	busy     bool
}

func newCourier[T any](most int, size func(T) int, send func(context.Context, string, []T) []T) *courier[T] {
	return &courier[T]{send: send, size: size, most: most, wake: make(chan struct{}, 1), lanes: make(map[string]*lane[T])}
}

// add lets an item go to a peer: after the gathering time, not before gap has passed since the last message, but at
// latest then (if that is set). Waiting items go along.
func (c *courier[T]) add(to string, item T, gather, gap time.Duration, latest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[to]
	if l == nil {
		l = new(lane[T])
		c.lanes[to] = l
	}
	now := time.Now()
	due := now.Add(gather)
	if next := l.last.Add(gap); gap > 0 && !l.last.IsZero() && next.After(due) {
		due = next
	}
	if !latest.IsZero() && latest.Before(due) {
		due = latest
	}
	if len(l.items) == 0 || due.Before(l.due) {
		l.due = due
	}
	l.items = append(l.items, item)
	c.signal()
}

func (c *courier[T]) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// idleLane is how long an empty lane remembers when it was last used.
const idleLane = time.Hour

// run sends until the context ends, and returns when nothing is being sent any more.
func (c *courier[T]) run(ctx context.Context) {
	var g sync.WaitGroup
	defer g.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next := c.start(ctx, &g)
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}
	}
}

// start sends what is due, and says how long nothing else is.
func (c *courier[T]) start(ctx context.Context, g *sync.WaitGroup) (next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	next = time.Hour
	for to, l := range c.lanes {
		switch {
		case l.busy:
			continue
		case len(l.items) == 0:
			if now.Sub(l.last) >= idleLane {
				delete(c.lanes, to)
			}
			continue
		}
		due := l.due
		if l.resting.After(due) {
			due = l.resting
		}
		if wait := due.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		items := c.cut(l)
		l.busy, l.last = true, now
		g.Go(func() {
			again := c.send(ctx, to, items)
			c.sent(l, again)
		})
	}
	return next
}

// cut takes one message off a lane. It needs mu held.
func (c *courier[T]) cut(l *lane[T]) []T {
	n, bytes := 0, 0
	for n < len(l.items) && n < c.most && (n == 0 || bytes <= maxMessageLen) {
		if c.size != nil {
			bytes += c.size(l.items[n])
		}
		n++
	}
	items := l.items[:n:n]
	l.items = append([]T(nil), l.items[n:]...)
	return items
}

// sent ends a message: what must go again comes first.
func (c *courier[T]) sent(l *lane[T], again []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.busy = false
	if len(again) > 0 {
		l.failures++
		l.items = append(again, l.items...)
		l.due = time.Now()
		l.resting = l.due.Add(pause(l.failures))
	} else {
		l.failures, l.resting = 0, time.Time{}
		if len(l.items) > c.most {
			l.due = time.Now()
		}
	}
	c.signal()
}

// Bounds of the wait between two tries of a message.
const (
	minPause = 250 * time.Millisecond
	maxPause = 8 * time.Second
)

// pause is the wait after the n-th failure in a row, drawn from half of it to the whole so that peers that failed
// together do not come back together.
func pause(n int) time.Duration {
	wait := min(minPause<<min(n-1, 10), maxPause)
	return wait/2 + rand.N(wait/2+1)
}

// farewell sends what is left once, whatever is due, and waits for it as long as the context lasts.
func (c *courier[T]) farewell(ctx context.Context) {
	c.mu.Lock()
	var g sync.WaitGroup
	for to, l := range c.lanes {
		for len(l.items) > 0 {
			items := c.cut(l)
			g.Go(func() { c.send(ctx, to, items) })
		}
	}
	c.mu.Unlock()
	g.Wait()
}

// waiting counts the items that wait.
func (c *courier[T]) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, l := range c.lanes {
		n += len(l.items)
	}
	return n
}
