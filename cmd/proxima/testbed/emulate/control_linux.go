package emulate

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"
)

// SetBandwidth changes the bandwidth of an address, in bytes per ms, for packets that are sent from now on. 0 is unlimited.
func (n *Net) SetBandwidth(addr netip.Addr, upBytesPerMs, downBytesPerMs float64) error {
	i, err := n.endpoints([]netip.Addr{addr})
	if err != nil {
		return err
	}
	_, err = n.order(order{Bandwidth: &bandwidthOrder{i[0], upBytesPerMs, downBytesPerMs}})
	return err
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
	_, err = n.order(order{Cut: &[2][]int{from, to}})
	return err
}

// Stats returns the statistics since New.
func (n *Net) Stats() (Stats, error) { return n.order(order{}) }

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

// order sends an order to the router and returns the statistics that it answers with.
func (n *Net) order(o order) (s Stats, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.control == nil {
		return s, errors.New("emulated network: it has ended")
	}
	if s, err = n.exchange(o); err != nil {
		return s, fmt.Errorf("emulated network: order the router: %w", err)
	}
	s.Emulation, s.Cores, s.Elapsed = n.cfg.Emulation, runtime.NumCPU(), time.Since(n.begin)
	var controls []string
	for _, ns := range n.namespaces {
		controls = append(controls, ns.congestion)
		err = errors.Join(err, inNamespace(ns.fd, func() error {
			dropped, err := droppedHere()
			s.Unplanned += dropped - ns.dropped
			return err
		}))
	}
	slices.Sort(controls)
	s.Congestion = strings.Join(slices.Compact(controls), ",")
	if err := errors.Join(err, n.watch.tell(&s)); err != nil {
		return s, fmt.Errorf("emulated network: %w", err)
	}
	return s, nil
}
