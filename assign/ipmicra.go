package assign

import (
	"fmt"
	"net/netip"
	"slices"
)

// ipmicra is IPMicra (O. Papapetrou, G. Samaras: IPMicra: An IP-address based Location Aware Distributed Web Crawler, 2004; O.
// Papapetrou's thesis of 2003, chapter 7). Servers with similar addresses are mostly close to each other. Subnets form a hierarchy,
// and a subnet belongs to the node of its first server. For a server in a new subnet, the nodes of its organisation probe first, then
// those of the surrounding subnets, from near to far, until a probe is within the threshold.
//
// The papers leave some details open, and the registries' bulk data is no longer public. So here subnets are prefixes of fixed
// lengths, and an organisation is one of them. Each home decides alone, from the servers of the batch and from Batch.Before. A server
// waits while an earlier one of its organisation is being probed. Only the latest subnets are remembered.
type ipmicra struct {
	cfg       IPMicraConfig
	ids       []string
	servers   []*probed
	delegated []delegation // oldest first
}

// delegation is a subnet that belongs to a node.
type delegation struct {
	subnet netip.Prefix
	node   string
}

// mostSubnets is the number of delegated subnets that a batch takes over.
const mostSubnets = 10_000

// newIPMicra takes over the subnets of an earlier ipmicra, if before is one.
func newIPMicra(cfg IPMicraConfig, before Assigner) *ipmicra {
	m := &ipmicra{cfg: cfg}
	if before, ok := before.(*prober); ok {
		if was, ok := before.method.(*ipmicra); ok {
			m.delegated = slices.Clone(was.delegated[max(0, len(was.delegated)-mostSubnets):])
		}
	}
	return m
}

// join drops the subnets of nodes that are gone.
func (m *ipmicra) join(nodes []Node, servers []*probed) {
	m.ids, m.servers = ids(nodes), servers
	m.delegated = slices.DeleteFunc(m.delegated, func(d delegation) bool { return !slices.Contains(m.ids, d.node) })
}

// The prefix lengths of subnets, smallest subnet first, and of organisations.
var subnetBits = [...]int{24, 20, 16, 12, 8, 0}

const organisationBits = 16

// within returns the subnet of that length, twice that in IPv6, that holds an address.
func within(a netip.Addr, bits int) netip.Prefix {
	a = a.Unmap()
	if a.Is6() {
		bits *= 2
	}
	p, _ := a.Prefix(bits) // fails only for the zero address
	return p
}

// step goes by the subnets that have a node, and then by probes in the order of the subnets around the server.
func (m *ipmicra) step(s *probed) (string, *Choice) {
	org, own := within(s.Addr, organisationBits), within(s.Addr, subnetBits[0])
	for _, o := range m.servers {
		if o == s {
			break
		}
		if o.choice == nil && within(o.Addr, organisationBits) == org {
			return "", nil
		}
	}
	for _, d := range m.delegated {
		if d.subnet == own {
			return "", &Choice{Node: d.node, Reason: fmt.Sprintf("%v is its subnet", own)}
		}
	}
	settle := func(c Choice) (string, *Choice) {
		m.delegated = append(m.delegated, delegation{own, c.Node})
		return "", &c
	}
	// If one node alone has the organisation, it is trusted without a probe.
	inside := m.nodesIn(org)
	if len(inside) == 1 && !m.cfg.Check {
		return settle(Choice{Node: inside[0], Reason: fmt.Sprintf("it has the other subnets of %v", org)})
	}
	order := slices.Clone(inside) // a node may come again, which changes nothing
	for _, bits := range subnetBits {
		order = append(order, m.nodesIn(within(s.Addr, bits))...)
	}
	order = append(order, m.ids...) // last those without a subnet
	for i, id := range order {
		switch t := s.times[id]; {
		case t == 0:
			return id, nil
		case t <= m.cfg.ThresholdMs:
			return settle(s.fastestOf([]string{id}, fmt.Sprintf("first within %v ms", m.cfg.ThresholdMs)))
		}
		if !m.cfg.Check && i+1 == len(inside) {
			if node, _ := s.fastest(inside); node != "" {
				return settle(s.fastestOf(inside, fmt.Sprintf("fastest of those in %v", org)))
			}
		}
	}
	if node, _ := s.fastest(order); node == "" {
		return "", new(s.fastestOf(order, "")) // a draw tells nothing about its subnet
	}
	return settle(s.fastestOf(order, "fastest of all nodes"))
}

// nodesIn returns the nodes with a delegated subnet within p, in the order of their first delegation.
func (m *ipmicra) nodesIn(p netip.Prefix) (nodes []string) {
	for _, d := range m.delegated {
		if p.Contains(d.subnet.Addr()) && !slices.Contains(nodes, d.node) {
			nodes = append(nodes, d.node)
		}
	}
	return nodes
}
