package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"proxima/node/runlog"
	"proxima/scripts/lab"
)

// fetchLog sums up the node's fetch log over all its lives.
type fetchLog struct {
	lines, torn int
	boots       map[uint64]uint64 // last seq by boot
	gaps        []string
	answered    map[string]int // lines with a status, by path
}

// readLog reads the fetch log in a directory. A node that was killed early may have none; then the result is empty.
func readLog(dir string) (fetchLog, error) {
	l := fetchLog{boots: map[uint64]uint64{}, answered: map[string]int{}}
	var line runlog.Fetch
	torn, err := lab.Lines(dir, runlog.LogFetch, &line, func() {
		l.lines++
		if want := l.boots[line.Boot] + 1; line.Seq != want {
			l.gaps = append(l.gaps, fmt.Sprintf("boot %d: %d where %d was due", line.Boot, line.Seq, want))
		}
		l.boots[line.Boot] = line.Seq
		if u, err := url.Parse(line.URL); err == nil && line.Status > 0 {
			l.answered[u.Path]++
		}
	})
	l.torn = torn
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return l, err
}

// without lists answers in the log for which there was no request.
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
