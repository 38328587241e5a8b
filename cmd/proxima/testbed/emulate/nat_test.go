package emulate

import (
	"encoding/binary"
	"testing"
	"time"
)

// segment makes a packet with an IPv4 header and the first bytes of another.
func (f *fabric) segment(from, to int, protocol byte, source, target uint16, flags byte) *packet {
	p := f.blank()
	p.from, p.to, p.size = from, to, 40
	clear(p.frame[:])
	ip := p.frame[frameHeader:]
	ip[0], ip[protocolAt] = 4<<4|5, protocol
	binary.BigEndian.PutUint16(ip[20:], source)
	binary.BigEndian.PutUint16(ip[22:], target)
	ip[20+tcpFlagsAt] = flags
	return p
}

// A NAT accepts only what its endpoint has asked for. It does not affect packets between other endpoints.
func TestNAT(t *testing.T) {
	const minute = int64(time.Minute)
	endpoints := []Endpoint{{Addr: addrOf(0), NAT: true}, {Addr: addrOf(1)}, {Addr: addrOf(2)}}
	f := newFabric(endpoints, make([]Path, 9), 7)
	for i, c := range []struct {
		at             int64
		from, to       int
		protocol       byte
		source, target uint16
		flags          byte
		arrives        bool
	}{
		{0, 1, 0, protocolTCP, 80, 5000, tcpSYN, false},
		{0, 1, 2, protocolTCP, 80, 5000, tcpSYN, true},
		{0, 0, 1, protocolTCP, 5000, 80, tcpSYN, true},
		{0, 1, 0, protocolTCP, 80, 5000, tcpSYN | tcpACK, true},
		{0, 1, 0, protocolTCP, 80, 5000, tcpACK, true},
		{0, 1, 0, protocolUDP, 53, 5000, 0, false},
		{0, 0, 1, protocolUDP, 5000, 53, 0, true},
		{minute, 1, 0, protocolUDP, 53, 5000, 0, true},
		{minute, 2, 0, protocolUDP, 53, 5000, 0, false}, // another endpoint
		{minute, 1, 0, protocolUDP, 54, 5000, 0, false}, // another port there
		{minute, 1, 0, protocolUDP, 53, 5001, 0, false}, // another port here
		{2 * minute, 1, 0, protocolUDP, 53, 5000, 0, true},
		{2*minute + 1, 1, 0, protocolUDP, 53, 5000, 0, false}, // what comes in keeps nothing open
		{3 * minute, 1, 0, 1, 0, 0, 0, false},                 // ICMP
	} {
		f.enter(c.at, f.segment(c.from, c.to, c.protocol, c.source, c.target, c.flags))
		if arrives := len(f.drain()) == 1; arrives != c.arrives {
			t.Errorf("%d: arrives: %t", i, arrives)
		}
	}
	if f.stats.Cut != 7 {
		t.Errorf("%d packets count as kept out", f.stats.Cut)
	}
	for _, c := range []struct {
		protocol byte
		size     int
		arrives  bool
	}{{protocolUDP, 28, true}, {protocolUDP, 27, false}, {protocolTCP, 34, true}, {protocolTCP, 33, false}} {
		for _, p := range []*packet{f.segment(0, 1, c.protocol, 5000, 53, tcpACK), f.segment(1, 0, c.protocol, 53, 5000, tcpACK)} {
			p.size = c.size
			f.enter(6*minute, p)
		}
		if arrived := len(f.drain()); arrived == 2 != c.arrives {
			t.Errorf("of an exchange of packets of %d bytes of protocol %d, %d arrive", c.size, c.protocol, arrived)
		}
	}
}

// The memory of a NAT is limited. Old flows make room for new ones.
func TestNATForgets(t *testing.T) {
	f := newFabric([]Endpoint{{Addr: addrOf(0), NAT: true}, {Addr: addrOf(1)}}, make([]Path, 4), 7)
	ask := func(at int64, i int) {
		f.enter(at, f.segment(0, 1, protocolUDP, uint16(i), uint16(i>>16), 0))
		for _, d := range f.drain() {
			f.done(d.packet)
		}
	}
	for i := range natMost + 10 {
		ask(0, i)
	}
	if n := len(f.nats[0].asked); n != natMost {
		t.Errorf("%d flows are remembered", n)
	}
	if ask(natTime+1, 1<<17); len(f.nats[0].asked) != 1 {
		t.Errorf("%d flows are remembered when all but one are old", len(f.nats[0].asked))
	}
}
