package placement

import (
	"net/netip"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"proxima/assign"
)

const (
	// Of so many networks servers are remembered, and of each network so many.
	mostNetworks, mostNeighbours = 1000, 3
)

// neighbours are the servers that batches have decided about, by network: what is known of them says something of the next
// one there. It belongs to the goroutine of the batches.
type neighbours struct {
	known *simplelru.LRU[netip.Prefix, []assign.Server]
}

func newNeighbours() neighbours {
	known, _ := simplelru.NewLRU[netip.Prefix, []assign.Server](mostNetworks, nil) // the size is above zero
	return neighbours{known}
}

// remember keeps what is known of a server, the last that was found out first.
func (n neighbours) remember(addr netip.Addr, m assign.Memory) {
	network := assign.Network(addr)
	list, _ := n.known.Get(network)
	list = slices.DeleteFunc(slices.Clone(list), func(s assign.Server) bool { return s.Addr == addr })
	list = slices.Insert(list, 0, assign.Server{Addr: addr, Memory: m})
	n.known.Add(network, list[:min(mostNeighbours, len(list))])
}

// near are the servers known in the networks of a batch, without those of the batch.
func (n neighbours) near(batch []*server) (list []assign.Server) {
	var networks []netip.Prefix
	for _, s := range batch {
		network := assign.Network(s.addr)
		if slices.Contains(networks, network) {
			continue
		}
		networks = append(networks, network)
		known, _ := n.known.Get(network)
		for _, k := range known {
			if !slices.ContainsFunc(batch, func(s *server) bool { return s.addr == k.Addr }) {
				list = append(list, k)
			}
		}
	}
	return list
}
