package emulate

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A network like that of the demo: a namespace for each node, a hundred addresses of servers with one listener, and a different delay for
// each pair.
func TestManyAddresses(t *testing.T) {
	if !inside(t, allWays...) {
		return
	}
	const nodes, servers = 14, 100
	var cfg Config
	for i := range nodes {
		cfg.Endpoints = append(cfg.Endpoints, Endpoint{Addr: addr(i), Namespace: fmt.Sprintf("node%d", i)})
	}
	for k := range servers {
		cfg.Endpoints = append(cfg.Endpoints, Endpoint{Addr: addr(1000 + k), Namespace: "servers"})
	}
	oneWay := func(i, k int) time.Duration { return time.Duration(i+(k-nodes)/20) * time.Millisecond }
	cfg.Path = func(from, to int) Path { return Path{OneWay: oneWay(min(from, to), max(from, to))} }
	began := time.Now()
	n := up(t, cfg)
	t.Logf("up in %v", time.Since(began))
	l, err := n.Listen(t.Context(), "servers", "tcp", "0.0.0.0:80")
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan [2]string)
	go func() {
		defer close(ends)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			local, _, _ := net.SplitHostPort(c.LocalAddr().String())
			remote, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			c.Close()
			ends <- [2]string{local, remote}
		}
	}()
	for k := range servers {
		node := k % nodes
		took := connect(t, n, fmt.Sprintf("node%d", node), netip.AddrPortFrom(addr(1000+k), 80))
		if want := 2 * oneWay(node, nodes+k); took < want {
			t.Errorf("server %d from node %d: connected in %v, the round trip is %v", k, node, took, want)
		}
		if got, want := <-ends, [2]string{addr(1000 + k).String(), addr(node).String()}; got != want {
			t.Errorf("the server saw %v, not %v", got, want)
		}
	}
	l.Close()
	<-ends
}

func TestProcessesAreInTheirNamespace(t *testing.T) {
	if !inside(t, allWays[0], allWays[3]) {
		return
	}
	n := up(t, two(0, 0, Path{}))
	for namespace, own := range map[string]netip.Addr{"a": addr(1), "b": addr(2)} {
		var out bytes.Buffer
		cmd := exec.Command("cat", "/proc/net/fib_trie", "/proc/self/environ")
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := n.Start(namespace, cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		for _, a := range []netip.Addr{addr(1), addr(2)} {
			if has := strings.Contains(out.String(), a.String()+"\n"); has != (a == own) {
				t.Errorf("a process in %s has the address %v: %v", namespace, a, has)
			}
		}
		if strings.Contains(out.String(), insideVariable) {
			t.Error("the process is told that it is inside")
		}
	}
	if err := n.Start("c", exec.Command("true")); err == nil {
		t.Error("started in a namespace that does not exist")
	}
	if _, err := n.Dialer("a")(t.Context(), "tcp", "localhost:80"); err == nil || !strings.Contains(err.Error(), "localhost") {
		t.Errorf("dialled a name: %v", err)
	}
}

// When there are more processes than cores, they wait, and Stats reports it.
func TestWaitsForACore(t *testing.T) {
	if !inside(t, allWays[0], allWays[2]) {
		return
	}
	n := up(t, two(0, 0, Path{}))
	for range 2*runtime.NumCPU() + 1 {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := n.Start("a", cmd); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		s, err := n.Stats()
		switch {
		case err != nil:
			t.Fatal(err)
		case n.watch.blind:
			t.Skip("SKIPPED: the kernel does not tell how long processes wait for a core")
		case s.WaitP99 > 0 && s.Busy > 0 && s.Busy <= 1:
			return
		case time.Now().After(deadline):
			t.Fatalf("waited %v, %.2f busy", s.WaitP99, s.Busy)
		}
	}
}

// Packets to addresses that are not endpoints are lost, as on the Internet, and are counted.
func TestStrays(t *testing.T) {
	if !inside(t, allWays[0], allWays[1]) {
		return
	}
	n, end := begin(t, two(0, 0, Path{}))
	c := dial(t, n, "a", netip.AddrPortFrom(addr(9), 7))
	if _, ok := ping(t, c, 100, 50*time.Millisecond); ok {
		t.Error("an address that is no endpoint answers")
	}
	if s, err := n.Stats(); err != nil || s.Strays != 1 || s.Packets != 0 || s.Unplanned != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if s := end(); s.Strays != 1 {
		t.Errorf("after the end: %+v", s)
	}
	if err := n.Partition(nil, nil); err == nil {
		t.Error("an order after the end is no error")
	}
}

func TestTooManyEndpoints(t *testing.T) {
	if _, err := New(Config{Endpoints: make([]Endpoint, EndpointsMost+1)}); err == nil || !strings.Contains(err.Error(), "1000 at most") {
		t.Errorf("%v", err)
	}
}

// When the router is killed, Run returns an error that says so.
func TestRouterDies(t *testing.T) {
	if !inside(t, allWays[0]) {
		return
	}
	n, err := New(two(0, 0, Path{}))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.router.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "router") {
		t.Errorf("Run: %v", err)
	}
	if _, err := n.Stats(); err == nil {
		t.Error("figures of a run that failed at once")
	}
}
