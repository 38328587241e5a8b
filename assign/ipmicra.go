package assign

import (
	"fmt"
	"net/netip"
	"slices"
)

// ipmicra is IPMicra (O. Papapetrou, G. Samaras: IPMicra: An IP-address based Location Aware Distributed Web Crawler, 2004; O.
// Papapetrou's thesis of 2003, chapter 7): addresses that are close in number are mostly close in the network. Subnets form a
// hierarchy, and a subnet belongs to the node that its first server went to; a server in a subnet without a node tries those
// of its organisation, then those of the subnets around, from near to far, until a probe is within the threshold.
//
// What was published leaves open, and is decided here: subnets are prefixes of fixed lengths and an organisation is one of them,
// since the registries' bulk data that the paper uses is not public any more. Homes decide for themselves, from the servers
// of the batch and what Batch.Before has. A server waits while an earlier one of its organisation is being probed.
type ipmicra struct {
	cfg       IPMicraConfig
	ids       []string
	servers   []*probed
	delegated []delegation // in the order of their making
}

// delegation is a subnet that belongs to a node.
type delegation struct {
	subnet netip.Prefix
	node   string
}

func newIPMicra(cfg IPMicraConfig, b Batch, v View) *prober {
	m := &ipmicra{cfg: cfg}
	if before, ok := b.Before.(*prober); ok {
		if was, ok := before.method.(*ipmicra); ok {
			m.delegated = slices.Clone(was.delegated)
		}
	}
	return newProber(IPMicra, m, false, b, v)
}

func (m *ipmicra) join(nodes []Node, servers []*probed) {
	m.ids, m.servers = ids(nodes), servers
	m.delegated = slices.DeleteFunc(m.delegated, func(d delegation) bool { return !slices.Contains(m.ids, d.node) })
}

// The lengths of prefixes that are subnets, the smallest subnet first, and of those that are organisations; twice that in IPv6.
var subnetBits = [...]int{24, 20, 16, 12, 8, 0}

const organisationBits = 16

// within is the subnet of that length that holds an address.
func within(a netip.Addr, bits int) netip.Prefix {
	a = a.Unmap()
	if a.Is6() {
		bits *= 2
	}
	p, _ := a.Prefix(bits) // fails for addresses that are none only
	return p
}

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
	// The nodes of the organisation: one alone is trusted without a probe.
	inside := m.nodesIn(org)
	if len(inside) == 1 && !m.cfg.Check {
		return settle(Choice{Node: inside[0], Reason: fmt.Sprintf("it has the other subnets of %v", org)})
	}
	order := inside
	for _, bits := range subnetBits {
		for _, id := range m.nodesIn(within(s.Addr, bits)) {
			if !slices.Contains(order, id) {
				order = append(order, id)
			}
		}
	}
	for _, id := range m.ids { // nodes without a subnet
		if !slices.Contains(order, id) {
			order = append(order, id)
		}
	}
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
	return settle(s.fastestOf(order, "fastest of all nodes"))
}

// nodesIn are the nodes with a delegated subnet within p, in the order of their first.
func (m *ipmicra) nodesIn(p netip.Prefix) (nodes []string) {
	for _, d := range m.delegated {
		if p.Bits() <= d.subnet.Bits() && p.Contains(d.subnet.Addr()) && !slices.Contains(nodes, d.node) {
			nodes = append(nodes, d.node)
		}
	}
	return nodes
}
