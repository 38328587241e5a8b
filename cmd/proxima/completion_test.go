package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

func TestCompletion(t *testing.T) {
	for shell, want := range map[string][]string{
		"bash": {"-max-pages", "*:ctl) words='pause resume seed drop"},
		"zsh":  {"-max-pages'[end after exactly", "#compdef proxima", "ctl':'"},
		"fish": {"-o max-pages -r -d 'end after exactly"},
		"man":  {`\fB\-max\-pages\fR \fInumber\fR`, `Usage: proxima ctl`, ".SH FILES", "though they are not public (fetch.allow_prefixes)\n"},
	} {
		var out, errs bytes.Buffer
		if got := code(run(t.Context(), []string{"completion", shell}, &out, &errs), &errs); got != exitOK {
			t.Fatalf("%s: code %d: %s", shell, got, &errs)
		}
		for _, c := range commands() {
			want = append(want, c.name)
			if shell != "man" {
				want = append(want, strings.Join(c.verbs, " "))
			}
		}
		holds(t, out.String(), want...)
		if path, err := exec.LookPath(shell); err == nil && shell != "man" {
			check := exec.Command(path, "-n")
			check.Stdin = &out
			if text, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s -n: %v: %s", shell, err, text)
			}
		}
	}
}
