package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
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
	got, out, errs := call(t, "compare", "-html", page, dir)
	if got != exitOK || errs != "" || !strings.Contains(out, "Only nearest was run") || !strings.Contains(out, "200 OK") {
		t.Errorf("exit %d\n%s%s", got, out, errs)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "nearest") {
		t.Errorf("report: %v, %d bytes", err, len(b))
	}
	got, out, errs = call(t, "compare", dir, "-json") // flags may follow
	var form struct {
		Assigners []struct {
			Name string
			URLs int
		}
	}
	if err := json.Unmarshal([]byte(out), &form); got != exitOK || err != nil || len(form.Assigners) != 1 || form.Assigners[0].URLs != 2 {
		t.Errorf("exit %d, %v\n%s%s", got, err, out, errs)
	}
	// What was read is told, even if the page cannot be written.
	got, out, errs = call(t, "compare", "-html", filepath.Join(dir, "none", "report.html"), dir)
	if got != exitFailed || !strings.Contains(errs, "write report") || !strings.Contains(out, "Only nearest was run") {
		t.Errorf("exit %d\n%s%s", got, out, errs)
	}
	for args, want := range map[string]string{"compare": "needs a folder with logs", "compare -fast": "there is no flag -fast",
		"compare " + dir + " -fast": "there is no flag -fast", "compare -by page " + dir: `-by "page" is none of assigner, candidate,`} {
		if got, _, errs := call(t, strings.Fields(args)...); got != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d\n%s", args, got, errs)
		}
	}
	if got, _, errs := call(t, "compare", t.TempDir()); got != exitFailed || !strings.Contains(errs, "there are no logs of nodes") {
		t.Errorf("empty folder: exit %d\n%s", got, errs)
	}
}
