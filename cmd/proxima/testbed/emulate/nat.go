package emulate

import (
	"encoding/binary"
	"maps"
	"time"
)

const (
	// natTime is how long answers to a datagram may pass. It is the minimum of RFC 4787, section 4.3.
	natTime = int64(2 * time.Minute)
	// natMost limits the flows that a NAT remembers.
	natMost = 1 << 16
)

// nat filters the packets to an endpoint. It accepts packets of TCP connections that the endpoint opened, and datagrams from addresses to
// which the endpoint has sent some recently. It does not translate addresses.
type nat struct{ asked map[flow]int64 }

// flow identifies the datagrams between two sockets.
type flow struct {
	peer         int // endpoint
	inner, outer uint16
}

// The fields of IPv4, TCP and UDP that a NAT reads (RFC 791, 9293, 768).
const (
	protocolAt, protocolTCP, protocolUDP = 9, 6, 17
	udpHeader                            = 8 // bytes
	tcpFlagsAt, tcpSYN, tcpACK           = 13, 0x02, 0x10
)

// transport returns the part of a packet after its IP header, or nil if that is shorter than the header of a datagram.
func (p *packet) transport() []byte {
	ip := p.frame[frameHeader : frameHeader+p.size]
	if len(ip) < 20 || len(ip) < int(ip[0]&15)*4+udpHeader {
		return nil
	}
	return ip[int(ip[0]&15)*4:]
}

// out records a packet that the endpoint sends now.
func (n *nat) out(now int64, p *packet) {
	t := p.transport()
	if t == nil || p.frame[frameHeader+protocolAt] != protocolUDP {
		return
	}
	if len(n.asked) >= natMost {
		maps.DeleteFunc(n.asked, func(_ flow, at int64) bool { return now-at > natTime })
	}
	if len(n.asked) < natMost {
		n.asked[flow{p.to, binary.BigEndian.Uint16(t), binary.BigEndian.Uint16(t[2:])}] = now
	}
}

// accepts reports whether a packet that is sent to the endpoint now may pass.
func (n *nat) accepts(now int64, p *packet) bool {
	t := p.transport()
	if t == nil {
		return false
	}
	switch p.frame[frameHeader+protocolAt] {
	case protocolTCP:
		return len(t) > tcpFlagsAt && t[tcpFlagsAt]&(tcpSYN|tcpACK) != tcpSYN // the first packet of a connection
	case protocolUDP:
		at, asked := n.asked[flow{p.from, binary.BigEndian.Uint16(t[2:]), binary.BigEndian.Uint16(t)}]
		return asked && now-at <= natTime
	}
	return false
}
