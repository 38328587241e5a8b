package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"proxima/frontier/identity"
	"proxima/node/console"
	"proxima/node/runlog"
)

// openSocket listens on the socket. If that fails, for example because its path is too long, the node only warns, and ok is false.
func (n *Node) openSocket() (s served, ok bool) {
	path := socket(n.cfg.Node.Data)
	// A crash may have left a socket. Nobody listens on it, because this process has the lock of the data directory.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		n.warn(fmt.Errorf("status: %w", err))
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		n.warn(fmt.Errorf("status and ctl will not find this node: %w", socketError(err)))
		return served{}, false
	}
	if err := os.Chmod(path, 0o600); err != nil {
		n.warn(fmt.Errorf("status: %w", err))
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	made, _ := os.Lstat(path) // without an answer the file is left
	return served{listener: ownSocket{l, path, made}, handler: n.API(func(*http.Request) string { return byOperator })}, true
}

// ownSocket is a socket that takes its file with it, unless that is another node's whose directory has replaced this one's.
type ownSocket struct {
	net.Listener
	path string
	made os.FileInfo
}

func (s ownSocket) Close() error {
	err := s.Listener.Close()
	if now, there := os.Lstat(s.path); there == nil && os.SameFile(s.made, now) {
		err = errors.Join(err, os.Remove(s.path))
	}
	return err
}

// served is what a node serves on a port.
type served struct {
	key, address string // of the configuration
	secure       *tls.Config
	handler      http.Handler
	follow       func() error // reads its files again; may be nil
	listener     net.Listener
}

// keyConsole is the key of the console's address.
const keyConsole = "console.listen"

// openPages listens where the configuration says that others may ask this node. It fails where an address is in use: the operator has chosen
// it, and would look for the node there.
func (n *Node) openPages(listen func(network, address string) (net.Listener, error)) (err error) {
	if at := n.cfg.Metrics.Listen; at != "" {
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", metricsHandler(n.metrics))
		n.pages = append(n.pages, served{key: "metrics.listen", address: at, handler: mux})
	}
	if at := n.cfg.Console.Address(); at != "" {
		c, err := console.New(n.cfg.Console, n.API(console.Who))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
		n.pages = append(n.pages, served{key: keyConsole, address: at, secure: c.TLS, handler: c, follow: c.Follow})
	}
	if at := n.cfg.WebMaster.Listen; at != "" {
		if n.door, err = n.webMasters.page(); err != nil {
			return err
		}
		n.pages = append(n.pages, served{key: "webmaster.listen", address: at, handler: n.door})
	}
	for i := range n.pages {
		p := &n.pages[i]
		if p.listener, err = listen("tcp", p.address); err != nil {
			return fmt.Errorf("serve %s: %w", p.key, err)
		}
	}
	return nil
}

func (n *Node) closePages() (err error) {
	for _, p := range n.pages {
		if p.listener != nil {
			err = errors.Join(err, p.listener.Close())
		}
	}
	return err
}

// serve answers on a port until the context ends. If that fails, the node only warns.
func (n *Node) serve(ctx context.Context, p served) error {
	if p.key == keyConsole {
		n.runlog.Events().Info(runlog.EventConsole, runlog.KeyAddress, p.listener.Addr().String())
	}
	if err := console.Serve(ctx, p.listener, p.secure, p.handler); err != nil {
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
