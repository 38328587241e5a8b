package frontier

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A task that ends after the frontier has ended gets an error; it does not wait.
func TestTasksThatEndAfterTheFrontier(t *testing.T) {
	for _, ending := range []Ending{Done, Failed, Dropped} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			l := begin(t, t.TempDir(), cfg, polite, Deps{})
			l.placing(addr1)
			l.add(page("http://h1.test", 1), page("http://h1.test", 2))
			l.finish(l.taking(time.Minute), Outcome{Ending: Done}) // robots.txt
			task := l.taking(time.Minute)
			l.stop()
			_, err := l.Finish(t.Context(), task, Outcome{Ending: ending, Asked: true, Links: []Link{page("http://h2.test", 1)}})
			if !errors.Is(err, ErrClosed) {
				t.Errorf("ending %d: %v", ending, err)
			}
		})
	}
}

// So does a name whose lookup ends then, and whoever asks for more.
func TestNamesThatFailAfterTheFrontier(t *testing.T) {
	for _, refused := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			l := begin(t, t.TempDir(), cfg, polite, Deps{})
			l.add(page("http://h1.test", 1))
			taken := make(chan error, 1)
			go func() {
				_, err := l.Take(t.Context())
				taken <- err
			}()
			name, err := l.Resolve(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.stop()
			if refused {
				_, err = l.Refuse(t.Context(), name, "private", false)
			} else {
				_, err = l.Lost(t.Context(), name, "no such name", false, false)
			}
			if !errors.Is(err, ErrClosed) {
				t.Errorf("refused %t: %v", refused, err)
			}
			if _, err := l.Resolve(t.Context()); !errors.Is(err, ErrClosed) {
				t.Errorf("resolve: %v", err)
			}
			if err := <-taken; !errors.Is(err, ErrClosed) {
				t.Errorf("take: %v", err)
			}
		})
	}
}

// What was given to a caller in the moment in which it gave up is not lost: the caller gets it. Nothing is given afterwards.
func TestAnswersToCallersThatGiveUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &front{ledger: &ledger{closed: make(chan struct{})}}
	for range 100 { // a caller that finds both looks at either first
		w := newWaiter[int]()
		w.answer <- 7
		if answer, err := w.wait(ctx, f); answer != 7 || err != nil {
			t.Fatalf("it gets %d, %v", answer, err)
		}
	}
	w := newWaiter[int]()
	if _, err := w.wait(ctx, f); !errors.Is(err, context.Canceled) || !w.gone {
		t.Errorf("it is gone: %v, %v", w.gone, err)
	}
}
