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
	"proxima/cmd/proxima/testbed"
)

// fakeRun writes what a run of a scenario leaves in its folder.
func fakeRun(t *testing.T, scenario string, one *testbedFlags) {
	t.Helper()
	wanted, err := testbed.Load(scenario, one.settings...)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range testbed.Parts(wanted, testbed.Options{Dir: one.dir, Seed: one.seed}) {
		err := errors.Join(os.MkdirAll(part.Dir, 0o755), rundir.WriteTestbed(part.Dir, rundir.Testbed{}),
			os.WriteFile(filepath.Join(part.Dir, rundir.ScenarioFile), []byte(part.Scenario.Text()), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Finished runs count only for the scenario and the settings that they were made with.
func TestSweepRefusesOtherRuns(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		scenario, fixed string
		made            int // -1: refused
	}{
		{"ci", "geo.wrong=0.1", 2},
		{"ci", "geo.wrong=0.1", 0},
		{"ci", "geo.wrong=0.2", -1},
		{"ci", "separate=true", -1},
		{"demo", "geo.wrong=0.1", -1},
	} {
		s := &sweep{dir: dir, scenario: c.scenario, key: "length", values: []string{"8s", "9s"}, fixed: []string{c.fixed}, first: 1, last: 1}
		made := 0
		err := s.run(&testbedFlags{}, io.Discard, func(one *testbedFlags) error { made++; fakeRun(t, c.scenario, one); return nil })
		if err != nil && c.made >= 0 || err == nil && made != c.made {
			t.Errorf("%s with %s: %d runs, not %d; %v", c.scenario, c.fixed, made, c.made, err)
		}
	}
}

// A sweep with one run for each assigner knows its finished runs, too.
func TestSweepOfSeparateRunsGoesOn(t *testing.T) {
	s := &sweep{dir: t.TempDir(), scenario: "demo", key: "length", values: []string{"8s"}, fixed: []string{"separate=true"}, first: 1, last: 1}
	made := 0
	for range 2 {
		if err := s.run(&testbedFlags{}, io.Discard, func(one *testbedFlags) error { made++; fakeRun(t, "demo", one); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if made != 1 {
		t.Errorf("%d runs", made)
	}
}

// A run that was stopped leaves results. A sweep that goes on makes it again, and no other one.
func TestSweepGoesOn(t *testing.T) {
	s := &sweep{dir: t.TempDir(), scenario: "ci", key: "length", values: []string{"8s", "9s"}, first: 1, last: 2}
	var made []string
	stopped := errors.New("stopped")
	run := func(stop string) error {
		made = nil
		return s.run(&testbedFlags{}, io.Discard, func(one *testbedFlags) error {
			fakeRun(t, "ci", one)
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
