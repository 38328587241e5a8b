//go:build !nolab

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"proxima/cmd/proxima/rundir"
)

// A run that was stopped leaves results. A sweep that goes on makes it again, and no other one.
func TestSweepGoesOn(t *testing.T) {
	s := &sweep{dir: t.TempDir(), key: "length", values: []string{"8s", "9s"}, first: 1, last: 2}
	var made []string
	stopped := errors.New("stopped")
	run := func(stop string) error {
		made = nil
		return s.run(&testbedFlags{}, io.Discard, func(one *testbedFlags) error {
			if err := os.Mkdir(one.dir, 0o755); err != nil {
				return err
			}
			if err := rundir.WriteTestbed(one.dir, rundir.Testbed{}); err != nil {
				return err
			}
			made = append(made, one.settings[0]+" "+string('0'+rune(one.seed)))
			if made[len(made)-1] == stop {
				return stopped
			}
			return nil
		})
	}
	for _, step := range []struct {
		stop string
		want error
		made []string
	}{
		{"length=8s 2", stopped, []string{"length=8s 1", "length=8s 2"}},
		{"", nil, []string{"length=8s 2", "length=9s 1", "length=9s 2"}},
		{"", nil, nil},
	} {
		if err := run(step.stop); !errors.Is(err, step.want) || !slices.Equal(made, step.made) {
			t.Fatalf("%v; made %q, not %q", err, made, step.made)
		}
	}
	found, err := filepath.Glob(filepath.Join(s.dir, "*", "*", rundir.TestbedFile))
	if err != nil || len(found) != 4 {
		t.Errorf("finished: %s, %v", strings.Join(found, " "), err)
	}
}
