package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/crawl"
	"proxima/node/sink"
)

// Status is what a running node says of itself. Its JSON is what `proxima status -json` prints.
type Status struct {
	Node     string          `json:"node"`
	Boot     uint64          `json:"boot"`
	Run      string          `json:"run"`
	UptimeS  float64         `json:"uptime_s"`
	Frontier frontier.Status `json:"frontier"`
	Crawl    crawl.Stats     `json:"crawl"`
	LogDir   string          `json:"log_dir"`
	// Sink is missing where pages are discarded.
	Sink *sink.Status `json:"sink,omitempty"`
	// Overlay is missing where the node crawls alone.
	Overlay *OverlayStatus `json:"overlay,omitempty"`
}

// Status reports on a running node.
func (n *Node) Status() Status {
	s := Status{Node: n.id.Node, Boot: n.id.Boot, Run: n.cfg.Node.Run, UptimeS: time.Since(n.started).Seconds(),
		Frontier: n.frontier.Status(), Crawl: n.loop.Stats(), LogDir: n.LogDir(),
		Sink: n.sinkStatus()}
	if n.overlay != nil {
		s.Overlay = n.overlay.status()
	}
	return s
}

// socket is where a running node answers: a file that only its owner may use.
func socket(data string) string { return filepath.Join(data, "status.sock") }

// serveStatus answers on the socket until the context ends. A node that cannot (a path too long for a socket, say)
// crawls all the same, and says so.
func (n *Node) serveStatus(ctx context.Context) error {
	path := socket(n.cfg.Node.Data)
	// A socket left by a crash: the data directory is locked, so nobody listens on it.
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

// serve answers on a listener until the context ends. The crawl does not depend on it.
func (n *Node) serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		n.warn(fmt.Errorf("answer on %s: %w", l.Addr(), err))
	}
	return nil
}

// explain says why a host is waiting; of a name without a scheme, both the host of http and that of https, where something is
// known of both.
func (n *Node) explain(ctx context.Context, name string) (out []frontier.HostStatus, err error) {
	for _, host := range hostsOf(name) {
		status := n.frontier.Explain(host)
		if !status.Known {
			switch state, err := n.frontier.StateOf(ctx, host); {
			case err != nil:
				return nil, err
			case state == nil:
				continue
			}
		}
		out = append(out, status)
	}
	if out == nil {
		return nil, fmt.Errorf("%s: %w", name, ErrNotHere)
	}
	return out, nil
}

// hostsOf are the hosts that a person means by a name: without a scheme both that of http and that of https.
func hostsOf(name string) []string {
	hosts := []string{name}
	if !strings.Contains(name, "://") {
		hosts = []string{"http://" + name, "https://" + name}
	}
	for i, host := range hosts {
		if u, err := identity.Parse(host); err == nil {
			hosts[i] = u.Host
		}
	}
	return hosts
}

// ErrNotRunning says that no node answers for a data directory.
var ErrNotRunning = errors.New("no node is running there")

// AskStatus asks the node that runs in a data directory.
func AskStatus(ctx context.Context, data string) (s Status, err error) {
	return s, Call(ctx, http.MethodGet, data, "/status", nil, &s)
}

// Call makes a call of the API to the node that runs in a data directory, on its socket, and reads its JSON; an io.Writer gets the answer as it is.
func Call(ctx context.Context, method, data, path string, body io.Reader, to any) error {
	copied, asItIs := to.(io.Writer)
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket(data))
		},
	}}
	defer client.CloseIdleConnections()
	if !asItIs {
		var stop func()
		ctx, stop = context.WithTimeout(ctx, time.Minute)
		defer stop()
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://node"+apiRoot+path, body)
	if err != nil {
		return fmt.Errorf("ask node: %w", err)
	}
	res, err := client.Do(req)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %s", ErrNotRunning, data)
	case err != nil:
		return fmt.Errorf("%w: %s: %w", ErrNotRunning, data, err)
	}
	defer res.Body.Close()
	var failed trouble
	if res.StatusCode != http.StatusOK {
		to = &failed
	}
	if res.StatusCode == http.StatusOK && asItIs {
		if _, err := io.Copy(copied, res.Body); err != nil {
			return fmt.Errorf("read answer of node: %w", err)
		}
		return nil
	}
	if err := json.NewDecoder(res.Body).Decode(to); err != nil {
		return fmt.Errorf("read answer of node (%s): %w", res.Status, err)
	}
	if failed.Error != "" {
		return errors.New(failed.Error)
	}
	return nil
}
