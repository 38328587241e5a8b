package frontier

// fifo is a queue with pushes at both ends. The zero value is empty.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) {
	if q.head > 32 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// unshift puts v where pop takes next.
func (q *fifo[T]) unshift(v T) {
	if q.head == 0 {
		q.items = append([]T{v}, q.items...)
		return
	}
	q.head--
	q.items[q.head] = v
}

func (q *fifo[T]) peek() *T { return &q.items[q.head] }

func (q *fifo[T]) pop() T {
	var zero T
	v := q.items[q.head]
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		// An empty queue that once was long gives its memory back.
		if cap(q.items) > 1024 {
			q.items = nil
		}
	}
	return v
}
