package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
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

// Status is the state of a running node. `proxima status -json` prints its JSON.
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

// Status returns the state of a running node.
func (n *Node) Status() Status {
	s := Status{Node: n.id.Node, Boot: n.id.Boot, Run: n.cfg.Node.Run, UptimeS: time.Since(n.started).Seconds(),
		Frontier: n.frontier.Status(), Crawl: n.loop.Stats(), LogDir: n.LogDir(),
		Sink: n.sinkStatus()}
	if n.overlay != nil {
		s.Overlay = n.overlay.status()
	}
	return s
}

// socket returns the path of the socket on which a running node answers. Only its owner may use it.
func socket(data string) string { return filepath.Join(data, "status.sock") }

// socketError says what the system means by an invalid argument: that the path is too long.
func socketError(err error) error {
	if errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("its path is too long for a socket: choose a shorter data directory (%w)", err)
	}
	return err
}

// explain returns why a host waits. For a name without a scheme it returns those of its http and https hosts that are known.
func (w watcher) explain(ctx context.Context, name string) (out []frontier.HostStatus, err error) {
	paused := w.frontier.Status().Paused
	for _, host := range hostsOf(name) {
		status := whilePaused(w.frontier.Explain(host), paused)
		if !status.Known {
			blocked := w.blockedHost(host)
			switch role, known, err := w.frontier.RoleOf(ctx, host); {
			case err != nil:
				return nil, err
			case blocked != "":
				status.Sentence = blocked
			case !known:
				continue
			case role == frontier.Replica:
				status.Sentence = "another node owns it, and this one keeps its replica"
			}
		}
		out = append(out, status)
	}
	if out == nil {
		return nil, w.unknown(name)
	}
	return out, nil
}

// unknown says of a name without a known host that the scope leaves it out, or that it is not here.
func (w watcher) unknown(name string) error {
	for _, host := range hostsOf(name) {
		u, reason := w.rules.Resolve(identity.URL{}, host+"/")
		if reason == identity.Accepted {
			reason = w.rules.Admit(u, 0, 0, 0)
		}
		if reason == identity.Excluded || reason == identity.OutOfScope {
			return refusal{http.StatusNotFound, fmt.Errorf("%s: the scope leaves it out (%s)%s", name, reason, portHint(name))}
		}
	}
	return notHere(name)
}

// whilePaused says of a host that could be asked now or after the gap of its server why it is not. paused is empty while the node is not paused.
func whilePaused(h frontier.HostStatus, paused string) frontier.HostStatus {
	if paused != "" && (h.Wait == "ready" || h.Wait == "gap") {
		h.Sentence = "no request begins: " + paused
	}
	return h
}

// notHere is ErrNotHere with the name of a host.
func notHere(name string) error { return fmt.Errorf("%s: %w%s", name, ErrNotHere, portHint(name)) }

// portHint says of a name without a port that it might need one.
func portHint(name string) string {
	if _, rest, _ := strings.Cut(name, "://"); strings.Contains(cmp.Or(rest, name), ":") {
		return ""
	}
	return "; a port other than 80 and 443 belongs to the name (HOST:PORT)"
}

// hostsOf returns the hosts that a name stands for: without a scheme, the http host and the https host.
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

// ErrNotRunning means that no node answers for a data directory.
var ErrNotRunning = errors.New("no node is running there")

// AskStatus returns the status of the node that runs in a data directory.
func AskStatus(ctx context.Context, data string) (s Status, err error) {
	return s, Call(ctx, http.MethodGet, data, "/status", nil, &s)
}

// Call makes a call of the API on the socket of the node that runs in a data directory. It decodes the answer from JSON, unless to is an
// io.Writer: that gets the answer as it is.
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
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err // its URL tells nobody anything
	}
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %s", ErrNotRunning, data)
	case ctx.Err() != nil || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("ask node in %s: %w", data, socketError(err))
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
