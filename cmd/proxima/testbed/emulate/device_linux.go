package emulate

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// nodeMAC and routerMAC are the addresses of the two ends of every veth pair. The router fills them in, since the devices do not use ARP.
func nodeMAC() []byte   { return []byte{2, 0, 0, 0, 0, 1} }
func routerMAC() []byte { return []byte{2, 0, 0, 0, 0, 2} }

const tunPath = "/dev/net/tun"

// openTUN creates a TUN device in the namespace of the calling thread and returns its descriptor.
func openTUN() (int, error) {
	fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", tunPath, err)
	}
	request, err := unix.NewIfreq(deviceName)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("create a TUN device: %w", err)
	}
	return fd, nil
}

// plainPackets turns off the offloads of a device, so that its packets have checksums and are no larger than the MTU.
func plainPackets(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("turn off the offloads of %s: %w", name, err)
	}
	defer unix.Close(fd)
	for _, command := range []uint32{unix.ETHTOOL_STXCSUM, unix.ETHTOOL_STSO, unix.ETHTOOL_SGSO, unix.ETHTOOL_SGRO} {
		off := struct{ command, data uint32 }{command, 0}
		request := struct {
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}{data: unsafe.Pointer(&off)}
		copy(request.name[:unix.IFNAMSIZ-1], name)
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); e != 0 {
			return fmt.Errorf("turn off the offloads of %s: %w", name, e)
		}
	}
	return nil
}

// openVeth creates a pair of veth devices: name in the namespace of the calling thread, and deviceName in the given one. It returns a packet
// socket on the former.
func openVeth(name string, namespace int) (int, error) {
	h, err := openNetlink()
	if err != nil {
		return -1, err
	}
	defer h.Close()
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, HardwareAddr: routerMAC()},
		PeerName: deviceName, PeerHardwareAddr: nodeMAC(), PeerNamespace: netlink.NsFd(namespace)}
	if err := h.LinkAdd(pair); err != nil {
		return -1, fmt.Errorf("create a veth pair: %w", err)
	}
	const protocol = unix.ETH_P_IP<<8&0xff00 | unix.ETH_P_IP>>8 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("open a packet socket: %w", err)
	}
	for _, option := range []int{unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE} {
		// The FORCE options exceed the machine's limit if that is allowed. Lost packets are counted in any case.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 16<<20)
	}
	if err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: pair.Index}); err != nil {
		err = fmt.Errorf("bind a packet socket to %s: %w", name, err)
	} else {
		err = turnOn(h, pair)
	}
	if err != nil {
		unix.Close(fd)
	}
	return fd, err
}

// openNetlink returns a handle on the devices and addresses in the network namespace of the calling thread.
func openNetlink() (*netlink.Handle, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return h, nil
}

// turnOn turns on a device that leads to the router. TUN devices know no ARP anyway.
func turnOn(h *netlink.Handle, link netlink.Link) error {
	if err := errors.Join(h.LinkSetARPOff(link), h.LinkSetTxQLen(link, queueLength), h.LinkSetUp(link)); err != nil {
		return fmt.Errorf("turn device %s on: %w", link.Attrs().Name, err)
	}
	return nil
}
