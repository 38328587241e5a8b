package placement

import (
	"net/netip"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"proxima/assign"
)

const (
	mostNetworks   = 1000 // networks of which servers are remembered
	mostNeighbours = 3    // servers that are remembered of one network
)

// neighbours remembers servers that batches have decided about, by network. They tell something about the next server of the
// network. The goroutine of the batches owns it.
type neighbours struct {
	known *simplelru.LRU[netip.Prefix, []assign.Server]
}

func newNeighbours() neighbours {
	known, _ := simplelru.NewLRU[netip.Prefix, []assign.Server](mostNetworks, nil) // it fails only for sizes below one
	return neighbours{known}
}

// remember stores what is known of a server, as the first of its network.
func (n neighbours) remember(addr netip.Addr, m assign.Memory) {
	network := assign.Network(addr)
	list, _ := n.known.Get(network)
	list = slices.DeleteFunc(list, func(s assign.Server) bool { return s.Addr == addr })
	list = slices.Insert(list, 0, assign.Server{Addr: addr, Memory: m})
	n.known.Add(network, list[:min(mostNeighbours, len(list))])
}

// near returns the servers remembered in the networks of a batch, without those of the batch.
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
