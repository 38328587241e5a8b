package ownership

import (
	"context"
	"sync"
	"time"
)

// hostLocks let one thing at a time happen to a host on this node's disk. Who acts by itself waits for the lock, and may
// hold it while it calls another node; who answers another node waits for a moment at most: so two nodes never wait for
// each other for long.
type hostLocks struct {
	// mu guards what follows.
	mu sync.Mutex
	// held are channels of one place. Who has the lock has filled it. Channels, because a fake clock goes on while a
	// goroutine waits for one.
	held  map[string]chan struct{}
	users map[string]int
}

func newHostLocks() *hostLocks {
	return &hostLocks{held: make(map[string]chan struct{}), users: make(map[string]int)}
}

// lock waits for a host and returns what gives it back.
func (l *hostLocks) lock(host string) (unlock func()) {
	m := l.use(host)
	m <- struct{}{}
	return func() { l.unlock(host, m) }
}

// use enters one more that has a host or waits for it.
func (l *hostLocks) use(host string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.held[host]
	if m == nil {
		m = make(chan struct{}, 1)
		l.held[host] = m
	}
	l.users[host]++
	return m
}

// moment is for how long an answer to another node waits for a host. A change of its second copy is written meanwhile.
const moment = time.Second

// wait waits for a host for a moment; nil where it is busy for longer.
func (l *hostLocks) wait(ctx context.Context, host string) (unlock func()) {
	m := l.use(host)
	over := time.NewTimer(moment)
	defer over.Stop()
	select {
	case m <- struct{}{}:
		return func() { l.unlock(host, m) }
	case <-over.C:
	case <-ctx.Done():
	}
	l.leave(host)
	return nil
}

func (l *hostLocks) unlock(host string, m chan struct{}) {
	<-m
	l.leave(host)
}

// leave takes one off that had a host or waited for it.
func (l *hostLocks) leave(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users[host]--; l.users[host] == 0 {
		delete(l.users, host)
		delete(l.held, host)
	}
}
