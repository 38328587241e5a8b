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

// relays stand before the ports of all nodes and can cut a node off from the others. Nothing is refused then: what is
// sent is late, as streams are, or lost, as packets are.
type relays struct {
	// pid is the process of a node.
	pid func(node int) int

	// mu guards what follows.
	mu      sync.Mutex
	changed chan struct{} // closed at each change of cut
	cut     map[int]bool
	from    map[netip.AddrPort]int // nodes by the address from which they gossip
	nodes   int
	closers []func() error
	closed  bool
}

func newRelays(nodes int, pid func(int) int) *relays {
	return &relays{pid: pid, nodes: nodes, changed: make(chan struct{}), cut: map[int]bool{}, from: map[netip.AddrPort]int{}}
}

// set cuts a node off, or ends that.
func (r *relays) set(node int, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut[node] = cut
	close(r.changed)
	r.changed = make(chan struct{})
}

// state says whether two nodes cannot speak with each other, and returns what is closed when that may have changed.
func (r *relays) state(a, b int) (cut, closed bool, changed chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut[a] || r.cut[b], r.closed, r.changed
}

// wait returns once two nodes can speak with each other; false when all is over.
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

// close ends all relays.
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

// streams forwards connections of others to a node.
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
		return // as the caller would have met it
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

// copy passes on what comes while the two nodes can speak, and then the end of it.
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

// packets forwards gossip packets to a node, as from the front: answers go to the address that a node has advertised.
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
				continue // of an earlier packet, whose receiver was not there
			}
			r.mu.Lock()
			source, known := r.from[netip.AddrPortFrom(from.Addr().Unmap(), from.Port())]
			lost := !known || r.cut[source] || r.cut[node]
			r.mu.Unlock()
			if !lost {
				// Packets may be lost.
				_, _ = conn.WriteToUDPAddrPort(buf[:n], to)
			}
		}
	}()
	return nil
}

// owner finds the node that made a connection: by its inode in the kernel's table, and who has that open.
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

// inodeOf finds the socket with these two ends in the kernel's table of connections.
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

// kernelForm writes an IPv4 address and port as /proc/net/tcp does on machines whose lowest byte is first.
func kernelForm(s string) (string, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil {
		return "", err
	}
	b := a.Addr().Unmap().As4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", b[3], b[2], b[1], b[0], a.Port()), nil
}
