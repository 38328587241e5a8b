//go:build !nolab

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSimulateCommand(t *testing.T) {
	dir := t.TempDir()
	few := "simulate -nodes 5 -servers 9 -seeds 2 -estimates 2 -pages 5"
	_, first, _ := call(t, strings.Fields(few)...)
	told(t, exitOK, []string{few, "5 nodes, 9 servers, 5 homes over 64 cities; 2 seeds from 1;\nsynthetic round trips", "direct-4", "true-rtt", first}) // the same again

	svg, square := filepath.Join(dir, "sweep.svg"), file(t, "square", "0 0.1 0.2\n0.1 0 0.3\n0.2 0.3 0\n")
	told(t, exitOK,
		[]string{few + " -json -assigners nearest,direct-7 -homes 2", `"name": "nearest"`, `"name": "direct-7"`, `"homes": 2`},
		[]string{few + " -sweep nearest.explore=0,1 -assigners nearest -set nearest.stop_gain=0 -plot " + svg, "nearest.explore"},
		[]string{few + " -rtt " + square + " -rtt-unit s -assigners geographic,best", // places without a location
			"3 cities; 2 seeds from 1;\nmeasured round trips", "locations wrong 0 %, missing 100 %"})
	if text, err := os.ReadFile(svg); err != nil || !strings.Contains(string(text), "nearest.explore") {
		t.Errorf("plot: %v, %s", err, text)
	}
	// What was simulated is told, even if the drawing cannot be written.
	got, out, errs := call(t, strings.Fields(few+" -sweep estimates=1 -assigners best -plot "+filepath.Join(dir, "none", "x.svg"))...)
	if got != exitFailed || !strings.Contains(out, "choice ratio") || !strings.Contains(errs, "none") {
		t.Errorf("exit %d: %s%s", got, out, errs)
	}
}

func TestSimulateSaysWhatIsWrong(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	told(t, exitUsage, [][]string{
		{"simulate -nodes 0", "nodes: 0 is not between"},
		{"simulate -assigners oracle", `"oracle" is none of`},
		{"simulate -rtt " + none, "read round trips"},
		{"simulate -rtt-unit h -rtt " + none, `"h" is neither`},
		{"simulate -cities " + none, "-cities needs -rtt"},
		{"simulate -sweep estimates", "does not have the form"},
		{"simulate -sweep beauty=1,2", "proxima: no parameter \"beauty\": it is neither a numeric flag nor a key of the assigners\n"},
		{"simulate -set nearest.balance", `-set: "nearest.balance" does not have the form key=value`},
		{"simulate -set nearest.balance=-1", "nearest.balance"},
		{"simulate -nodes many", `-nodes: "many" is not a number`},
		{"simulate -plot x.svg", "-plot draws a -sweep"},
		{"simulate -sweep estimates=1,2 -plot x.gif", "none of .svg, .png and .pdf"},
		{"simulate -goals -sweep nodes=3,4", "their own settings"},
		{"simulate -papers -sweep nodes=3,4 -plot x.svg", "settings of its own"},
		{"simulate -papers -nodes 3", "settings of its own"},
		{"simulate -papers -goals", "choose one"},
		{"simulate -goals -data " + none, "read round trips"},
		{"simulate server", "takes no arguments"},
	}...)
	told(t, exitOK, []string{"simulate -h", "-location-wrong share"})
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
