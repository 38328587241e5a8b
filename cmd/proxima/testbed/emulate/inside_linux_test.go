package emulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Tests of the network consist of two processes, like the testbed. The outer one runs the test binary again, which calls Reexec. The inner
// one does the test. These variables tell the processes apart and say how to run.
const (
	roleVariable      = "EMULATE_TEST_ROLE"      // see role
	emulationVariable = "EMULATE_TEST_EMULATION" // Config.Emulation
	nobody            = 65534
)

func TestMain(m *testing.M) {
	if os.Getenv("GORACE") == "" {
		// With the race detector each of the many processes would take a second longer.
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	if handled, code := Child(os.Args[1:]); handled {
		os.Exit(code)
	}
	if code, handled, err := role(os.Getenv(roleVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	} else if handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// way is one way of running a test inside.
type way struct {
	name, emulation string
	user            bool // as an ordinary user
}

var allWays = []way{{"tun", TUN, false}, {"veth", Veth, false}, {"user tun", TUN, true}, {"user veth", Veth, true}}

// inside returns true in the inner process, which does the test. The outer process starts an inner one in each way, and fails or skips as it
// does.
func inside(t *testing.T, ways ...way) bool {
	t.Helper()
	if Inside() {
		return true
	}
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			needs(t, w)
			name, _, _ := strings.Cut(t.Name(), "/")
			out, err := outer(t, w, roleTest, "-test.run=^"+name+"$", "-test.v").CombinedOutput()
			t.Logf("%s", bytes.TrimSpace(out))
			if err != nil {
				t.Fatalf("inside: %v", err)
			}
			if bytes.Contains(out, []byte("--- SKIP")) {
				t.Skip("SKIPPED inside, see above")
			}
			if !bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
				t.Fatal("the test did not run inside")
			}
		})
	}
	return false
}

// needs skips a test that the machine does not allow, and says why.
func needs(t *testing.T, w way) {
	t.Helper()
	if w.user && os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can become another user")
	}
	ready := preflighted(t, outer(t, w, rolePreflight))
	if ready.Emulation == Portable || ready.Emulation == Veth && w.emulation == TUN {
		t.Skipf("SKIPPED: this machine does not allow it: %s", strings.Join(ready.Missing, "; "))
	}
}

// preflighted returns what a process in one of the roles of Preflight prints.
func preflighted(t *testing.T, cmd *exec.Cmd) (ready Readiness) {
	t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &ready)
	}
	if err != nil {
		t.Fatalf("preflight: %v", err)
	}
	return ready
}

// outer returns a command that runs the test binary in a role.
func outer(t *testing.T, w way, role string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, emulationVariable+"="+w.emulation)
	if w.user {
		cmd.Path = forAll(t, program)
		cmd.Dir = filepath.Dir(cmd.Path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

// forAll copies a program to a folder where every user may run it.
func forAll(t *testing.T, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "emulate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "program")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// begin runs a network until the function that it returns is called, which returns the last statistics.
func begin(t *testing.T, cfg Config) (n *Net, end func() Stats) {
	t.Helper()
	cfg.Emulation = os.Getenv(emulationVariable)
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	return n, func() Stats {
		s, err := n.Stats()
		stop()
		if err := errors.Join(err, <-ended); err != nil {
			t.Error(err)
		}
		return s
	}
}

// up runs a network until the end of the test.
func up(t *testing.T, cfg Config) *Net {
	t.Helper()
	n, end := begin(t, cfg)
	t.Cleanup(func() {
		s := end()
		t.Logf("%+v", s)
		if s.Unplanned != 0 || s.Strays != 0 || s.Congestion != "reno" || s.Emulation != os.Getenv(emulationVariable) {
			t.Errorf("unplanned drops %d, strays %d, congestion control %q, emulation %q", s.Unplanned, s.Strays, s.Congestion, s.Emulation)
		}
	})
	return n
}

// busy skips a test if the machine was too busy for its measurements.
func busy(t *testing.T, n *Net, err error) {
	t.Helper()
	s, e := n.Stats()
	if e != nil {
		t.Fatal(e)
	}
	if s.LateP99 > MaxLate || s.Busy > 0.5 {
		t.Skipf("SKIPPED: the machine is too busy to judge (%.0f %% in use, packets late by %v at the 99th percentile): %v",
			100*s.Busy, s.LateP99, err)
	}
	t.Error(err)
}

func addr(k int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(k >> 8), byte(k)}) }

// two returns a network of two namespaces, "a" with addr(1) and "b" with addr(2).
func two(up, down float64, p Path) Config {
	return Config{
		Endpoints: []Endpoint{{Addr: addr(1), Namespace: "a"}, {Addr: addr(2), Namespace: "b", UpBytesPerMs: up, DownBytesPerMs: down}},
		Path:      func(int, int) Path { return p },
		Seed:      1,
	}
}

// pages serves GET /N with N bytes, in namespace b at port 80.
func pages(t *testing.T, n *Net, namespace string, at netip.Addr) {
	t.Helper()
	l, err := n.Listen(t.Context(), namespace, "tcp", netip.AddrPortFrom(at, 80).String())
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 16<<20)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(body[:size]) // fails where the client has given up
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

// download returns the time of a page over a fresh connection.
func download(t *testing.T, n *Net, namespace string, from netip.Addr, bytes int) time.Duration {
	t.Helper()
	transport := &http.Transport{DialContext: n.Dialer(namespace), DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	began := time.Now()
	answer, err := (&http.Client{Transport: transport}).Get(fmt.Sprintf("http://%v/%d", from, bytes))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	size, err := io.Copy(io.Discard, answer.Body)
	if err != nil || size != int64(bytes) {
		t.Fatalf("%d bytes of %d: %v", size, bytes, err)
	}
	return time.Since(began)
}

// connect returns the time of a TCP handshake.
func connect(t *testing.T, n *Net, namespace string, to netip.AddrPort) time.Duration {
	t.Helper()
	began := time.Now()
	conn, err := n.Dialer(namespace)(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	conn.Close()
	return took
}

// echo answers datagrams at port 7 of an address.
func echo(t *testing.T, n *Net, namespace string, at netip.Addr) netip.AddrPort {
	t.Helper()
	to := netip.AddrPortFrom(at, 7)
	c, err := n.ListenPacket(t.Context(), namespace, "udp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 2000)
		for {
			size, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(b[:size], from) // a lost answer is a lost packet
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
	return to
}

// ping returns the round trip of a datagram of that size, and false if it does not return in time.
func ping(t *testing.T, c net.Conn, size int, patience time.Duration) (time.Duration, bool) {
	t.Helper()
	began := time.Now()
	if err := c.SetDeadline(began.Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, size)); err != nil {
		return 0, false
	}
	return time.Since(began), true
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
