package ownership

import (
	"context"
	"sync"
	"time"
)

// hostLocks serializes work on a host at this node. Work that this node begins waits for the lock, and may hold it while it
// calls another node. Answers to other nodes wait for a moment only, so two nodes never block each other for long.
type hostLocks struct {
	mu    sync.Mutex // guards hosts and their users
	hosts map[string]*hostLock
}

// hostLock is the lock of one host. It is a channel because a fake clock advances while goroutines wait for channels.
type hostLock struct {
	held  chan struct{} // full while the lock is held
	users int           // holder and waiters
}

func newHostLocks() *hostLocks { return &hostLocks{hosts: make(map[string]*hostLock)} }

// lock waits for the lock of a host.
func (l *hostLocks) lock(host string) (unlock func()) { return l.take(host, nil) }

// take waits for the lock of a host until over. It returns nil if that comes first.
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

// moment is how long an answer to another node waits for a host, enough to write a change of a replica.
const moment = time.Second

// wait waits for the lock of a host for a moment. It returns nil if the host stays busy.
func (l *hostLocks) wait(ctx context.Context, host string) (unlock func()) {
	short, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	return l.take(host, short.Done())
}
