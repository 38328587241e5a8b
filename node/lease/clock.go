package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// tickEvery is how often a Clock looks at itself.
	tickEvery = time.Second
	// gapAfter is how late a look may be. Later, by either clock, the process was frozen or the machine slept.
	gapAfter = 3 * time.Second
	// drift is by how much the wall clock may run away from the monotonic one between two looks, or within one lease.
	drift = time.Second
)

// ErrGap says that this node was stopped, or one of its clocks jumped: what it knew may have ended without its notice.
var ErrGap = errors.New("this node was stopped, or its clock jumped")

// Clock tells whether this node was awake all the time. The monotonic clock stands still while a machine sleeps, the wall
// clock can be set, and a process can be frozen without noticing: so both clocks are read, and compared with a look that
// was taken a second ago. Safe for concurrent use.
type Clock struct {
	// jump is by how much the wall clock was set. A test says so, and freezes this node by answering late.
	jump func() time.Duration

	mu    sync.Mutex
	last  moment
	gaps  uint64
	onGap []func()
}

// moment is one instant by both clocks.
type moment struct{ mono, wall time.Time }

// add is the moment some time later, if nobody sets a clock.
func (m moment) add(d time.Duration) moment { return moment{m.mono.Add(d), m.wall.Add(d)} }

// since is the time from another moment until m by each clock.
func (m moment) since(o moment) (mono, wall time.Duration) {
	return m.mono.Sub(o.mono), m.wall.Sub(o.wall)
}

// NewClock makes a Clock. jump is by how much a test has set the wall clock; nil is the machine's.
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

// OnGap has f called after each gap, before Awake says again that all is well. It must be called before Run.
func (c *Clock) OnGap(f func()) { c.onGap = append(c.onGap, f) }

// Run looks at the clocks until the context ends.
func (c *Clock) Run(ctx context.Context) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		c.look()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look ends what was known if there was a gap since the last look.
func (c *Clock) look() {
	now := c.now()
	c.mu.Lock()
	gap := gapBetween(c.last, now)
	if gap {
		c.gaps++
	} else {
		c.last = now
	}
	c.mu.Unlock()
	if !gap {
		return
	}
	for _, f := range c.onGap {
		f()
	}
	c.mu.Lock()
	c.last = now // if ending it all took long, the next look sees a gap again
	c.mu.Unlock()
}

// gapBetween says whether something may have happened between two looks that this node did not notice.
func gapBetween(last, now moment) bool {
	mono, wall := now.since(last)
	return mono > gapAfter || wall > gapAfter || (wall-mono).Abs() > drift
}

// Awake counts the gaps so far. It is ErrGap where there was one that has not been dealt with: nothing that this node
// knows may be relied on until then.
func (c *Clock) Awake() (gaps uint64, err error) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if gapBetween(c.last, now) {
		return c.gaps, ErrGap
	}
	return c.gaps, nil
}

// Right is the right to ask a server until some time, by both clocks. The zero Right is none.
type Right struct{ until moment }

// NewRight is a right until a time that was counted from time.Now, when the right was given.
func NewRight(until time.Time) Right { return Right{moment{until, until.Round(0)}} }

// ErrOver says that a right has ended, or never was.
var ErrOver = errors.New("the lease is over")

// Check says why a right must not be used now.
func (c *Clock) Check(r Right) error {
	if _, err := c.Awake(); err != nil {
		return err
	}
	return r.check(c.now())
}

// check says why a right is over.
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
