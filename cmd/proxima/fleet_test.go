//go:build linux && !nolab

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"proxima/cmd/proxima/compare"
	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/testbed/sshd"
	"proxima/scripts/lab"
)

// yard is ten hosts on loopback, two of which serve sites. Each has an sshd and a home of its own.
type yard struct{ dir string }

func newYard(t *testing.T) yard {
	t.Helper()
	if _, err := sshd.Find(); err != nil {
		t.Skipf("runs over ssh are not checked: %v", err)
	}
	y := yard{t.TempDir()}
	cfg := sshd.Config{Dir: y.dir, Before: "export " + asProgram + "=1"}
	for i := range 10 {
		cfg.Hosts = append(cfg.Hosts, sshd.Host{Addr: fmt.Sprintf("127.0.7.%d", i+1), Refuses: i == 9})
	}
	servers, err := sshd.Start(t.Context(), cfg)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Skipf("loopback has one address here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := servers.Close(); err != nil {
			t.Error(err)
		}
	})
	var hosts []string
	for _, h := range servers.Hosts {
		hosts = append(hosts, fmt.Sprintf("%s:%d", h.Addr, h.Port))
	}
	for name, text := range map[string]string{
		"sites": hosts[0] + " 127.0.8.1 127.0.8.2\n" + hosts[1] + " 127.0.8.3\n",
		"nodes": "# the others\n" + strings.Join(hosts[2:], "\n") + "\n",
	} {
		if err := os.WriteFile(filepath.Join(y.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return y
}

// fleetScenario has three nodes on real machines, of which one is slow for a while, as is a server, and one dies and comes back.
func fleetScenario() string {
	text := "length = \"3m\"\nassigners = [\"nearest\", \"geographic\", \"random\"]\n"
	for _, section := range [][2]string{
		{"[[nodes]]", `name = "n"; count = 3`},
		{"[[sites]]", `name = "s"; count = 3; hosts = 2; pages = 4; page_kb = 4.0; links = 4; think_ms = 5.0`},
		{"[[events]]", `at = "1s"; kind = "cpu"; node = "n-1"; factor = 0.5`},
		{"[[events]]", `at = "1s"; kind = "slow"; server = "s-2"; add_ms = 100.0`},
		{"[[events]]", `at = "2s"; kind = "slow"; server = "s-2"; add_ms = 0.0`},
		{"[[events]]", `at = "2s"; kind = "cpu"; node = "n-1"; factor = 1.0`},
		{"[[events]]", `at = "3s"; kind = "kill"; node = "n-3"`},
		{"[[events]]", `at = "4s"; kind = "restart"; node = "n-3"`},
		{"[node.member]", `faster = 6.5; settle_after = "1s"`},
		{"[node.politeness]", `own_gap = "10ms"`},
		{"[node.crawl]", `patience = "1s"`},
		{"[node.batch]", `check = "500ms"; urls = 2; longest_wait = "1s"; deadline = "3s"`},
		{"[node.sink]", `url = "file:///packages"`},
	} {
		text += section[0] + "\n" + strings.ReplaceAll(section[1], "; ", "\n") + "\n"
	}
	return text
}

// livesOf counts the lives of a node in its logs, some of which are packed.
func livesOf(t *testing.T, logs string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(logs, "node*.jsonl*"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("gzip", append([]string{"-cdf"}, files...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	boots := map[string]bool{}
	for _, boot := range regexp.MustCompile(`"boot":\d+`).FindAllString(string(text), -1) {
		boots[boot] = true
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
	if err := os.WriteFile(scenario, []byte(fleetScenario()), 0o644); err != nil {
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
	for _, p := range lab.ProcessesOf(y.dir) {
		if !strings.Contains(fmt.Sprint(p.Args), "sshd_config") { // the yard's own servers
			t.Errorf("left behind: %+v", p)
		}
	}
	// One run is taken away, as if it had not been finished: it alone is made again, on the same hosts.
	if err := os.RemoveAll(filepath.Join(out, "set-2", "random")); err != nil {
		t.Fatal(err)
	}
	again := startFor(t, 8*time.Minute, args...)
	again.want(exitOK)
	if text := again.out.String(); strings.Count(text, "is finished") != 5 {
		t.Errorf("the second time:\n%s", text)
	}
	if _, err := rundir.ReadWorld(filepath.Join(out, "set-2", "random")); err != nil {
		t.Error(err)
	}
}
