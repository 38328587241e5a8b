package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/netutil"

	"proxima/frontier/identity"
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
		n.warn(fmt.Errorf("status: %w", err))
		return nil
	}
	if err := os.Chmod(path, 0o600); err != nil {
		n.warn(fmt.Errorf("status: %w", err))
	}
	return n.serve(ctx, l, n.API(func(*http.Request) string { return byOperator }))
}

// serve answers on a listener until the context ends. If that fails, the node only warns.
func (n *Node) serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		n.warn(fmt.Errorf("answer on %s: %w", l.Addr(), err))
	}
	return nil
}

// serveMetrics answers Prometheus until the context ends. If that fails, the node only warns.
func (n *Node) serveMetrics(ctx context.Context) error {
	if n.cfg.Metrics.Listen == "" {
		return nil
	}
	l, err := net.Listen("tcp", n.cfg.Metrics.Listen)
	if err != nil {
		n.warn(fmt.Errorf("serve metrics: %w", err))
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsHandler(n.metrics))
	return n.serve(ctx, l, mux)
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

// mostReaders is how many connections the page for web masters has at once.
const mostReaders = 256

// serveDoor serves the page for web masters until the context ends. If that fails, the node only warns.
func (n *Node) serveDoor(ctx context.Context) error {
	if n.door == nil {
		return nil
	}
	l, err := net.Listen("tcp", n.cfg.WebMaster.Listen)
	if err != nil {
		n.warn(fmt.Errorf("serve page for web masters: %w", err))
		return nil
	}
	return n.serve(ctx, netutil.LimitListener(l, mostReaders), n.door)
}

// logged is called for each line of the logs. The console and the page for web masters show some of them.
func (n *Node) logged(line any) {
	n.book.Watch(line)
	if f, ok := line.(*runlog.Fetch); ok && n.door != nil {
		n.door.Visited(identity.Name(f.Host), f.URL, f.Status)
	}
}
