package sites

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"proxima/scripts/lab"
)

// freePort is a port of loopback that nobody listens at.
func freePort(t *testing.T) uint16 {
	t.Helper()
	free, err := lab.Addresses("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddrPort(free[0]).Port()
}

// newNginx skips a test without nginx.
func newNginx(t *testing.T, port uint16, start func(*exec.Cmd) error, sites ...NginxSite) *Nginx {
	t.Helper()
	in, err := FindNginx()
	if err != nil {
		t.Skipf("no real sites here: %v", err)
	}
	return &Nginx{Dir: filepath.Join(t.TempDir(), `a "b" $c`), Port: port, Install: in, Sites: sites, Start: start}
}

func docs() NginxSite { return NginxSite{Host: "docs.a.test", Addr: netip.MustParseAddr("127.0.0.1")} }

func TestNginxServesDocumentation(t *testing.T) {
	a, b := docs().Addr, netip.MustParseAddr("127.0.0.2")
	var started *exec.Cmd
	x := newNginx(t, freePort(t), func(c *exec.Cmd) error { started = c; return c.Start() },
		docs(), NginxSite{Host: "docs.b.test", Addr: a, Tree: 1}, NginxSite{Host: "docs.c.test", Addr: b, Tree: 2})
	ctx, stop := context.WithCancel(t.Context())
	done, ready := make(chan error, 1), make(chan struct{})
	go func() { done <- x.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	addrs := map[string]netip.Addr{"docs.a.test": a, "docs.b.test": a, "docs.c.test": b, "stranger.test": b}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, _ := strings.Cut(address, ":")
		return new(net.Dialer).DialContext(ctx, network, addrs[host].String()+":"+port)
	}}
	get := func(u string) (int, string) {
		r, err := (&http.Client{Transport: transport}).Get(u)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body)
	}
	port := authority("", x.Port)
	for _, front := range x.Fronts() {
		if status, body := get(front); status != 200 || !strings.Contains(strings.ToLower(body), "<html") {
			t.Errorf("%s: %d, %d bytes", front, status, len(body))
		}
	}
	if status, _ := get("http://docs.c.test" + port + "/robots.txt"); status != 404 {
		t.Errorf("no robots.txt: %d", status)
	}
	if status, _ := get("http://stranger.test" + port + "/"); status != http.StatusMisdirectedRequest {
		t.Errorf("a stranger: %d", status)
	}
	transport.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if started.ProcessState == nil {
		t.Error("nginx was not started as it was told")
	}
}

func TestNginxSaysWhyItDoesNotRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).AddrPort().Port()
	err = newNginx(t, port, (*exec.Cmd).Start, docs()).Run(t.Context(), func() { t.Error("it listens at a port that is taken") })
	if err == nil || !strings.Contains(err.Error(), "it ended by itself") || !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("%v", err)
	}
	failed := errors.New("no namespace")
	if err := newNginx(t, port, func(*exec.Cmd) error { return failed }, docs()).Run(t.Context(), nil); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}
