package assign

import (
	"math"
	"net/netip"
)

// Servers whose addresses are close in number are mostly close in the network (O. Papapetrou, G. Samaras: IPMicra, 2004): where one
// of a network is known, it is a hypothesis about the others. How much it is trusted is learnt from the networks of which
// several are known.
const (
	// What is believed of a network before anything is seen of it: the share of servers that are where another one is, and by
	// how many servers that counts.
	neighbourTrust, neighbourCounts = 0.9, 1.0
	// What is believed of all networks counts so many servers.
	networksCount = 10.0
	// By how much the round trips of servers in one place differ: in the log domain, and by their access, in ms, to at most a factor of e.
	neighbourSD, neighbourMs = 0.1, 4.0
	// Of so many servers of a network the fields are hypotheses about each other.
	mostNeighbours = 4
)

// Network is the network whose servers are expected to be together: 24 bits of an IPv4 address, 48 of an IPv6 one.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	bits := 24
	if a.Is6() {
		bits = 48
	}
	p, _ := a.Prefix(bits) // fails for the zero address only
	return p
}

// network is the servers of one network.
type network struct {
	servers []*learntServer
	trust   float64
	places  []*place // of the first that are known
	of      []*learntServer
}

// networksOf are the networks with more than one server.
func networksOf(servers []*learntServer) map[netip.Prefix]*network {
	all := make(map[netip.Prefix]*network)
	for _, s := range servers {
		if !s.addr.IsValid() {
			continue
		}
		p := Network(s.addr)
		if all[p] == nil {
			all[p] = &network{trust: neighbourTrust}
		}
		all[p].servers = append(all[p].servers, s)
	}
	for p, n := range all {
		if len(n.servers) == 1 {
			delete(all, p)
		}
	}
	return all
}

// fitNeighbours gives the servers of each network the fields of the others as places, and learns how far they may be trusted.
func (l *learner) fitNeighbours() {
	if l.without.has(withoutNeighbours) {
		return
	}
	for _, n := range l.networks {
		n.places, n.of = n.places[:0], n.of[:0]
		for _, s := range n.servers {
			if s.own != nil && !s.spread && len(n.of) < mostNeighbours {
				own := s.own
				n.of = append(n.of, s)
				n.places = append(n.places, l.shared(func(node int) (log, sd float64) {
					mean, variance := own.predict(node)
					return mean, math.Sqrt(variance + sq(neighbourSD) + sq(min(1, neighbourMs/math.Exp(mean))))
				}))
			}
		}
	}
	// First by what is believed of all networks, then by what each of them shows. The sum has a fixed order.
	sum, count := neighbourTrust*networksCount, networksCount
	together := make(map[*learntServer]float64)
	for _, s := range l.servers {
		if n := l.networkOf(s); n != nil && s.own != nil && len(n.of) > 1 {
			n.trust = neighbourTrust
			together[s] = l.together(s)
			sum, count = sum+together[s], count+1
		}
	}
	for _, n := range l.networks {
		own, of := sum/count*neighbourCounts, neighbourCounts
		for _, s := range n.servers {
			if w, ok := together[s]; ok {
				own, of = own+w, of+1
			}
		}
		n.trust = own / of
	}
	for _, s := range l.servers {
		if n := l.networkOf(s); n != nil && s.own != nil && !s.spread && len(n.of) > 1 {
			s.field = newField(s.own.seen, l.rho, l.withNeighbours(s, l.hypotheses(s)))
			l.observed(s)
		}
	}
}

func (l *learner) networkOf(s *learntServer) *network {
	if !s.addr.IsValid() {
		return nil
	}
	return l.networks[Network(s.addr)]
}

// together is how likely a server is where one of its neighbours is, by what it showed itself.
func (l *learner) together(s *learntServer) (share float64) {
	n := l.networkOf(s)
	f := newField(s.own.seen, l.rho, l.withNeighbours(s, l.hypotheses(s)))
	for _, h := range f.hyps {
		for _, p := range n.places {
			if h.place == p {
				share += h.weight
			}
		}
	}
	return share
}

// withNeighbours adds the places of a server's neighbours to the hypotheses about it.
func (l *learner) withNeighbours(s *learntServer, hyps []hypothesis) []hypothesis {
	n := l.networkOf(s)
	if n == nil || s.spread {
		return hyps
	}
	others := 0
	for _, o := range n.of {
		if o != s {
			others++
		}
	}
	if others == 0 {
		return hyps
	}
	// Both may be right about a stated location: what disagrees with it has its doubt as evidence against it.
	among := 1.0
	if s.stated != nil {
		among -= statedWeight
	}
	var sum float64
	for _, h := range hyps {
		sum += h.weight
	}
	for i := range hyps {
		hyps[i].weight *= (1 - n.trust) / sum
	}
	for i, o := range n.of {
		if o != s {
			hyps = append(hyps, hypothesis{place: n.places[i], weight: n.trust * among / float64(others)})
		}
	}
	return hyps
}
