package frontier

import (
	"container/heap"
	"slices"
	"time"
)

// fifo is a queue that also takes values at its head.
type fifo[T any] []T

func (q *fifo[T]) push(v T) { *q = append(*q, v) }

func (q *fifo[T]) unshift(v T) { *q = slices.Insert(*q, 0, v) }

func (q *fifo[T]) pop() T {
	v := (*q)[0]
	clear((*q)[:1])
	if *q = (*q)[1:]; len(*q) == 0 {
		*q = nil // else an empty queue keeps its memory
	}
	return v
}

// total returns how many values some queues hold.
func total[T any](queues *[origins]fifo[T]) (n int) {
	for o := range queues {
		n += len(queues[o])
	}
	return n
}

// slot is the place of a value in a timeHeap. Values embed it.
type slot struct {
	when  time.Time // the key
	index int       // counted from 1; 0 outside
}

func (s *slot) slotted() *slot { return s }

// timeHeap is a heap with the earliest time first.
type timeHeap[T interface{ slotted() *slot }] []T

// put puts a value into the heap, or moves it there.
func (q *timeHeap[T]) put(v T, when time.Time) {
	s := v.slotted()
	if s.when = when; s.index > 0 {
		heap.Fix(q, s.index-1)
	} else {
		heap.Push(q, v)
	}
}

// remove takes a value out of the heap, if it is there.
func (q *timeHeap[T]) remove(v T) {
	if s := v.slotted(); s.index > 0 {
		heap.Remove(q, s.index-1)
	}
}

// first returns the earliest time; zero if the heap is empty.
func (q timeHeap[T]) first() time.Time {
	if len(q) == 0 {
		return time.Time{}
	}
	return q[0].slotted().when
}

func (q timeHeap[T]) due(now time.Time) bool { return len(q) > 0 && !q.first().After(now) }

// Len, Less, Swap, Push and Pop are for container/heap.
func (q timeHeap[T]) Len() int           { return len(q) }
func (q timeHeap[T]) Less(i, j int) bool { return q[i].slotted().when.Before(q[j].slotted().when) }

func (q timeHeap[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].slotted().index, q[j].slotted().index = i+1, j+1
}

func (q *timeHeap[T]) Push(x any) {
	v := x.(T)
	*q = append(*q, v)
	v.slotted().index = len(*q)
}

func (q *timeHeap[T]) Pop() any {
	old := *q
	v := old[len(old)-1]
	v.slotted().index = 0
	clear(old[len(old)-1:])
	*q = old[:len(old)-1]
	return v
}
