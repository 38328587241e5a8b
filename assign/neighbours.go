package assign

import (
	"maps"
	"math"
	"net/netip"
	"slices"
)

// Servers with similar addresses are mostly close to each other (O. Papapetrou, G. Samaras: IPMicra, 2004). So the place of each known
// server of a network is a hypothesis about the others. The learner learns how reliable this is from networks with several known
// servers.
const (
	// The prior of a network: the share of its servers that are at the place of another one, and its weight in servers.
	neighbourTrust, neighbourCounts = 0.9, 1.0
	// The weight of the prior over all networks, in servers.
	networksCount = 10.0
	// How round trips to servers in one place differ: in the log domain, and by their access in ms. The effect of the access is limited to
	// a factor of e.
	neighbourSD, neighbourMs = 0.1, 4.0
	// The number of servers of a network whose fields become hypotheses.
	mostNeighbours = 4
)

// Network returns the network whose servers are expected to be in one place: 24 bits of an IPv4 address, 48 of an IPv6 address.
func Network(a netip.Addr) netip.Prefix { return within(a, 24) }

// network has the servers of a network.
type network struct {
	servers []*learntServer
	trust   float64         // the probability that a server is at the place of one of its neighbours
	of      []*learntServer // up to mostNeighbours of them with downloads, whose places are hypotheses about the others
	places  []*place        // the places of those in of
}

// networksOf returns the networks with more than one server.
func networksOf(servers []*learntServer) map[netip.Prefix]*network {
	all := make(map[netip.Prefix]*network)
	for _, s := range servers {
		p := Network(s.addr)
		if all[p] == nil {
			all[p] = &network{trust: neighbourTrust}
		}
		all[p].servers = append(all[p].servers, s)
	}
	maps.DeleteFunc(all, func(_ netip.Prefix, n *network) bool { return len(n.servers) == 1 })
	return all
}

// fitNeighbours adds the fields of known servers to the hypotheses about the others of their network, and learns how reliable they are.
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
	// Learn the reliability of all networks together first, and then that of each. Sum over l.servers, whose order is fixed.
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
		if n := l.networkOf(s); n != nil && s.own != nil && len(n.of) > 1 {
			s.field = newField(s.own.seen, l.rho, l.withNeighbours(s))
			l.setRoundTrips(s)
		}
	}
}

func (l *learner) networkOf(s *learntServer) *network { return l.networks[Network(s.addr)] }

// together returns the probability that a server is at the place of one of its neighbours, given its own downloads.
func (l *learner) together(s *learntServer) (share float64) {
	n := l.networkOf(s)
	f := newField(s.own.seen, l.rho, l.withNeighbours(s))
	for _, h := range f.hyps {
		for _, p := range n.places {
			if h.place == p {
				share += h.weight
			}
		}
	}
	return share
}

// withNeighbours returns the hypotheses about a server with the places of its neighbours among them.
func (l *learner) withNeighbours(s *learntServer) []hypothesis {
	hyps, n := l.hypotheses(s), l.networkOf(s)
	if n == nil || s.spread {
		return hyps
	}
	others := len(n.of)
	if slices.Contains(n.of, s) {
		others--
	}
	// Neighbours and a stated location may both be right. A neighbour that disagrees with the location is less probable.
	among := 1.0
	if l.statedPlace(s.memory.Location) != nil {
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
