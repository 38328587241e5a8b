package lease

import (
	"net/netip"
	"slices"
)

// pace says which servers are overloaded: those that take much longer before the first byte than they usually do
// (assign.Memory.Slowed), while the other servers that this node asks do not. What rises for all of them is this node's
// own load, and no server's fault. Not safe for concurrent use.
type pace struct {
	// median of what all servers of this node are slowed by, 1 or more.
	median float64
	// spared are the servers that count as overloaded, with their factors.
	spared map[netip.Addr]float64
	// tell hears of the servers whose factor has changed, with the factor by which the time between two requests grows, 1 or
	// more.
	tell func(addr netip.Addr, factor float64)
}

func newPace(tell func(netip.Addr, float64)) *pace {
	return &pace{median: 1, spared: map[netip.Addr]float64{}, tell: tell}
}

const (
	// paceFrom is how many times its usual time a server must take to be spared; smaller reacts to noise.
	paceFrom = 2.0
	// paceMax bounds the factor on the spacing of requests.
	paceMax = 8.0
	// paceServers is how many servers it takes to tell this node's slowness from a server's.
	paceServers = 5
)

// level learns by how much all the servers of this node are slowed, and forgets those that are not among them.
func (p *pace) level(slowed map[netip.Addr]float64) {
	all := make([]float64, 0, len(slowed))
	for _, s := range slowed {
		all = append(all, s)
	}
	slices.Sort(all)
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

// observe takes by how much a server is slowed now. A server that is spared stays so until it has come back halfway:
// else it would be asked at full speed each time that the spacing has helped a little.
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
