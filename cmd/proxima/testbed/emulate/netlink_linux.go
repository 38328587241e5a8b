package emulate

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// netlink changes devices and addresses in the network namespace of the thread that opened it.
type netlink struct {
	fd  int
	seq uint32
}

func openNetlink() (*netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &netlink{fd: fd}, nil
}

func (n *netlink) close() { unix.Close(n.fd) }

// create makes a request fail if what it adds is there.
const create = unix.NLM_F_CREATE | unix.NLM_F_EXCL

// request sends a message and waits for its acknowledgement. Its error says what was to be done.
func (n *netlink) request(kind, flags int, body []byte, what string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
	}()
	n.seq++
	header := pack(unix.NlMsghdr{Len: uint32(unix.SizeofNlMsghdr + len(body)), Type: uint16(kind),
		Flags: uint16(flags | unix.NLM_F_REQUEST | unix.NLM_F_ACK), Seq: n.seq})
	if err := unix.Sendto(n.fd, append(header, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 8192)
	for {
		size, _, err := unix.Recvfrom(n.fd, answer, 0)
		if err != nil {
			return err
		}
		messages, err := syscall.ParseNetlinkMessage(answer[:size])
		if err != nil {
			return err
		}
		for _, m := range messages {
			if m.Header.Seq == n.seq && m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4 {
				if code := int32(binary.NativeEndian.Uint32(m.Data)); code != 0 {
					return unix.Errno(-code)
				}
				return nil
			}
		}
	}
}

// pack returns a structure of the kernel as it lies in memory.
func pack(structure any) []byte {
	b, _ := binary.Append(nil, binary.NativeEndian, structure) // its size is fixed
	return b
}

// attribute returns a netlink attribute with its padding.
func attribute(kind int, parts ...[]byte) []byte {
	data := slices.Concat(parts...)
	a := append(pack(unix.RtAttr{Len: uint16(unix.SizeofRtAttr + len(data)), Type: uint16(kind)}), data...)
	return append(a, make([]byte, -len(a)&3)...)
}

func text(s string) []byte { return append([]byte(s), 0) }

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// device returns the body of a message about the device with that index. It turns on the flags.
func device(index, flags int, attributes ...[]byte) []byte {
	about := unix.IfInfomsg{Index: int32(index), Flags: uint32(flags), Change: uint32(flags)}
	return append(pack(about), slices.Concat(attributes...)...)
}

// up turns a device on. It sets further flags and the length of its queue in packets.
func (n *netlink) up(index, flags, queue int) error {
	body := device(index, unix.IFF_UP|flags, attribute(unix.IFLA_TXQLEN, number(uint32(queue))))
	return n.request(unix.RTM_NEWLINK, 0, body, "turn a device on")
}

// addVeth creates a pair of virtual Ethernet devices: name in this namespace, and peer in the namespace with that descriptor.
func (n *netlink) addVeth(name, peer string, namespace int) error {
	other := device(0, 0, attribute(unix.IFLA_IFNAME, text(peer)), attribute(unix.IFLA_ADDRESS, nodeMAC()),
		attribute(unix.IFLA_NET_NS_FD, number(uint32(namespace))))
	const vethInfoPeer = 1
	body := device(0, 0, attribute(unix.IFLA_IFNAME, text(name)), attribute(unix.IFLA_ADDRESS, routerMAC()),
		attribute(unix.IFLA_LINKINFO, attribute(unix.IFLA_INFO_KIND, text("veth")),
			attribute(unix.IFLA_INFO_DATA, attribute(vethInfoPeer, other))))
	return n.request(unix.RTM_NEWLINK, create, body, "create a veth pair")
}

func (n *netlink) addAddress(index int, addr netip.Addr) error {
	body := slices.Concat(pack(unix.IfAddrmsg{Family: unix.AF_INET, Prefixlen: 32, Index: uint32(index)}),
		attribute(unix.IFA_LOCAL, addr.AsSlice()), attribute(unix.IFA_ADDRESS, addr.AsSlice()))
	return n.request(unix.RTM_NEWADDR, create, body, fmt.Sprint("add address ", addr))
}

// addRoute adds a route to a prefix through a device. Packets leave with the source address. If it is local, this namespace has the addresses.
func (n *netlink) addRoute(index int, to netip.Prefix, source netip.Addr, local bool) error {
	route := unix.RtMsg{Family: unix.AF_INET, Dst_len: uint8(to.Bits()), Table: unix.RT_TABLE_MAIN, Protocol: unix.RTPROT_BOOT,
		Scope: unix.RT_SCOPE_LINK, Type: unix.RTN_UNICAST}
	if local {
		route.Table, route.Scope, route.Type = unix.RT_TABLE_LOCAL, unix.RT_SCOPE_HOST, unix.RTN_LOCAL
	}
	body := slices.Concat(pack(route), attribute(unix.RTA_DST, to.Masked().Addr().AsSlice()), attribute(unix.RTA_OIF, number(uint32(index))))
	if source.IsValid() {
		body = append(body, attribute(unix.RTA_PREFSRC, source.AsSlice())...)
	}
	return n.request(unix.RTM_NEWROUTE, create, body, fmt.Sprint("add route to ", to))
}
