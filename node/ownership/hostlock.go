package ownership

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// hostLocks serializes work on a host at this node. Work that this node begins waits for the lock, and may hold it while it
// calls another node. Answers to other nodes wait for a moment only, so two nodes never block each other for long.
type hostLocks struct {
	mu    sync.Mutex // guards hosts and their users
	hosts map[string]*hostLock
}

// hostLock is the lock of one host. Unlike for a mutex, a fake clock advances while goroutines wait for it.
type hostLock struct {
	*semaphore.Weighted
	users int // holder and waiters
}

func newHostLocks() *hostLocks { return &hostLocks{hosts: make(map[string]*hostLock)} }

// lock waits for the lock of a host.
func (l *hostLocks) lock(host string) (unlock func()) { return l.take(context.Background(), host) }

// take waits for the lock of a host. It returns nil if the context ends first.
func (l *hostLocks) take(ctx context.Context, host string) (unlock func()) {
	l.mu.Lock()
	h := l.hosts[host]
	if h == nil {
		h = &hostLock{Weighted: semaphore.NewWeighted(1)}
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
	if h.Acquire(ctx, 1) != nil {
		leave()
		return nil
	}
	return func() {
		h.Release(1)
		leave()
	}
}

// moment is how long an answer to another node waits for a host, enough to write a change of a replica.
const moment = time.Second

// wait waits for the lock of a host for a moment. It returns nil if the host stays busy.
func (l *hostLocks) wait(ctx context.Context, host string) (unlock func()) {
	short, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	return l.take(short, host)
}
