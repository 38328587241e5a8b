package main

import (
	"bytes"
	"os/exec"
	"testing"
)

func TestCompletion(t *testing.T) {
	for shell, want := range map[string][]string{
		"bash": {"-max-pages", "*:ctl) words='pause resume seed drop"},
		"zsh":  {"-max-pages'[end after exactly", "#compdef proxima", "ctl':'"},
		"fish": {"-o max-pages -r -d 'end after exactly", "-a 'run sweep shell list'"},
		"man":  {`\fB\-max\-pages\fR \fInumber\fR`, `Usage: proxima ctl`, ".SH FILES"},
	} {
		var out, errs bytes.Buffer
		if got := code(run(t.Context(), []string{"completion", shell}, &out, &errs), &errs); got != exitOK {
			t.Fatalf("%s: code %d: %s", shell, got, &errs)
		}
		holds(t, out.String(), append(want, "testbed")...)
		if path, err := exec.LookPath(shell); err == nil && shell != "man" {
			check := exec.Command(path, "-n")
			check.Stdin = &out
			if text, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s -n: %v: %s", shell, err, text)
			}
		}
	}
}
