package frontier

import (
	"context"
	"sync"
	"sync/atomic"
)

// gate holds writes back while the disk is all but full. The store maps its files into memory: a write that finds no room is
// the end of the process, whatever the program does, so there must be none.
type gate struct {
	shut atomic.Pointer[chan struct{}] // closed when the gate opens; nil while it is open
	stop chan struct{}                 // closed: nobody waits any longer
	once sync.Once
}

func newGate() *gate { return &gate{stop: make(chan struct{})} }

// set shuts the gate or opens it. One goroutine calls it.
func (g *gate) set(shut bool) {
	switch c := g.shut.Load(); {
	case shut && c == nil:
		wait := make(chan struct{})
		g.shut.Store(&wait)
	case !shut && c != nil:
		g.shut.Store(nil)
		close(*c)
	}
}

// pass waits until the gate is open. It fails when the context ends, and with ErrDiskFull when the node does.
func (g *gate) pass(ctx context.Context) error {
	for {
		wait := g.shut.Load()
		if wait == nil {
			return nil
		}
		select {
		case <-*wait:
		case <-g.stop:
			return ErrDiskFull
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Stopping ends the waits of those who want to write to a disk that is all but full: they get ErrDiskFull. What they
// wanted to write is as it was. A node calls it when it ends.
func (f *Frontier) Stopping() { f.store.gate.once.Do(func() { close(f.store.gate.stop) }) }
