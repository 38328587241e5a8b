package crawl

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An error of one fetcher ends the loop. Otherwise the crawl would stand still without a word once all fetchers have ended.
func TestErrorOfAFetcherEndsTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, new(web))
		b.over.broken = errors.New("its disk is damaged")
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		if err := b.Run(ctx); !errors.Is(err, b.over.broken) || ctx.Err() != nil {
			t.Errorf("it ends with %v after an hour: %v", err, ctx.Err())
		}
	})
}

// There are as many fetchers as are wanted, however that changes, and none when all is over.
func TestFetchersAreAsManyAsAreWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fetchers)
		f.want(3)
		over := make(chan struct{})
		var running, started atomic.Int64
		go f.run(func() {
			started.Add(1)
			running.Add(1)
			go func() {
				defer running.Add(-1)
				for !f.excess() {
					select {
					case <-over:
						return
					case <-time.After(time.Second):
					}
				}
			}()
		}, over)
		for _, n := range []int{3, 1, 1, 5, 2, 4, 64, 1, 10} {
			f.want(n)
			if n == 2 {
				continue // the next comes before they have ended
			}
			time.Sleep(2 * time.Second)
			if got := running.Load(); got != int64(n) {
				t.Errorf("%d run, %d are wanted", got, n)
			}
		}
		close(over)
		synctest.Wait()
		before := started.Load()
		f.want(20)
		synctest.Wait()
		if got, more := running.Load(), started.Load()-before; got != 0 || more != 0 {
			t.Errorf("%d run after the end, %d were started", got, more)
		}
	})
}

// What is marked as live is taken while the loop runs.
func TestAdjust(t *testing.T) {
	l := New(Default(), Deps{})
	l.Adjust(Config{Fetchers: 7, Patience: 7})
	taken := map[string]int64{"Fetchers": int64(l.pool.wanted), "Patience": l.patience.Load()}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if f.Tag.Get("live") != "" && taken[f.Name] != 7 {
			t.Errorf("%s is not taken", f.Name)
		}
	}
}
