package frontier

import "time"

// timed is what stands in a timeHeap: it knows its time, and is told its place.
type timed interface {
	at() time.Time
	moved(place int)
}

func (h *host) at() time.Time   { return h.wake }
func (h *host) moved(place int) { h.heapIndex = place }

func (s *server) at() time.Time   { return s.due }
func (s *server) moved(place int) { s.timerAt = place }

// timeHeap orders by time, the earliest first (container/heap).
type timeHeap[T timed] []T

func (q timeHeap[T]) Len() int           { return len(q) }
func (q timeHeap[T]) Less(i, j int) bool { return q[i].at().Before(q[j].at()) }

func (q timeHeap[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].moved(i)
	q[j].moved(j)
}

// Push and Pop are for container/heap.
func (q *timeHeap[T]) Push(x any) {
	v := x.(T)
	v.moved(len(*q))
	*q = append(*q, v)
}

// Pop takes the last.
func (q *timeHeap[T]) Pop() any {
	old := *q
	v := old[len(old)-1]
	clear(old[len(old)-1:])
	*q = old[:len(old)-1]
	return v
}
