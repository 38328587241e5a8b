//go:build !nolab

package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/cmd/proxima/compare"
	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/testbed"
	"proxima/cmd/proxima/testbed/emulate"
	"proxima/scripts/lab"
)

func TestTestbedCommandLines(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken, one := file(t, "broken.toml", "[[nodes]]\nnam = 1\n"), file(t, "one.toml", "[[nodes]]\n[[sites]]\n")
	told(t, exitOK, []string{"testbed list", "comparison", "churn", "two minutes"})
	told(t, exitUsage, [][]string{
		{"testbed", "Usage: proxima testbed run"},
		{"testbed walk", `unknown command "testbed walk" (proxima testbed help)`},
		{"testbed list x", `got "x"`},
		{"testbed run", "proxima testbed list"},
		{"testbed run none", `no scenario "none"`},
		{"testbed run " + broken, broken + ":2: nodes[0].nam: unknown key"},
		{"testbed run -portable -rtt x ci -out " + filepath.Join(full, "y"), "-rtt and -cities need each other"},
		{"testbed run ci -set lenght=9s", "lenght"},
		{"testbed sweep ci", "-set KEY=VALUE,VALUE"},
		{"testbed sweep ci -set length=9s", "several values"},
		{"testbed sweep ci -set length=9s,8s -set seed=1,2", "only one key can be varied"},
		{"testbed sweep ci -set length=9s,-1s", "not between 1s and 24h"},
		{"testbed sweep ci -set length=9s,8s,9s", "two values"},
		{"testbed sweep ci -set length=9s,8s -seeds 5..1", "1..5"},
		{"testbed sweep ci -set length=9s,8s -seed 5", "there is no flag -seed: did you mean -seeds?"},
		{"testbed run ci -seed 9223372036854775808", "-seed: \"9223372036854775808\" is not a number from 0 to 9223372036854775807"}, // no file of a scenario can hold it
		{"testbed sweep ci -set length=9s,8s -seeds 1..9223372036854775808", "1..5"},
		{"testbed shell", "the name of a node"},
		{"sites ci -at 127.0.0.1,127.0.0.2,127.0.0.1", "-at: 127.0.0.1 is given twice"},
		{"sites ci -at 127.0.0.1,here", `-at: "here" is no address (proxima sites -h`},
		{"fleet run ci -timeout soon", `-timeout: "soon" is not a duration: write 90s, 5m or 12h`},
		{"demo x", `got "x"`},
	}...)
	told(t, exitFailed,
		[]string{"sites ci -at 127.0.0.1,127.0.0.2", "serve sites of ci: 6 servers need an address each, and there are 2"},
		[]string{"testbed run ci -portable -out " + full, "is not empty"},
		[]string{"testbed shell -out " + full + " paris", "no run in namespaces is going on"},
		[]string{"sites " + one + " -at 127.0.0.1 -port 73537", "73537 is no port"})
}

// A second run, sweep or fleet in the folder of one that goes on would mix its files with those.
func TestFolderInUseIsRefused(t *testing.T) {
	dir := t.TempDir()
	release, err := rundir.Claim(dir)
	if err != nil {
		t.Fatal(err)
	}
	const used = " is in use by another run: wait for its end, or name another folder"
	hosts, seeds := file(t, "a.hosts", "127.0.0.1:1\n"), file(t, "seeds.txt", "http://a.test/\n")
	told(t, exitFailed, [][]string{
		{"testbed run ci -portable -out " + dir, dir + used},
		{"testbed run ci -portable -separate -out " + dir, dir + used},
		{"testbed sweep ci -portable -set length=8s,9s -out " + dir, dir + used},
		{"fleet run ci -hosts " + hosts + " -seeds " + seeds + " -out " + dir, dir + used},
	}...)
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("%v, files: %v", err, list)
	}
	release()
	if release, err = rundir.Claim(dir); err != nil {
		t.Fatalf("after the end of the run: %v", err)
	}
	release()
}

