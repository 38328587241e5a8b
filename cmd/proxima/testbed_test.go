//go:build !nolab

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"proxima/cmd/proxima/testbed/emulate"
)

func TestTestbedCommandLines(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := file(t, "broken.toml", "[[nodes]]\nnam = 1\n")
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"nothing", []string{"testbed"}, exitUsage, []string{"Usage: proxima testbed run"}},
		{"unknown", []string{"testbed", "walk"}, exitUsage, []string{`there is no command "walk"`}},
		{"list", []string{"testbed", "list"}, exitOK, []string{"comparison", "churn", "two minutes"}},
		{"no scenario", []string{"testbed", "run"}, exitUsage, []string{"proxima testbed list"}},
		{"unknown scenario", []string{"testbed", "run", "none"}, exitUsage, []string{`no scenario "none"`}},
		{"broken scenario", []string{"testbed", "run", broken}, exitUsage, []string{broken + ":2: nodes[0].nam: unknown key"}},
		{"used folder", []string{"testbed", "run", "ci", "-portable", "-out", full}, exitFailed, []string{"is not empty"}},
		{"half a matrix", []string{"testbed", "run", "-portable", "-rtt", "x", "ci", "-out", filepath.Join(full, "y")}, exitUsage,
			[]string{"-rtt and -cities need each other"}},
		{"sweep of nothing", []string{"testbed", "sweep", "ci"}, exitUsage, []string{"-set KEY=VALUE,VALUE"}},
		{"sweep of one value", []string{"testbed", "sweep", "ci", "-set", "length=9s"}, exitUsage, []string{"several values"}},
		{"sweep of two keys", []string{"testbed", "sweep", "ci", "-set", "length=9s,8s", "-set", "seed=1,2"}, exitUsage, []string{"only one key can be varied"}},
		{"sweep of a wrong value", []string{"testbed", "sweep", "ci", "-set", "length=9s,-1s"}, exitUsage, []string{"not between 1s and 24h"}},
		{"sweep of a value twice", []string{"testbed", "sweep", "ci", "-set", "length=9s,8s,9s"}, exitUsage, []string{"two values"}},
		{"sweep of wrong seeds", []string{"testbed", "sweep", "ci", "-set", "length=9s,8s", "-seeds", "5..1"}, exitUsage, []string{"1..5"}},
		{"unknown key", []string{"testbed", "run", "ci", "-set", "lenght=9s"}, exitUsage, []string{"lenght"}},
		{"shell of nobody", []string{"testbed", "shell"}, exitUsage, []string{"the name of a node"}},
		{"shell without run", []string{"testbed", "shell", "-out", full, "paris"}, exitFailed,
			[]string{"no run in namespaces is going on"}},
		{"sites at a name", []string{"sites", "ci", "-at", "127.0.0.1,here"}, exitUsage, []string{`-at: "here" is no address (proxima sites -h`}},
		{"fleet in a time that is none", []string{"fleet", "run", "ci", "-timeout", "soon"}, exitUsage, []string{`-timeout: "soon" is not a duration: write 90s, 5m or 12h`}},
		{"sites at a port that is none", []string{"sites", file(t, "one.toml", "[[nodes]]\n[[sites]]\n"), "-at", "127.0.0.1", "-port", "73537"}, exitFailed,
			[]string{"73537 is no port"}},
		{"demo with arguments", []string{"demo", "x"}, exitUsage, []string{`got "x"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, out, errs := call(t, c.args...)
			if got != c.code {
				t.Fatalf("exit %d, want %d\n%s%s", got, c.code, out, errs)
			}
			for _, text := range c.want {
				if !strings.Contains(out+errs, text) {
					t.Errorf("%q is not in\n%s%s", text, out, errs)
				}
			}
		})
	}
}

// A run that never begins leaves no folder behind.
func TestNoFolderOfARunThatNeverBegins(t *testing.T) {
	t.Chdir(t.TempDir())
	if code, out, errs := call(t, "testbed", "run", "ci", "-portable", "-rtt", "nowhere", "-cities", "nowhere"); code != exitFailed ||
		!strings.Contains(errs, "nowhere") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestTheCommandOfARunCanBeRepeated: its folder records the words with spaces between them.
func TestTheCommandOfARunCanBeRepeated(t *testing.T) {
	want := testbedFlags{dir: "/d", keep: true, settings: []string{"length=3s"}}
	words := strings.Fields(strings.Join(want.line("ci"), " "))
	flags := newFlags("testbed run", io.Discard, "", "")
	var got testbedFlags
	got.set(flags.FlagSet)
	flags.BoolVar(&got.separate, "separate", false, "")
	name, err := parse(flags, words[2:])
	if err != nil || !slices.Equal(name, []string{"ci"}) || !reflect.DeepEqual(got, want) {
		t.Errorf("%q: %v, %q, %+v", words, err, name, got)
	}
}

// bed starts a run in namespaces; without them the test is skipped.
func bed(t *testing.T, args ...string) (cmd *exec.Cmd, out *bytes.Buffer) {
	t.Helper()
	if testing.Short() {
		t.Skip("a run in namespaces takes half a minute of real time")
	}
	if ready := emulate.Preflight(t.Context()); ready.Emulation == emulate.Portable {
		t.Skip("no namespaces here: " + strings.Join(ready.Missing, "; "))
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd, out = exec.CommandContext(ctx, os.Args[0], append([]string{"testbed", "run"}, args...)...), new(bytes.Buffer)
	cmd.Env = append(os.Environ(), asProgram+"=1", "XDG_CACHE_HOME="+t.TempDir())
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// Real processes, real TCP: what comes of a short scenario is whole.
func TestAScenarioInNamespaces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cmd, out := bed(t, "ci", "-out", dir, "-seed", "3")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
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
	var text bytes.Buffer
	if err := writeJSON(&text, r); err != nil {
		t.Fatal(err)
	}
	var figures struct {
		Assigners []struct {
			Name string
			URLs int
		}
		Crawl struct {
			Coverage float64
			Lost     *int
		}
	}
	if err := json.Unmarshal(text.Bytes(), &figures); err != nil {
		t.Fatal(err)
	}
	if len(figures.Assigners) != 2 || figures.Crawl.Coverage != 1 || figures.Crawl.Lost == nil || *figures.Crawl.Lost != 0 {
		t.Errorf("%+v\n%s", figures, out)
	}
}

// Ctrl-C ends all that was started: none of the processes that mention the folder of the run is left.
func TestCtrlCLeavesNothingBehind(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cmd, out := bed(t, "ci", "-out", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { // until a node runs
		if logs, _ := filepath.Glob(filepath.Join(dir, rundir.NodesFolder, "*", "logs", "node.jsonl")); len(logs) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Error("no node has started")
			break
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != exitStopped {
		t.Errorf("%v, want exit %d\n%s", err, exitStopped, out)
	}
	if left := mentioning(t, dir); len(left) > 0 {
		t.Errorf("left: %q\n%s", left, out)
	}
}

// mentioning lists the processes whose command or working directory holds a text.
func mentioning(t *testing.T, text string) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, d := range dirs {
		line, _ := os.ReadFile(filepath.Join(d, "cmdline")) // it may have ended meanwhile
		cwd, _ := os.Readlink(filepath.Join(d, "cwd"))
		if strings.Contains(string(line), text) || strings.Contains(cwd, text) {
			found = append(found, string(line))
		}
	}
	return found
}
