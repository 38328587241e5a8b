package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// relays own the advertised ports of all nodes and forward to them. They can isolate a node from the others. As on a broken network, nothing
// is refused then: streams stall and packets are lost.
type relays struct {
	// pid returns the process id of a node.
	pid func(node int) int

	// mu guards what follows.
	mu      sync.Mutex
	changed chan struct{} // closed at each change of cut
	cut     map[int]bool
	from    map[netip.AddrPort]int // nodes by the source address of their gossip
	nodes   int
	closers []func() error
	closed  bool
}

func newRelays(nodes int, pid func(int) int) *relays {
	return &relays{pid: pid, nodes: nodes, changed: make(chan struct{}), cut: map[int]bool{}, from: map[netip.AddrPort]int{}}
}

// set isolates a node, or ends that.
func (r *relays) set(node int, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut[node] = cut
	close(r.changed)
	r.changed = make(chan struct{})
}

// state reports whether two nodes are cut off from each other, and returns a channel that is closed when that may have changed.
func (r *relays) state(a, b int) (cut, closed bool, changed chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut[a] || r.cut[b], r.closed, r.changed
}

// wait returns true once two nodes can reach each other, and false when the relays are closed.
func (r *relays) wait(a, b int) bool {
	for {
		cut, closed, changed := r.state(a, b)
		if closed || !cut {
			return !closed
		}
		<-changed
	}
}

func (r *relays) keep(c func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closers = append(r.closers, c)
}

// close stops all relays.
func (r *relays) close() error {
	r.mu.Lock()
	r.closed = true
	close(r.changed)
	r.changed = make(chan struct{})
	list := r.closers
	r.mu.Unlock()
	var err error
	for _, c := range list {
		if e := c(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// streams forwards connections to a node.
func (r *relays) streams(front net.Listener, back string, node int) {
	r.keep(front.Close)
	go func() {
		for {
			c, err := front.Accept()
			if err != nil {
				return
			}
			go r.stream(c, back, node)
		}
	}()
}

func (r *relays) stream(in net.Conn, back string, node int) {
	defer in.Close()
	from, err := r.owner(in)
	if err != nil || !r.wait(from, node) {
		return
	}
	out, err := net.DialTimeout("tcp", back, 5*time.Second)
	if err != nil {
		return // the dialler sees a closed connection
	}
	defer out.Close()
	r.keep(in.Close)
	r.keep(out.Close)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		r.copy(in, out, from, node)
	}()
	r.copy(out, in, from, node)
	<-returned
}

// copy forwards data while the two nodes can reach each other, and then the end of the stream.
func (r *relays) copy(to, from net.Conn, a, b int) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !r.wait(a, b) {
			break
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
}

// packets forwards gossip packets to a node. They appear to come from front, since nodes answer to advertised addresses.
func (r *relays) packets(front net.PacketConn, back string, node int) error {
	to, err := netip.ParseAddrPort(back)
	if err != nil {
		return err
	}
	r.keep(front.Close)
	r.mu.Lock()
	r.from[to] = node
	r.mu.Unlock()
	conn := front.(*net.UDPConn)
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue // an earlier packet had no receiver
			}
			r.mu.Lock()
			source, known := r.from[netip.AddrPortFrom(from.Addr().Unmap(), from.Port())]
			lost := !known || r.cut[source] || r.cut[node]
			r.mu.Unlock()
			if !lost {
				_, _ = conn.WriteToUDPAddrPort(buf[:n], to) // packets may be lost
			}
		}
	}()
	return nil
}

// owner finds the node that made a connection: the process that has its inode open.
func (r *relays) owner(c net.Conn) (int, error) {
	inode, err := inodeOf(c.RemoteAddr().String(), c.LocalAddr().String())
	if err != nil {
		return 0, err
	}
	want := "socket:[" + inode + "]"
	for node := range r.nodes {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.pid(node)))
		if err != nil {
			return 0, err
		}
		for _, fd := range fds {
			if name, err := os.Readlink(fd); err == nil && name == want {
				return node, nil
			}
		}
	}
	return 0, fmt.Errorf("find owner of %s: it is none of the nodes", c.RemoteAddr())
}

// inodeOf finds the inode of the socket with these two ends in /proc/net/tcp.
func inodeOf(local, remote string) (string, error) {
	l, err := kernelForm(local)
	if err != nil {
		return "", err
	}
	rem, err := kernelForm(remote)
	if err != nil {
		return "", err
	}
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if col := strings.Fields(lines.Text()); len(col) > 9 && col[1] == l && col[2] == rem {
			return col[9], nil
		}
	}
	return "", errors.Join(fmt.Errorf("find connection of %s: it is gone", local), lines.Err())
}

// kernelForm formats an IPv4 address and port as /proc/net/tcp does on little-endian machines.
func kernelForm(s string) (string, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return "", err
	}
	b := a.Addr().Unmap().As4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", b[3], b[2], b[1], b[0], a.Port()), nil
}
