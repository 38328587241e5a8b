package frontier

import "context"

// waiter waits for something that the frontier hands out.
type waiter[T any] struct {
	answer chan T
	gone   bool // it waits no longer; guarded by the frontier's lock
}

func newWaiter[T any]() *waiter[T] { return &waiter[T]{answer: make(chan T, 1)} }

// wait returns the answer, or says why there is none.
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
	case answer = <-w.answer: // it came between the two
		return answer, nil
	default:
		return answer, err
	}
}

// gather waits until something is signalled and take returns some, or says why there is none.
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
