package emulate

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
)

// Do runs f on a thread inside a namespace. Sockets that f opens belong to it. Sockets that other goroutines open do not.
func (n *Net) Do(namespace string, f func() error) error {
	ns, err := n.namespace(namespace)
	if err != nil {
		return err
	}
	return inNamespace(ns.fd, f)
}

// Start starts a command inside a namespace. Stats includes its waits for a core.
func (n *Net) Start(namespace string, cmd *exec.Cmd) error {
	cmd.Env = slices.DeleteFunc(cmd.Environ(), func(e string) bool { return strings.HasPrefix(e, insideVariable) }) // those of this package
	err := n.Do(namespace, cmd.Start)
	if err == nil {
		n.watch.add(cmd.Process.Pid)
	}
	return err
}

// Listen listens inside a namespace, on a literal address and port.
func (n *Net) Listen(ctx context.Context, namespace, network, address string) (listener net.Listener, err error) {
	err = n.literal(namespace, address, func() (err error) {
		listener, err = new(net.ListenConfig).Listen(ctx, network, address)
		return err
	})
	return listener, err
}

// ListenPacket listens for datagrams inside a namespace, on a literal address and port.
func (n *Net) ListenPacket(ctx context.Context, namespace, network, address string) (conn net.PacketConn, err error) {
	err = n.literal(namespace, address, func() (err error) {
		conn, err = new(net.ListenConfig).ListenPacket(ctx, network, address)
		return err
	})
	return conn, err
}

// Dialer returns a function for http.Transport that connects from inside a namespace to literal addresses and ports.
func (n *Net) Dialer(namespace string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = n.literal(namespace, address, func() (err error) {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

// literal runs f inside a namespace, but refuses names: other threads, outside the namespace, would resolve them.
func (n *Net) literal(namespace, address string, f func() error) error {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return fmt.Errorf("emulated network: %w", err)
	}
	return n.Do(namespace, f)
}
