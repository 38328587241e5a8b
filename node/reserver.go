package node

import (
	"net/netip"
	"sync"

	"proxima/node/batch"
)

// reserver is the frontier as those see it who keep servers to themselves. A batch and an exploration may have the same one:
// it is free when both have let it go.
type reserver struct {
	batch.Frontier

	// mu guards what follows, and is held over the call: reservations arrive in the order in which they are counted.
	mu sync.Mutex
	by map[netip.Addr]int // how many have it
}

func newReserver(f batch.Frontier) *reserver {
	return &reserver{Frontier: f, by: make(map[netip.Addr]int)}
}

// Reserve keeps the tasks of a server for TakeFrom. Every call with true needs one with false.
func (r *reserver) Reserve(addr netip.Addr, on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if on {
		r.by[addr]++
	} else if r.by[addr]--; r.by[addr] > 0 {
		return
	} else {
		delete(r.by, addr)
	}
	r.Frontier.Reserve(addr, on)
}
