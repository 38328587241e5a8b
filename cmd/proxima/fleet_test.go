//go:build linux

package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"proxima/cmd/proxima/compare"
	"proxima/cmd/proxima/rundir"
)

// yard is ten hosts on loopback, each with an sshd and a home of its own.
type yard struct {
	dir   string
	hosts []string // lines of a list
}

const yardHosts = 10

// refusing is the host that knows another key.
const refusing = 9

func newYard(t *testing.T) *yard {
	t.Helper()
	sshd := ""
	for _, name := range []string{"/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		if _, err := os.Stat(name); err == nil {
			sshd = name
		}
	}
	if _, err := exec.LookPath("ssh"); err != nil || sshd == "" {
		t.Skip("no sshd or ssh: runs on machines over ssh are not checked")
	}
	y := &yard{dir: t.TempDir()}
	write := func(name, text string) string {
		path := filepath.Join(y.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, name := range []string{"host", "user", "other"} {
		key := filepath.Join(y.dir, name)
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
			t.Fatalf("make key: %v: %s", err, out)
		}
	}
	public, err := os.ReadFile(filepath.Join(y.dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // an sshd of root wants it
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	known := ""
	for i := range yardHosts {
		addr := fmt.Sprintf("127.0.7.%d", i+1)
		l, err := net.Listen("tcp", addr+":0")
		if err != nil {
			t.Skipf("addresses of loopback cannot be used: %v", err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		home := fmt.Sprintf("hosts/%d/", i)
		stand := write(home+"stand", fmt.Sprintf("#!/bin/sh\nexport HOME=%s %s=1\ncd \"$HOME\" || exit 1\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
			filepath.Join(y.dir, home), asProgram))
		key := "user.pub"
		if i == refusing {
			key = "other.pub"
		}
		config := write(home+"sshd_config", fmt.Sprintf("Port %d\nListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nPidFile none\nStrictModes no\n"+
			"UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\nMaxStartups 100\nForceCommand %s\n", port, addr,
			filepath.Join(y.dir, "host"), filepath.Join(y.dir, key), stand))
		daemon := exec.Command(sshd, "-D", "-e", "-f", config)
		if err := daemon.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = daemon.Process.Kill()
			_ = daemon.Wait() // it was killed
		})
		known += fmt.Sprintf("[%s]:%d %s", addr, port, public)
		y.hosts = append(y.hosts, fmt.Sprintf("%s:%d", addr, port))
		awaitPort(t, addr+":"+strconv.Itoa(port))
	}
	write("known_hosts", known)
	write("ssh_config", fmt.Sprintf("IdentityFile %[1]s/user\nIdentitiesOnly yes\nUserKnownHostsFile %[1]s/known_hosts\nGlobalKnownHostsFile none\n"+
		"StrictHostKeyChecking yes\n", y.dir))
	write("sites", y.hosts[0]+" 127.0.8.1 127.0.8.2\n"+y.hosts[1]+" 127.0.8.3\n")
	write("nodes", "# the others\n"+strings.Join(y.hosts[2:], "\n")+"\n")
	return y
}

func awaitPort(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// running are the processes whose folder lies in the yard.
func (y *yard) running(t *testing.T) (list []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, y.dir) {
			list = append(list, filepath.Dir(l)+" in "+to)
		}
	}
	return list
}

const fleetScenario = `description = "Three nodes on real machines, of which one is slow for a while, as is a server, and one dies and comes back"
length = "3m"
assigners = ["nearest", "geographic", "random"]

[[nodes]]
name = "n"
count = 3

[[sites]]
name = "s"
count = 3
hosts = 2
pages = 4
page_kb = 4.0
links = 4
think_ms = 5.0

[[events]]
at = "1s"
kind = "cpu"
node = "n-1"
factor = 0.5

[[events]]
at = "1s"
kind = "slow"
server = "s-2"
add_ms = 100.0

[[events]]
at = "2s"
kind = "slow"
server = "s-2"
add_ms = 0.0

[[events]]
at = "2s"
kind = "cpu"
node = "n-1"
factor = 1.0

[[events]]
at = "3s"
kind = "kill"
node = "n-3"

[[events]]
at = "4s"
kind = "restart"
node = "n-3"

[node.member]
faster = 6.5
settle_after = "1s"

[node.politeness]
own_gap = "10ms"

[node.crawl]
patience = "1s"

[node.batch]
check = "500ms"
urls = 2
longest_wait = "1s"
deadline = "3s"

[node.sink]
url = "file:///packages"
`

// livesOf is how many lives of a node stand in its logs.
func livesOf(t *testing.T, logs string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(logs, "node*.jsonl*"))
	if err != nil {
		t.Fatal(err)
	}
	boots := map[uint64]bool{}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var r io.Reader = f
		if strings.HasSuffix(path, ".gz") {
			if r, err = gzip.NewReader(f); err != nil {
				t.Fatal(err)
			}
		}
		for line := json.NewDecoder(r); ; {
			var e struct{ Boot uint64 }
			if line.Decode(&e) != nil {
				break
			}
			boots[e.Boot] = true
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return len(boots)
}

// TestFleet runs three assigners on two sets of three of ten hosts, with events, and once more: what is done is not done again.
func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("short: no sshd is started")
	}
	y := newYard(t)
	scenario := filepath.Join(y.dir, "real.toml")
	if err := os.WriteFile(scenario, []byte(fleetScenario), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(y.dir, "out")
	args := []string{"fleet", "run", scenario, "-hosts", filepath.Join(y.dir, "nodes"), "-sites", filepath.Join(y.dir, "sites"), "-out", out,
		"-sets", "2", "-port", "8300", "-F", filepath.Join(y.dir, "ssh_config"), "-timeout", "60s"}
	first := startFor(t, 8*time.Minute, args...)
	first.want(exitOK)
	if text := first.out.String(); !strings.Contains(text, "left out") || !strings.Contains(text, "Permission denied") {
		t.Errorf("the host that refuses is not told:\n%s", text)
	}
	for k := range 2 {
		for _, a := range []string{"nearest", "geographic", "random"} {
			dir := filepath.Join(out, fmt.Sprintf("set-%d", k+1), a)
			w, err := rundir.ReadWorld(dir)
			if err != nil {
				t.Fatalf("%v\n%s", err, &first.out)
			}
			if len(w.Events) != 6 || w.Events[0].Node != "n-1" || w.Events[1].AddMs != 100 || len(w.Assigners) != 1 || w.Assigners[0] != a {
				t.Errorf("%s: %+v of %v", dir, w.Events, w.Assigners)
			}
			if lives := livesOf(t, filepath.Join(dir, "nodes", "n-3", "logs")); lives != 2 {
				t.Errorf("%s: the node that is killed and started again has %d lives", dir, lives)
			}
			packages, err := filepath.Glob(filepath.Join(dir, "nodes", "n-*", "packages", "*"))
			if err != nil || len(packages) == 0 {
				t.Errorf("%s: packages %v, %v", dir, packages, err)
			}
		}
	}
	r, err := compare.Read(t.Context(), []string{out}, compare.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the first time:\n%s", &first.out)
	if c := r.Crawl.Coverage; c == nil || *c != 1 || r.Crawl.Attempted < 6*6*4 {
		t.Errorf("coverage %v of %d URLs attempted: %s", c, r.Crawl.Attempted, r.Crawl.Withheld)
	}
	if len(r.Runs) != 6 || len(r.Assigners) != 3 || r.Crawl.Lost != nil && *r.Crawl.Lost != 0 {
		t.Errorf("%d runs of %d assigners, lost %v", len(r.Runs), len(r.Assigners), r.Crawl.Lost)
	}
	for _, a := range r.Assigners {
		if a.ChoiceRatio != nil {
			t.Errorf("%s: choice ratio %v without a truth", a.Name, *a.ChoiceRatio)
		}
	}
	for _, p := range y.running(t) {
		t.Errorf("left behind: %s", p)
	}
	// One run is taken away, as if it had not been finished: it alone is made again, on the same hosts.
	if err := os.RemoveAll(filepath.Join(out, "set-2", "random")); err != nil {
		t.Fatal(err)
	}
	again := startFor(t, 8*time.Minute, args...)
	again.want(exitOK)
	if text := again.out.String(); strings.Count(text, "was run before") != 5 {
		t.Errorf("the second time:\n%s", text)
	}
	if _, err := rundir.ReadWorld(filepath.Join(out, "set-2", "random")); err != nil {
		t.Error(err)
	}
}
