// Package bell wakes a goroutine that has something to do: because another one rings, or because time has passed. It also lets several do
// something at once.
package bell

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
)

// Bell is read by one goroutine, which then looks for all that there is to do. However often others ring meanwhile, it looks once more.
// If several read it, each that finds something rings again for the next.
type Bell chan struct{}

// New makes a Bell.
func New() Bell { return make(Bell, 1) }

// Ring wakes the reader now, or when it next reads. It never waits.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Loop calls do each time the bell rings, and at each interval, until the context ends or do fails. timed says that the interval has passed. A
// bell may be nil, and an interval 0: they never come.
func Loop(ctx context.Context, rung <-chan struct{}, interval time.Duration, do func(timed bool) error) error {
	var passed <-chan time.Time
	if interval > 0 {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		passed = tick.C
	}
	for {
		timed := false
		select {
		case <-ctx.Done():
			return nil
		case <-rung:
		case <-passed:
			timed = true
		}
		if err := do(timed); err != nil {
			return err
		}
	}
}

// Every calls do at each interval until the context ends.
func Every(ctx context.Context, interval time.Duration, do func()) error {
	return Loop(ctx, nil, interval, func(bool) error { do(); return nil })
}

// Sleep waits for a time. It returns an error when the context ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// Backoff returns the pause after the n-th failure in a row, counted from 1. It doubles up to a bound, and half of it is random, so that
// those who failed together do not come back together.
func Backoff(n int, first, most time.Duration) time.Duration {
	d := min(most, first<<min(n-1, 15))
	return d/2 + rand.N(d/2+1)
}

// Each calls do for each of some things, for so many at once, and returns when all calls have.
func Each[T any](atOnce int, things []T, do func(T)) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, one := range things {
		g.Go(func() error { do(one); return nil })
	}
	_ = g.Wait() // none fails
}
