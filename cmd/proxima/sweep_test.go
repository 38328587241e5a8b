//go:build !nolab

package main

import (
	"context"
	"errors"
	"fmt"
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
	for _, part := range testbed.Parts(wanted, testbed.Options{Dir: one.Dir, Seed: one.Seed}) {
		err := errors.Join(os.MkdirAll(part.Dir, 0o755), rundir.WriteTestbed(part.Dir, rundir.Testbed{}), rundir.WriteWorld(part.Dir, rundir.World{}),
			os.WriteFile(filepath.Join(part.Dir, rundir.ScenarioFile), []byte(part.Scenario.Text()), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// made are the runs that a sweep of a scenario makes, each by its setting and its seed. The one called stop is stopped.
func made(t *testing.T, s *sweep, stop string) (list []string, err error) {
	t.Helper()
	err = s.run(&testbedFlags{}, io.Discard, func(one *testbedFlags) error {
		fakeRun(t, s.scenario, one)
		list = append(list, fmt.Sprint(one.settings[len(one.settings)-1], " ", one.Seed))
		if list[len(list)-1] == stop {
			return context.Canceled
		}
		return nil
	})
	return list, err
}

// A list is one value: what is varied has several of them.
func TestSweepWithAList(t *testing.T) {
	list := `assigners=["nearest", "hash"]`
	s, err := newSweep([]string{"ci"}, &testbedFlags{Options: testbed.Options{Dir: t.TempDir()}, settings: []string{list, "length=8s,9s"}}, "1..1", "")
	if err != nil || s.key != "length" || !slices.Equal(s.fixed, []string{list}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// Finished runs count only for the scenario and the settings that they were made with.
func TestSweepRefusesOtherRuns(t *testing.T) {
	dir := t.TempDir()
	const refused = -1
	for _, c := range []struct {
		scenario, fixed string
		made            int
	}{
		{"ci", "geo.wrong=0.1", 2},
		{"ci", "geo.wrong=0.1", 0},
		{"ci", "geo.wrong=0.2", refused},
		{"ci", "separate=true", refused},
		{"demo", "geo.wrong=0.1", refused},
	} {
		s := &sweep{dir: dir, scenario: c.scenario, key: "length", values: []string{"8s", "9s"}, fixed: []string{c.fixed}, first: 1, last: 1}
		list, err := made(t, s, "")
		if got := len(list); err != nil && c.made != refused || err == nil && got != c.made {
			t.Errorf("%s with %s: %d runs, not %d; %v", c.scenario, c.fixed, got, c.made, err)
		}
	}
}

// A run that was stopped leaves results. A sweep that goes on makes it again, and no other one. One with a run for each assigner knows its
// finished runs, too.
func TestSweepGoesOn(t *testing.T) {
	for _, fixed := range [][]string{nil, {"separate=true"}} {
		s := &sweep{dir: t.TempDir(), scenario: "ci", key: "length", values: []string{"8s", "9s"}, fixed: fixed, first: 1, last: 2}
		for _, step := range []struct {
			stop string
			want error
			made []string
		}{
			{"length=8s 2", context.Canceled, []string{"length=8s 1", "length=8s 2"}},
			{"", nil, []string{"length=8s 2", "length=9s 1", "length=9s 2"}},
			{"", nil, nil},
		} {
			if list, err := made(t, s, step.stop); !errors.Is(err, step.want) || !slices.Equal(list, step.made) {
				t.Fatalf("%v; made %q, not %q", err, list, step.made)
			}
			err := filepath.WalkDir(s.dir, func(path string, d os.DirEntry, err error) error {
				if err == nil && d.Name() == rundir.WorldFile && strings.HasPrefix(path, filepath.Join(s.dir, "unfinished")) {
					t.Errorf("compare would take %s for finished", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		if found, err := filepath.Glob(filepath.Join(s.dir, "*", "*")); err != nil || len(found) != 4 {
			t.Errorf("finished: %s, %v", found, err)
		}
	}
}
