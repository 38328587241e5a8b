package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"proxima/frontier/identity"
	"proxima/node/console"
	"proxima/node/runlog"
)

// serveStatus answers on the socket until the context ends. If that fails, for example because its path is too long, the node only warns.
func (n *Node) serveStatus(ctx context.Context) error {
	path := socket(n.cfg.Node.Data)
	// A crash may have left a socket. Nobody listens on it, because this process has the lock of the data directory.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		n.warn(fmt.Errorf("status: %w", err))
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		n.warn(fmt.Errorf("status and ctl will not find this node: %w", socketError(err)))
		return nil
	}
	if err := os.Chmod(path, 0o600); err != nil {
		n.warn(fmt.Errorf("status: %w", err))
	}
	return n.serve(ctx, l, n.API(func(*http.Request) string { return byOperator }))
}

// serve answers on a listener until the context ends. If that fails, the node only warns.
func (n *Node) serve(ctx context.Context, l net.Listener, h http.Handler) error {
	if err := console.Serve(ctx, l, nil, h); err != nil {
		n.warn(err)
	}
	return nil
}

// serveAt serves something on an address until the context ends. If that fails, the node only warns.
func (n *Node) serveAt(ctx context.Context, what, address string, h http.Handler) error {
	if address == "" {
		return nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		n.warn(fmt.Errorf("serve %s: %w", what, err))
		return nil
	}
	return n.serve(ctx, l, h)
}

// serveConsole serves the console until the context ends. If that fails, the node only warns.
func (n *Node) serveConsole(ctx context.Context) error {
	if n.console == nil {
		return nil
	}
	l, err := n.console.Listen()
	if err == nil {
		n.runlog.Events().Info(runlog.EventConsole, runlog.KeyAddress, l.Addr().String())
		err = n.console.Serve(ctx, l)
	}
	if err != nil {
		n.warn(err)
	}
	return nil
}

// logged is called for each line of the logs. The console and the page for web masters show some of them.
func (n *Node) logged(line any) {
	n.book.Watch(line)
	if f, ok := line.(*runlog.Fetch); ok && n.door != nil {
		n.door.Visited(identity.Name(f.Host), f.URL, f.Status)
	}
}
