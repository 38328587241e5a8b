//go:build linux

package fleet

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeSSH puts a program ssh into the PATH that runs everything on this machine. Each call writes begin and end to the log.
func fakeSSH(t *testing.T) (s SSH, log string) {
	t.Helper()
	dir := t.TempDir()
	log = filepath.Join(dir, "log")
	stand := fmt.Sprintf("#!/bin/sh\necho begin >>%[1]s\nfor last; do :; done\nSSH_CONNECTION='1 1 127.0.0.1 22' sh -c \"$last\"\ncode=$?\n"+
		"echo end >>%[1]s\nexit $code\n", log)
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(stand), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return SSH{Dir: filepath.Join(dir, "there"), Timeout: 9 * time.Second, Jobs: 8}, log
}

// It works on several hosts at once, but never on more than allowed.
func TestTwoHundredHosts(t *testing.T) {
	s, log := fakeSSH(t)
	err := s.Each(200, func(i int) error {
		info, err := s.Probe(t.Context(), Host{Name: "h"})
		if err == nil && info.Dir != s.Dir {
			err = fmt.Errorf("it is in %s", info.Dir)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	at, most := 0, 0
	for line := range strings.Lines(string(text)) {
		if at--; line == "begin\n" {
			at += 2
		}
		most = max(most, at)
	}
	if most > 8 || strings.Count(string(text), "begin") != 200 {
		t.Errorf("%d at once; 8 are allowed; %d calls", most, strings.Count(string(text), "begin"))
	}
}

// Only files that a host does not have are copied. They have the mode that was asked for.
func TestCopy(t *testing.T) {
	s, _ := fakeSSH(t)
	large := bytes.Repeat([]byte("0123456789\n"), 1<<16)
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"a": "one", "b": string(large)}, "a b"},
		{map[string]string{"a": "one", "b": string(large)}, ""},
		{map[string]string{"a": "two", "b": string(large)}, "a"},
		{map[string]string{"a": "two", "c": ""}, "c"},
	} {
		var files []File
		for name, text := range c.files {
			files = append(files, NewFile(name, 0o700, []byte(text)))
		}
		changed, said, err := s.Copy(t.Context(), Host{Name: "h"}, files, "within", "take; echo done")
		if slices.Sort(changed); err != nil || strings.Join(changed, " ") != c.want || said != "done" {
			t.Errorf("copied %v, not %s: %q, %v", changed, c.want, said, err)
		}
		for name, text := range c.files {
			there, err := os.ReadFile(filepath.Join(s.Dir, name))
			info, statErr := os.Stat(filepath.Join(s.Dir, name))
			if err != nil || statErr != nil || string(there) != text || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: %d bytes, %v, %v", name, len(there), err, statErr)
			}
		}
	}
	left, err := os.ReadDir(s.Dir)
	if err != nil || len(left) > 4 { // a, b, c and the lock
		t.Errorf("left: %v, %v", left, err)
	}
}

// Files come once, unless they have changed or are lost here.
func TestCollect(t *testing.T) {
	s, _ := fakeSSH(t)
	write := func(name, text string) {
		path := filepath.Join(s.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(t.TempDir(), "h")
	collect := func() (Collected, error) {
		return s.Collect(t.Context(), Host{Name: "h"}, folder, "node.out", "packages/*")
	}
	if _, err := collect(); err == nil || !strings.Contains(err.Error(), "nothing is deployed") {
		t.Errorf("nothing there: %v", err)
	}
	write("data/node.json", `{"v":1,"node":"abc","boot":1}`+"\n")
	if _, err := collect(); err == nil || !strings.Contains(err.Error(), "never started") {
		t.Errorf("no logs: %v", err)
	}
	write("logs/fetch-000001.jsonl", strings.Repeat("old\n", 5000))
	write("logs/fetch.jsonl", "new\n")
	write("node.out", "hello\n")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(s.Dir, "node.out"), old, old); err != nil {
		t.Fatal(err)
	}
	write("packages/a-b.warc.gz", "packed")
	for _, step := range []struct {
		before func()
		want   int
	}{
		{func() {}, 4}, {func() {}, 0},
		{func() { write("logs/fetch.jsonl", "new\nnewer\n") }, 1},
		{func() { write("node.out", "HELLO\n") }, 1}, // of the same size
		{func() { _ = os.Remove(filepath.Join(folder, "packages/a-b.warc.gz")) }, 1},
	} {
		step.before()
		if c, err := collect(); err != nil || c.Files != 4 || c.New != step.want {
			t.Errorf("%v, %v, want %d new", c, err, step.want)
		}
	}
	packed, err := os.Open(filepath.Join(folder, "logs", "fetch.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != "new\nnewer\n" {
		t.Errorf("the log is %q, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "packages", "a-b.warc.gz")); err != nil || string(text) != "packed" {
		t.Errorf("the package is %q, %v", text, err)
	}
	write("data/node.json", `{"v":1,"node":"def","boot":1}`+"\n")
	if _, err := collect(); err == nil || !strings.Contains(err.Error(), "another node, abc") || strings.Contains(err.Error(), "broke off") {
		t.Errorf("another node: %v", err)
	}
}

// What a host sends is written below the folder or not at all.
func TestCollectStaysInside(t *testing.T) {
	for name, good := range map[string]bool{"logs/a.jsonl": true, "../a": false, "/tmp/a": false, "a/../../b": false, "": false} {
		answer := fmt.Sprintf("echo; echo '2 1 %s'; echo 0 0 .; echo 2; printf hi", name)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+answer+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		folder := filepath.Join(dir, "in", "folder")
		if _, err := (SSH{}).Collect(t.Context(), Host{Name: "h"}, folder); (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
		if outside, err := os.ReadDir(filepath.Join(dir, "in")); err != nil || len(outside) != 1 {
			t.Errorf("%s: %v, %v", name, outside, err)
		}
	}
}

// The word for a failure tells whether the host answered.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ script, word, text string }{
		{"echo 'a@b: Permission denied (publickey).' >&2; exit 255", Refused, "a@b: Permission denied (publickey)."},
		{"echo 'Host key verification failed.' >&2; exit 255", Unknown, "Host key verification failed."},
		{"echo 'connect: Connection refused' >&2; exit 255", Silent, "connect: Connection refused"},
		{"printf 'first\\n\\033[2Jlast\\n\\n' >&2; exit 3", Failed, " [2Jlast"},
		{"exit 3", Failed, "exit status 3"},
		{"exec sleep 60", Failed, "took too long"},
		{"sleep is over before it begins", Failed, "took too long"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		limit := patience
		if strings.Contains(c.script, "sleep") {
			limit = time.Duration(strings.Count(c.script, "exec")) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err := SSH{}.Answer(ctx, Host{Name: "h"}, "probe")
		cancel()
		if word, text := Reason(err); word != c.word || text != c.text {
			t.Errorf("%s: %s %q, want %s %q", c.script, word, text, c.word, c.text)
		}
	}
	// Ctrl-C is no fault of the host, and the signal that ends ssh no reason.
	s, log := fakeSSH(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.talk(ctx, Host{Name: "h"}, func(io.WriteCloser, *bufio.Reader) error {
		for begun := false; !begun; {
			_, err := os.Stat(log)
			begun = err == nil
		}
		cancel()
		return nil
	}, "within", "read line")
	if word, text := Reason(err); word != Failed || text != "stopped" {
		t.Errorf("%s %q", word, text)
	}
}
