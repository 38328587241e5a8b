package netsim

import (
	"fmt"
	"net/netip"
)

// GossipPort is the port of gossip at every place.
const GossipPort = 7946

// Place is the address of the place of that number, for tests with many nodes.
func Place(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// Place6 is another address of that place, of IPv6.
func Place6(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)})
}

// PlaceOf is the number of a place.
func PlaceOf(a netip.Addr) int {
	b := [4]byte(a.AsSlice()[a.BitLen()/8-4:])
	return int(b[1])<<16 | int(b[2])<<8 | int(b[3])
}

// GossipAt is where gossip is found at a place.
func GossipAt(i int) string { return netip.AddrPortFrom(Place(i), GossipPort).String() }

// ID is a node's id for a place; ids are in the order of their places.
func ID(i int) string { return fmt.Sprintf("%032x", 0x1000_0000+i) }
