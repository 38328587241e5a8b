package netsim

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
)

// plan is the list of future events, by time since the start of the network.
type plan struct {
	now    time.Duration // everything due before is done; during an event, the event's time
	real   time.Duration // the clock when advance began
	events events
	count  uint64
	timer  *time.Timer
	alarm  *alarm        // replaces the timer while Run runs; otherwise nil
	armed  time.Duration // when the timer or alarm goes off; 0 if it is not set
}

type event struct {
	at    time.Duration
	count uint64 // events of one instant happen in the order of planning
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].count < e[j].count
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

// at plans an event. mu is held, now and when it happens.
func (n *Network) at(at time.Duration, do func()) {
	if n.closed {
		return
	}
	n.plan.count++
	heap.Push(&n.plan.events, event{at, n.plan.count, do})
}

// lock takes mu and carries out what is due.
func (n *Network) lock() {
	n.mu.Lock()
	n.advance()
}

// unlock carries out what is due, sets the timer and releases mu.
func (n *Network) unlock() {
	n.advance()
	n.arm()
	n.mu.Unlock()
}

// advance carries out what is due.
func (n *Network) advance() {
	p := &n.plan
	p.real = time.Since(n.start)
	for len(p.events) > 0 && p.events[0].at <= p.real {
		e := heap.Pop(&p.events).(event)
		p.now = e.at
		e.do()
	}
	p.now = max(p.now, p.real)
}

// arm sets the timer for the next event.
func (n *Network) arm() {
	p := &n.plan
	if n.closed || len(p.events) == 0 {
		return
	}
	if next := p.events[0].at; p.armed == 0 || next < p.armed {
		p.armed = next
		if after := next - time.Since(n.start); p.alarm != nil {
			p.alarm.set(after)
		} else {
			p.timer.Reset(after)
		}
	}
}

func (n *Network) tick() {
	n.mu.Lock()
	n.plan.armed = 0
	n.unlock()
}

// Run makes the network keep its plan more exactly until ctx ends, on systems with better timers than Go's, which are
// up to a millisecond late. On others it only waits. The network works without it, and must on a fake clock, where this
// would never wake.
func (n *Network) Run(ctx context.Context) error {
	a, err := newAlarm()
	if errors.Is(err, errors.ErrUnsupported) {
		<-ctx.Done()
		return nil
	}
	if err != nil {
		return fmt.Errorf("run network: %w", err)
	}
	n.use(a)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		n.use(nil)
		return a.close()
	})
	g.Go(func() error {
		for {
			if err := a.wait(); errors.Is(err, os.ErrClosed) {
				return nil
			} else if err != nil {
				return fmt.Errorf("run network: %w", err)
			}
			n.tick()
		}
	})
	return g.Wait()
}

func (n *Network) use(a *alarm) {
	n.lock()
	defer n.unlock()
	n.plan.alarm, n.plan.armed = a, 0
}
