package emulate

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"time"
)

// errOver is the error of orders after the router has ended.
var errOver = errors.New("emulated network: it has ended")

// SetBandwidth changes the bandwidth of an address, in bytes per ms, for packets that are sent from now on. 0 is unlimited.
func (n *Net) SetBandwidth(addr netip.Addr, upBytesPerMs, downBytesPerMs float64) error {
	i, err := n.endpoints([]netip.Addr{addr})
	if err != nil {
		return err
	}
	return n.order(order{Bandwidth: &bandwidthOrder{i[0], upBytesPerMs, downBytesPerMs}})
}

// Partition drops all packets between a and b, and none of those that an earlier call dropped. If a or b is empty, it drops none.
func (n *Net) Partition(a, b []netip.Addr) error {
	from, err := n.endpoints(a)
	if err != nil {
		return err
	}
	to, err := n.endpoints(b)
	if err != nil {
		return err
	}
	return n.order(order{Cut: &[2][]int{from, to}})
}

// Stats returns the statistics since New. After Run has ended, it returns the last ones.
func (n *Net) Stats() (Stats, error) {
	err := n.order(order{})
	n.mu.Lock()
	defer n.mu.Unlock()
	if errors.Is(err, errOver) && n.last.Elapsed > 0 {
		err = nil
	}
	return n.last, err
}

// endpoints returns the indices of addresses.
func (n *Net) endpoints(addrs []netip.Addr) ([]int, error) {
	var found []int
	for _, a := range addrs {
		i := slices.IndexFunc(n.cfg.Endpoints, func(e Endpoint) bool { return e.Addr == a })
		if i < 0 {
			return nil, fmt.Errorf("emulated network: %v is not an endpoint", a)
		}
		found = append(found, i)
	}
	return found, nil
}

// order sends an order to the router and keeps the statistics that it answers with.
func (n *Net) order(o order) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.control == nil {
		return errOver
	}
	s, err := n.exchange(o)
	if err != nil {
		return fmt.Errorf("emulated network: order the router: %w", err)
	}
	s.Emulation, s.Congestion, s.Cores, s.Elapsed = n.emulation, n.congestions(), runtime.NumCPU(), time.Since(n.begin)
	for _, ns := range n.namespaces {
		err := inNamespace(ns.fd, func() error {
			dropped, err := droppedHere()
			s.Unplanned += dropped - ns.dropped
			return err
		})
		if err != nil {
			return fmt.Errorf("emulated network: %w", err)
		}
	}
	if err := n.watch.tell(&s); err != nil {
		return fmt.Errorf("emulated network: %w", err)
	}
	n.last = s
	return nil
}
