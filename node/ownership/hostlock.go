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
	mu    sync.Mutex // guards hosts, and the users of each
	hosts map[string]*hostLock
}

// hostLock is the lock of a host. A channel, because a fake clock goes on while a goroutine waits for one.
type hostLock struct {
	held  chan struct{} // of one place: who has the lock has filled it
	users int           // who have it or wait for it
}

func newHostLocks() *hostLocks { return &hostLocks{hosts: make(map[string]*hostLock)} }

// lock waits for a host and returns what gives it back.
func (l *hostLocks) lock(host string) (unlock func()) { return l.take(host, nil) }

// take waits for a host until over; nil where it is busy for longer.
func (l *hostLocks) take(host string, over <-chan struct{}) (unlock func()) {
	l.mu.Lock()
	h := l.hosts[host]
	if h == nil {
		h = &hostLock{held: make(chan struct{}, 1)}
		l.hosts[host] = h
	}
	h.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(l.hosts, host)
		}
	}
	select {
	case h.held <- struct{}{}:
		return func() {
			<-h.held
			leave()
		}
	case <-over:
		leave()
		return nil
	}
}

// moment is for how long an answer to another node waits for a host. A change of its second copy is written meanwhile.
const moment = time.Second

// wait waits for a host for a moment; nil where it is busy for longer.
func (l *hostLocks) wait(ctx context.Context, host string) (unlock func()) {
	short, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	return l.take(host, short.Done())
}
