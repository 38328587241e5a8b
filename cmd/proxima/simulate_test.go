//go:build !nolab

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// simulated runs the command, and returns its output and its exit code.
func simulated(t *testing.T, args ...string) (out, errs string, exitCode int) {
	t.Helper()
	var o, e bytes.Buffer
	exitCode = code(runSimulate(context.Background(), args, &o, &e), &e)
	return o.String(), e.String(), exitCode
}

func TestSimulateCommand(t *testing.T) {
	few := []string{"-nodes", "5", "-servers", "9", "-seeds", "2", "-estimates", "2", "-pages", "5"}
	with := func(more ...string) []string { return append(append([]string(nil), few...), more...) }

	out, errs, code := simulated(t, with()...)
	for _, want := range []string{"5 nodes, 9 servers, 5 homes over 64 cities (synthetic", "direct-4", "true-rtt"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, want 0 and %q: %s%s", code, want, out, errs)
		}
	}
	again, _, _ := simulated(t, with()...)
	if again != out {
		t.Error("the same command prints something else the second time")
	}

	out, _, code = simulated(t, with("-json", "-assigners", "nearest,direct-7", "-homes", "2")...)
	var r struct {
		Assigners []struct {
			Name        string
			ChoiceRatio struct{ Median float64 } `json:"choice_ratio"`
		}
		World struct{ Homes int }
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || len(r.Assigners) != 2 || r.Assigners[1].Name != "direct-7" ||
		r.Assigners[0].ChoiceRatio.Median < 1 || r.World.Homes != 2 {
		t.Errorf("exit code %d, %v: %s", code, err, out)
	}

	svg := filepath.Join(t.TempDir(), "sweep.svg")
	sweep := with("-sweep", "nearest.explore=0,1", "-assigners", "nearest", "-set", "nearest.stop_gain=0", "-plot", svg)
	out, errs, code = simulated(t, sweep...)
	text, err := os.ReadFile(svg)
	if code != 0 || err != nil || !strings.Contains(string(text), "nearest.explore") || !strings.Contains(out, "nearest.explore") {
		t.Errorf("exit code %d, %v: %s%s", code, err, out, errs)
	}

	dir := t.TempDir()
	// What was simulated is told, even if the drawing cannot be written.
	out, errs, code = simulated(t, with("-sweep", "estimates=1", "-assigners", "best", "-plot", filepath.Join(dir, "none", "x.svg"))...)
	if code != exitFailed || !strings.Contains(out, "choice ratio") || !strings.Contains(errs, "none") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}

	square := filepath.Join(dir, "square")
	if err := os.WriteFile(square, []byte("0 0.1 0.2\n0.1 0 0.3\n0.2 0.3 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code = simulated(t, with("-rtt", square, "-rtt-unit", "s", "-assigners", "geographic,best", "-location-missing", "1")...)
	if code != 0 || !strings.Contains(out, "3 cities (measured") {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
}

func TestSimulateSaysWhatIsWrong(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-nodes", "0"}, "nodes: 0 is not between"},
		{[]string{"-assigners", "oracle"}, `"oracle" is none of`},
		{[]string{"-rtt", none}, "read round trips"},
		{[]string{"-rtt-unit", "h", "-rtt", none}, `"h" is neither`},
		{[]string{"-cities", none}, "-cities needs -rtt"},
		{[]string{"-sweep", "estimates"}, "does not have the form"},
		{[]string{"-sweep", "beauty=1,2"}, "proxima: no parameter \"beauty\": it is neither a numeric flag nor a key of the assigners\n"},
		{[]string{"-set", "nearest.balance"}, `-set: "nearest.balance" does not have the form key=value`},
		{[]string{"-nodes", "many"}, `-nodes: "many" is not a number`},
		{[]string{"-seeds", "99999999999999999999"}, `-seeds: "99999999999999999999" is not a number`},
		{[]string{"-plot", "x.svg"}, "-plot draws a -sweep"},
		{[]string{"-sweep", "estimates=1,2", "-plot", "x.gif"}, "none of .svg, .png and .pdf"},
		{[]string{"-goals", "-sweep", "nodes=3,4"}, "their own settings"},
		{[]string{"-papers", "-sweep", "nodes=3,4", "-plot", "x.svg"}, "settings of its own"},
		{[]string{"-papers", "-goals"}, "choose one"},
		{[]string{"-goals", "-data", none}, "read round trips"},
		{[]string{"-set", "nearest.balance=-1"}, "nearest.balance"},
		{[]string{"server"}, "takes no arguments"},
		{[]string{"-colour"}, "there is no flag -colour"},
	} {
		out, errs, code := simulated(t, c.args...)
		if code != exitUsage || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%q: exit code %d, want %d and %q:\n%s%s", c.args, code, exitUsage, c.want, out, errs)
		}
	}
	if out, _, code := simulated(t, "-h"); code != 0 || !strings.Contains(out, "-location-wrong share") {
		t.Errorf("-h: exit code %d\n%s", code, out)
	}
}

// TestCtrlCIsNoFailure: what was stopped by Ctrl-C has the exit code for it, and needs no explanation.
func TestCtrlCIsNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs strings.Builder
	if got := code(run(ctx, []string{"simulate"}, io.Discard, &errs), &errs); got != exitStopped || errs.Len() > 0 {
		t.Errorf("exit %d: %s", got, &errs)
	}
}
