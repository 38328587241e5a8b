package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"proxima/scripts/lab"
)

// fetchLog is what the node's fetch log says, over all its lives.
type fetchLog struct {
	lines, torn int
	boots       map[uint64]uint64 // boot to its last seq
	gaps        []string
	answered    map[string]int // paths with a line that has a status
}

// readLog reads the fetch log in a directory, rotated files first. Without any it is empty: the node may have been
// killed before it made one.
func readLog(dir string) (fetchLog, error) {
	l := fetchLog{boots: map[uint64]uint64{}, answered: map[string]int{}}
	rotated, err := filepath.Glob(filepath.Join(dir, "fetch-*.jsonl"))
	if err != nil {
		return l, fmt.Errorf("list logs: %w", err)
	}
	for _, path := range append(rotated, filepath.Join(dir, "fetch.jsonl")) {
		if err := l.read(path); err != nil && !os.IsNotExist(err) {
			return l, fmt.Errorf("read log: %w", err)
		}
	}
	return l, nil
}

func (l *fetchLog) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 2<<20)
	for lines.Scan() {
		var line struct {
			Boot, Seq uint64
			URL       string
			Status    int
		}
		if len(lines.Bytes()) == 0 {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			l.torn++
			continue
		}
		l.lines++
		if want := l.boots[line.Boot] + 1; line.Seq != want {
			l.gaps = append(l.gaps, fmt.Sprintf("boot %d: %d where %d was due", line.Boot, line.Seq, want))
		}
		l.boots[line.Boot] = line.Seq
		if u, err := url.Parse(line.URL); err == nil && line.Status > 0 {
			l.answered[u.Path]++
		}
	}
	return lines.Err()
}

// without lists answers in the log that the site never gave.
func (l *fetchLog) without(requests []lab.Request) []string {
	given := map[string]int{}
	for _, r := range requests {
		given[r.Path]++
	}
	var list []string
	for path, n := range l.answered {
		if n > given[path] {
			list = append(list, fmt.Sprintf("%s: %d lines, %d requests", path, n, given[path]))
		}
	}
	return list
}
