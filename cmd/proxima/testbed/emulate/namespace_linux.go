package emulate

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	deviceName = "net0" // the device of each namespace that leads to the router
	// queueLength is the queue of a device in packets. The kernel's default of 500 drops packets silently.
	queueLength = 20_000
)

// namespace is a network namespace. It exists as long as its descriptor or a process in it.
type namespace struct {
	name       string
	fd         int // of the namespace
	congestion string
	dropped    int64 // by its devices before the run
}

// inNamespace runs f on a thread in the namespace with that descriptor.
func inNamespace(fd int, f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the network namespace: %w", err)
		}
		return f()
	})
}

// onThread runs f on a thread whose network namespace f may change. The thread ends with f, since it is not unlocked.
func onThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- f()
	}()
	return <-result
}

// newNamespace creates an empty namespace and runs f in it.
func newNamespace(f func() error) (int, error) {
	fd := -1
	err := onThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create a network namespace: %w", err)
		}
		if fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("open the network namespace: %w", err)
		}
		return f()
	})
	if err != nil && fd >= 0 {
		unix.Close(fd)
	}
	return fd, err
}

// tune sets the TCP parameters of the namespace and returns its congestion control. It ignores settings that it may not change, since
// /proc/sys is read-only in some containers. Stats reports the congestion control.
func tune() (string, error) {
	for _, s := range [][2]string{
		{"ipv6/conf/all/disable_ipv6", "1"},
		{"ipv6/conf/default/disable_ipv6", "1"},
		{"ipv4/tcp_congestion_control", congestion},
		{"ipv4/tcp_no_metrics_save", "1"}, // otherwise a connection affects later ones
		{"mptcp/enabled", "0"},            // otherwise Go's listeners use it
	} {
		err := os.WriteFile("/proc/sys/net/"+s[0], []byte(s[1]), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EROFS) {
			return "", fmt.Errorf("set net/%s: %w", s[0], err)
		}
	}
	name, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		return "", fmt.Errorf("read the congestion control: %w", err)
	}
	return strings.TrimSpace(string(name)), nil
}

// address gives the addresses to the namespace of the calling thread. Its device leads to all other addresses.
func address(addrs []netip.Addr) error {
	h, err := openNetlink()
	if err != nil {
		return err
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err == nil {
		err = h.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("turn the loopback device on: %w", err)
	}
	link, err := h.LinkByName(deviceName)
	if err != nil {
		return fmt.Errorf("find device %s: %w", deviceName, err)
	}
	if err := turnOn(h, link); err != nil {
		return err
	}
	first := net.IP(addrs[0].AsSlice())
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: netlink.NewIPNet(first)}); err != nil {
		return fmt.Errorf("add address %v: %w", first, err)
	}
	all := net.IPNet{IP: Prefix().Addr().AsSlice(), Mask: net.CIDRMask(Prefix().Bits(), 32)}
	routes := []*netlink.Route{{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: &all, Src: first}}
	for _, a := range addrs[1:] {
		// A local route has the effect of an address. Thousands of routes take less time to add.
		routes = append(routes, &netlink.Route{LinkIndex: lo.Attrs().Index, Scope: netlink.SCOPE_HOST, Dst: netlink.NewIPNet(a.AsSlice()),
			Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL})
	}
	for _, r := range routes {
		if err := h.RouteAdd(r); err != nil {
			return fmt.Errorf("add route to %v: %w", r.Dst, err)
		}
	}
	return nil
}

// droppedHere returns the number of packets that the devices of the calling thread's namespace have dropped, in both directions.
func droppedHere() (int64, error) {
	fs, err := procfs.NewFS("/proc/thread-self")
	var devices procfs.NetDev
	if err == nil {
		devices, err = fs.NetDev()
	}
	if err != nil {
		return 0, fmt.Errorf("read the devices' drops: %w", err)
	}
	sum := devices.Total()
	return int64(sum.RxDropped + sum.TxDropped), nil
}
