//go:build !nolab

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"proxima/node/runlog"
)

// TestCompare reads the logs of one node in every form that the command has.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	cfg := runlog.Default()
	cfg.Logs = filepath.Join(dir, "n1", "logs")
	j, err := runlog.Open(cfg, runlog.Meta{Run: "r", Node: "1", Boot: 1}, runlog.Deps{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"http://a.test/1", "http://a.test/2"} {
		j.Fetch(&runlog.Fetch{URL: url, Host: "a.test", Server: "192.0.2.1", Kind: runlog.KindPage, Status: 200, TotalMs: 40, Bytes: 500,
			Origin: runlog.OriginAssigned, Label: "nearest"})
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "report.html")
	told(t, exitOK,
		[]string{"compare -html " + page + " " + dir, "Only nearest was run", "200 OK"},
		[]string{"compare " + dir + " -json", `"name": "nearest"`, `"urls": 2`}) // flags may follow
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "nearest") {
		t.Errorf("report: %v, %d bytes", err, len(b))
	}
	// What was read is told, even if the page cannot be written.
	got, out, errs := call(t, "compare", "-html", filepath.Join(dir, "none", "report.html"), dir)
	if got != exitFailed || !strings.Contains(errs, "write page") || !strings.Contains(out, "Only nearest was run") {
		t.Errorf("exit %d\n%s%s", got, out, errs)
	}
	told(t, exitUsage,
		[]string{"compare", "needs a folder with logs"},
		[]string{"compare " + dir + " -fast", "there is no flag -fast"},
		[]string{"compare -seed -1", `-seed: "-1" is not a whole number in plain digits (proxima compare -h`},
		[]string{"compare -by page " + dir, `-by "page" is none of assigner, candidate,`},
		[]string{"compare -against foo " + dir, `no row or assigner is called "foo": there are nearest`},
		[]string{"compare -html - " + dir, "-html: - names no file"},
		[]string{"figures -o - " + dir, "-o: - names no file"})
	if _, err := os.Stat("-"); err == nil {
		t.Error("there is a file called -")
	}
	told(t, exitFailed,
		[]string{"compare " + t.TempDir(), "there are no logs of nodes"},
		[]string{"figures -o " + page + " " + dir, "no run is one of a scenario with figures"})
}

// TestFailedPageLeavesTheOlder: a page that cannot be written to its end does not take the place of one that is there.
func TestFailedPageLeavesTheOlder(t *testing.T) {
	dir := t.TempDir()
	older, link := filepath.Join(dir, "older.html"), filepath.Join(dir, "link.html")
	if err := os.WriteFile(older, []byte("older"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(older, link); err != nil {
		t.Fatal(err)
	}
	half := func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, syscall.ENOSPC)
	}
	whole := func(w io.Writer) error {
		_, err := io.WriteString(w, "whole")
		return err
	}
	for _, c := range []struct {
		path, want string
		write      func(io.Writer) error
		fails      bool
	}{
		{older, "older", half, true},
		{filepath.Join(dir, "new.html"), "older", half, true},
		{link, "whole", whole, false},
		{os.DevNull, "whole", whole, false},
	} {
		if err := writePage(c.path, c.write); (err != nil) != c.fails {
			t.Errorf("%s: %v", c.path, err)
		}
		if text, err := os.ReadFile(older); err != nil || string(text) != c.want {
			t.Errorf("%s: %v, %q is left", c.path, err, text)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%v, files: %v", err, list)
	}
}
