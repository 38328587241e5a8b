package lease

import (
	"net/netip"
	"slices"
	"sync"
)

// pace says which servers are overloaded: those that take much longer before the first byte than they usually do
// (assign.Memory.Slowed), while the other servers that this node asks do not. What rises for all of them is this node's
// own load, and no server's fault. Safe for concurrent use; its lock is held for no call to the outside.
type pace struct {
	cfg PaceConfig

	mu sync.RWMutex
	// median of what all servers of this node are slowed by, 1 or more.
	median float64
	// spared are the servers that count as overloaded, with their factors.
	spared map[netip.Addr]float64
}

func newPace(cfg PaceConfig) *pace {
	return &pace{cfg: cfg, median: 1, spared: map[netip.Addr]float64{}}
}

// paceServers is how many servers it takes to tell this node's slowness from a server's.
const paceServers = 5

// level learns by how much all the servers of this node are slowed, and forgets those that are not among them.
func (p *pace) level(slowed map[netip.Addr]float64) {
	all := make([]float64, 0, len(slowed))
	for _, s := range slowed {
		all = append(all, s)
	}
	slices.Sort(all)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.median = 1
	if len(all) >= paceServers {
		p.median = max(1, all[(len(all)-1)/2])
	}
	for addr := range p.spared {
		if _, ok := slowed[addr]; !ok {
			delete(p.spared, addr)
		}
	}
}

// observe takes by how much a server is slowed now. A server that is spared stays so until it has come back halfway:
// else it would be asked at full speed each time that the spacing has helped a little.
func (p *pace) observe(addr netip.Addr, slowed float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	factor := min(slowed/p.median, p.cfg.Max)
	_, spared := p.spared[addr]
	if factor >= p.cfg.From || spared && factor >= (1+p.cfg.From)/2 {
		p.spared[addr] = factor
	} else {
		delete(p.spared, addr)
	}
}

// factor is what the spacing of a server's requests is multiplied with, 1 or more.
func (p *pace) factor(addr netip.Addr) float64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if f, ok := p.spared[addr]; ok {
		return f
	}
	return 1
}

func (p *pace) count() int {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return len(p.spared)
}
