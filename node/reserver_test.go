package node

import (
	"net/netip"
	"slices"
	"testing"

	"proxima/node/batch"
)

// reservations is a frontier that notes what is reserved.
type reservations struct {
	batch.Frontier
	now []netip.Addr
}

func (r *reservations) Reserve(addr netip.Addr, on bool) {
	r.now = slices.DeleteFunc(r.now, func(a netip.Addr) bool { return a == addr })
	if on {
		r.now = append(r.now, addr)
	}
}

// An exploration that ends leaves the server of a batch reserved, and the other way round.
func TestServersAreFreeWhenAllHaveLetThemGo(t *testing.T) {
	var f reservations
	r := newReserver(&f)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i, step := range []struct {
		addr netip.Addr
		on   bool
		want []netip.Addr
	}{
		{a, true, []netip.Addr{a}},
		{b, true, []netip.Addr{a, b}},
		{a, true, []netip.Addr{b, a}},
		{a, false, []netip.Addr{b, a}},
		{b, false, []netip.Addr{a}},
		{a, false, nil},
		{a, true, []netip.Addr{a}},
		{a, false, nil},
	} {
		if r.Reserve(step.addr, step.on); !slices.Equal(f.now, step.want) {
			t.Errorf("after step %d %v are reserved, want %v", i, f.now, step.want)
		}
	}
	if len(r.by) != 0 {
		t.Errorf("%v are remembered", r.by)
	}
}
