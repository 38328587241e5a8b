package node_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"proxima/node/runlog"
)

// readLog returns the lines of a log in a directory.
func readLog[E any, P interface {
	*E
	runlog.Entry
}](t *testing.T, dir, log string) (lines []E) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, log+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for r := runlog.NewReader(f); ; {
		var line E
		if err := r.Next(P(&line)); errors.Is(err, io.EOF) {
			return lines
		} else if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
}

// nodeLogs has what a node logged about a crawl.
type nodeLogs struct {
	fetches []runlog.Fetch
	events  []runlog.Event
	queue   runlog.Queue // the last line
}

func readLogs(t *testing.T, dir string) nodeLogs {
	t.Helper()
	logs := nodeLogs{fetches: readLog[runlog.Fetch](t, dir, runlog.LogFetch), events: readLog[runlog.Event](t, dir, runlog.LogNode)}
	if queue := readLog[runlog.Queue](t, dir, runlog.LogQueue); len(queue) > 0 {
		logs.queue = queue[len(queue)-1]
	}
	return logs
}

// of returns the lines about downloads of a URL.
func (l nodeLogs) of(url string) (lines []runlog.Fetch) {
	for _, f := range l.fetches {
		if f.URL == url {
			lines = append(lines, f)
		}
	}
	return lines
}

// about returns the reasons of the events of a name about a host.
func (l nodeLogs) about(event, host string) (reasons []string) {
	for _, e := range l.events {
		if e.Event == event && e.Attrs[runlog.KeyHost] == host {
			reasons = append(reasons, fmt.Sprint(e.Attrs[runlog.KeyReason]))
		}
	}
	return reasons
}
