package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"proxima/node/bell"
	"proxima/node/peer"
)

const (
	// tickEvery is how often a Clock looks at itself.
	tickEvery = time.Second
	// gapAfter is how much time may pass between two looks. If more has passed by either clock, the process or machine slept.
	gapAfter = 3 * time.Second
	// drift is how far the two clocks may run apart between two looks, or within a lease.
	drift = time.Second
)

// ErrGap is returned while this node must not rely on what it knew, because it was frozen or one of its clocks jumped.
// Peers that asked try again.
const ErrGap = peer.Later("this node was stopped, or its clock jumped")

// Clock detects gaps: times in which this node was not running. The monotonic clock stops while a machine sleeps, the wall clock
// can be set, and a frozen process notices nothing. So Clock reads both every second and compares them with the last reading. It
// is safe for concurrent use.
type Clock struct {
	// jump returns how far a test has set the wall clock. A test freezes the node by answering late.
	jump func() time.Duration

	mu    sync.Mutex
	last  moment
	onGap []func()
}

// moment is an instant by both clocks.
type moment struct{ mono, wall time.Time }

// add returns the moment some time later, provided that nobody sets a clock.
func (m moment) add(d time.Duration) moment { return moment{m.mono.Add(d), m.wall.Add(d)} }

// since returns the time from o until m by each clock.
func (m moment) since(o moment) (mono, wall time.Duration) {
	return m.mono.Sub(o.mono), m.wall.Sub(o.wall)
}

// NewClock makes a Clock. jump returns how far a test has set the wall clock; nil outside tests.
func NewClock(jump func() time.Duration) *Clock {
	c := &Clock{jump: jump}
	c.last = c.now()
	return c
}

func (c *Clock) now() moment {
	var jump time.Duration
	if c.jump != nil {
		jump = c.jump()
	}
	now := time.Now()
	return moment{now, now.Round(0).Add(jump)}
}

// OnGap registers f to be called after each gap, before Awake succeeds again. It must not be called after Run.
func (c *Clock) OnGap(f func()) { c.onGap = append(c.onGap, f) }

// Run watches the clocks until the context ends.
func (c *Clock) Run(ctx context.Context) error {
	c.look()
	return bell.Every(ctx, tickEvery, c.look)
}

// look calls the OnGap functions if there was a gap since the last look.
func (c *Clock) look() {
	now := c.now()
	if c.missed(now) {
		for _, f := range c.onGap {
			f()
		}
	}
	c.mu.Lock()
	c.last = now // not the present: if the calls took long, the next look finds another gap
	c.mu.Unlock()
}

// Awake returns ErrGap if there was a gap that the OnGap functions have not dealt with yet.
func (c *Clock) Awake() error {
	if c.missed(c.now()) {
		return ErrGap
	}
	return nil
}

// missed reports whether there was a gap between the last look and now.
func (c *Clock) missed(now moment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, wall := now.since(c.last)
	return mono > gapAfter || wall > gapAfter || (wall-mono).Abs() > drift
}

// Right is the right to ask a server until some time by both clocks. The zero Right is none.
type Right struct{ until moment }

// NewRight makes a right until a time that was computed from time.Now.
func NewRight(until time.Time) Right { return Right{moment{until, until.Round(0)}} }

// ErrOver is returned for a right that has ended, or never existed.
var ErrOver = errors.New("the lease is over")

// Check returns an error if a right must not be used now.
func (c *Clock) Check(r Right) error {
	if err := c.Awake(); err != nil {
		return err
	}
	return r.check(c.now())
}

// check returns an error if a right is over at a moment.
func (r Right) check(now moment) error {
	mono, wall := r.until.since(now)
	switch {
	case mono <= 0 || wall <= 0:
		return ErrOver
	case (wall - mono).Abs() > drift:
		return fmt.Errorf("%w: it is over in %v by one clock, in %v by the other", ErrGap, mono, wall)
	}
	return nil
}
