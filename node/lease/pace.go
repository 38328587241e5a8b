package lease

import (
	"maps"
	"net/netip"
	"slices"
)

// pace finds overloaded servers: those that take much longer than usual to the first byte (assign.Memory.Slowed) while the other
// servers of this node do not. If all of them get slower, the load is this node's own. It is not safe for concurrent use.
type pace struct {
	median float64                // of the slowdown of all servers, at least 1
	spared map[netip.Addr]float64 // the overloaded servers, with their factors
	// tell hears the factor by which the spacing of a server's requests grows, at least 1, when it changes.
	tell func(addr netip.Addr, factor float64)
}

func newPace(tell func(netip.Addr, float64)) *pace {
	return &pace{median: 1, spared: map[netip.Addr]float64{}, tell: tell}
}

const (
	// paceFrom is the slowdown from which a server is spared. A smaller one would react to noise.
	paceFrom = 2.0
	// paceMax bounds the factor.
	paceMax = 8.0
	// paceServers is how many servers it takes to tell this node's load from a server's.
	paceServers = 5
)

// level takes the slowdown of all servers of this node, and forgets the others.
func (p *pace) level(slowed map[netip.Addr]float64) {
	all := slices.Sorted(maps.Values(slowed))
	p.median = 1
	if len(all) >= paceServers {
		p.median = max(1, all[(len(all)-1)/2])
	}
	for addr := range p.spared {
		if _, ok := slowed[addr]; !ok {
			delete(p.spared, addr)
			p.tell(addr, 1)
		}
	}
}

// observe takes the slowdown of one server. A server is spared until it has recovered halfway, so that it is not asked at full
// speed as soon as the spacing has helped a little.
func (p *pace) observe(addr netip.Addr, slowed float64) {
	factor := min(slowed/p.median, paceMax)
	was, spared := p.spared[addr]
	switch {
	case factor >= paceFrom || spared && factor >= (1+paceFrom)/2:
		if p.spared[addr] = factor; factor != was {
			p.tell(addr, factor)
		}
	case spared:
		delete(p.spared, addr)
		p.tell(addr, 1)
	}
}
