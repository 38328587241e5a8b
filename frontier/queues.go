package frontier

import "time"

// fifo is a queue that also takes values at its head. The zero value is empty.
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

// unshift puts v at the head.
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
		// A long queue frees its memory when it becomes empty.
		if cap(q.items) > 1024 {
			q.items = nil
		}
	}
	return v
}

// timed is an element of a timeHeap. The heap tells it its place.
type timed interface {
	at() time.Time
	moved(place int)
}

func (h *host) at() time.Time   { return h.wake }
func (h *host) moved(place int) { h.heapIndex = place }

func (s *server) at() time.Time   { return s.due }
func (s *server) moved(place int) { s.timerAt = place }

// timeHeap is a heap with the earliest time first (container/heap).
type timeHeap[T timed] []T

func (q timeHeap[T]) Len() int           { return len(q) }
func (q timeHeap[T]) Less(i, j int) bool { return q[i].at().Before(q[j].at()) }

func (q timeHeap[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].moved(i)
	q[j].moved(j)
}

// Push appends an element, for container/heap.
func (q *timeHeap[T]) Push(x any) {
	v := x.(T)
	v.moved(len(*q))
	*q = append(*q, v)
}

// Pop removes the last element, for container/heap.
func (q *timeHeap[T]) Pop() any {
	old := *q
	v := old[len(old)-1]
	clear(old[len(old)-1:])
	*q = old[:len(old)-1]
	return v
}
