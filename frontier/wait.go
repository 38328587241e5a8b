package frontier

import "context"

// waiter is a caller that waits for the frontier to hand something out.
type waiter[T any] struct {
	answer chan T
	gone   bool // it has stopped waiting; guarded by the frontier's lock
}

func newWaiter[T any]() *waiter[T] { return &waiter[T]{answer: make(chan T, 1)} }

// wait returns the answer, or the error that ended the wait.
func (w *waiter[T]) wait(ctx context.Context, f *front) (answer T, err error) {
	select {
	case answer = <-w.answer:
		return answer, nil
	case <-f.ledger.closed:
	case <-ctx.Done():
	}
	if err = ctx.Err(); err == nil {
		err = ErrClosed
	}
	f.mu.Lock()
	w.gone = true
	f.mu.Unlock()
	select {
	case answer = <-w.answer: // it came before gone was set
		return answer, nil
	default:
		return answer, err
	}
}

// gather waits for a signal until take, called with mu held, returns something.
func gather[T any](ctx context.Context, f *front, signalled <-chan struct{}, take func() []T) ([]T, error) {
	for {
		f.mu.Lock()
		some := take()
		f.mu.Unlock()
		if len(some) > 0 {
			return some, nil
		}
		select {
		case <-signalled:
		case <-f.ledger.closed:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