// A run that never begins leaves no folder behind.
func TestNoFolderOfARunThatNeverBegins(t *testing.T) {
	t.Chdir(t.TempDir())
	told(t, exitUsage, []string{"testbed run ci -portable -rtt nowhere -cities nowhere", "nowhere"},
		[]string{"testbed sweep ci -portable -set length=8s,9s -rtt nowhere -cities nowhere", "nowhere"})
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Who stops while namespaces are tried out gets no other emulation instead, and no folder. A world that namespaces have no room for is refused
// before its folder is made.
func TestNamespacesThatAreNotEntered(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if got := code(run(ctx, []string{"testbed", "run", "ci", "-out", "run"}, &out, &out), &out); got != exitStopped || out.Len() > 0 {
		t.Errorf("exit %d: %s", got, &out)
	}
	if ready := emulate.Preflight(t.Context()); ready.Emulation != emulate.Portable {
		told(t, exitUsage, []string{"testbed run ci -set sites.0.count=997 -out run", "3 nodes and 997 servers are more than the 999 that"})
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTheCommandOfARunCanBeRepeated: a shell takes what its folder records for the same words.
func TestTheCommandOfARunCanBeRepeated(t *testing.T) {
	want := testbedFlags{Options: testbed.Options{Dir: "/it's $HOME", Keep: true}, settings: []string{"length=3s", `node.batch.assigners=["nearest", "hash"]`}}
	text, err := exec.Command("sh", "-c", "proxima() { printf '%s\n' \"$@\"; }; "+commandLine(want.line("ci")...)).Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Split(strings.TrimSpace(string(text)), "\n")
	flags := newFlags("testbed run", io.Discard, "", "")
	var got testbedFlags
	got.one(flags.FlagSet)
	flags.BoolVar(&got.Separate, "separate", false, "")
	name, err := parse(flags, words[2:])
	if err != nil || !slices.Equal(name, []string{"ci"}) || !reflect.DeepEqual(got, want) {
		t.Errorf("%q: %v, %q, %+v", words, err, name, got)
	}
}

// TestShellLeavesSignalsToItsCommand: Ctrl-C is for what runs at the node, and the exit code is that of the command.
func TestShellLeavesSignalsToItsCommand(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shell.json"), []byte(`{"paris": ["env"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(dir, "ready")
	p := start(t, "testbed", "shell", "-out", dir, "paris", "sh", "-c", "trap 'exit 7' INT; : >"+ready+"; while :; do sleep .05; done")
	until(t, "the command runs", func() bool {
		_, err := os.Stat(ready)
		return err == nil
	})
	p.Signal(os.Interrupt)
	p.want(7)
}

// bed starts a run of the scenario ci in namespaces; without them the test is skipped.
func bed(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	if testing.Short() {
		t.Skip("a run in namespaces takes half a minute of real time")
	}
	if ready := emulate.Preflight(t.Context()); ready.Emulation == emulate.Portable {
		t.Skip("no namespaces here: " + strings.Join(ready.Missing, "; "))
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return startFor(t, 3*time.Minute, append([]string{"testbed", "run", "ci", "-out", dir}, args...)...)
}

// Real processes, real TCP: what comes of a short scenario is whole.
func TestAScenarioInNamespaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	p := bed(t, dir, "-seed", "3")
	p.want(exitOK)
	got, err := rundir.ReadTestbed(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got.Emulation != emulate.TUN && got.Emulation != emulate.Veth || got.Packets == 0 || got.Calibrations != 18 ||
		got.CalibrationP50 == 0 {
		t.Errorf("testbed: %+v", got)
	}
	r, err := compare.Read(t.Context(), []string{dir}, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Crawl; len(r.Assigners) != 2 || c.Coverage == nil || *c.Coverage != 1 || c.Lost == nil || *c.Lost != 0 {
		t.Errorf("%+v of %d assigners\n%s", c, len(r.Assigners), &p.out)
	}
}

// Ctrl-C ends all that was started: none of the processes that mention the folder of the run is left.
func TestCtrlCLeavesNothingBehind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	p := bed(t, dir)
	until(t, "a node runs", func() bool {
		logs, _ := filepath.Glob(filepath.Join(dir, rundir.NodesFolder, "*", "logs", "node.jsonl"))
		return len(logs) > 0
	})
	p.Signal(os.Interrupt)
	p.want(exitStopped)
	if left := lab.ProcessesOf(dir); len(left) > 0 {
		t.Errorf("left: %+v\n%s", left, &p.out)
	}
}

// TestScenarioThatCannotBeDrawn: a place that is no city is a fault of the scenario, and no folder is made for its run.
func TestScenarioThatCannotBeDrawn(t *testing.T) {
	t.Chdir(t.TempDir())
	const scenario = "[[nodes]]\ncities = [\"Pariss\"]\n[[sites]]\n"
	if err := os.WriteFile("own.toml", []byte(scenario), 0o644); err != nil {
		t.Fatal(err)
	}
	const said = `own.toml:2: nodes[0].cities: "Pariss" is neither a city nor a country`
	told(t, exitUsage, [][]string{{"testbed run own.toml -out there", said}, {"testbed run own.toml", said},
		{"testbed run ci -set sites.0.cities=[\"Pariss\"]", `: draw sites: sites[0].cities: "Pariss" is`},
		{"testbed run ci -rtt rtt -cities none", "open none: no such file"}}...)
	if made, err := os.ReadDir("."); err != nil || len(made) != 1 {
		t.Errorf("%v, %v: only the scenario should be there", made, err)
	}
}
