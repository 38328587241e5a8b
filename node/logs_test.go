package node_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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
	must(t, err)
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
	events  events
	queue   runlog.Queue // the last line
	dir     string
}

func readLogs(t *testing.T, dir string) nodeLogs {
	t.Helper()
	logs := nodeLogs{dir: dir, fetches: readLog[runlog.Fetch](t, dir, runlog.LogFetch), events: readLog[runlog.Event](t, dir, runlog.LogNode)}
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
func (l nodeLogs) about(event, host string) []string {
	return l.events.of(event, runlog.KeyHost, host).reasons()
}

// events are lines of the log of a node.
type events []runlog.Event

// of returns those of a name that have some attributes: a key, its value, a key, its value.
func (all events) of(name string, attrs ...string) (found events) {
	for _, e := range all {
		fits := e.Event == name
		for pair := range slices.Chunk(attrs, 2) {
			fits = fits && e.Attrs[pair[0]] == pair[1]
		}
		if fits {
			found = append(found, e)
		}
	}
	return found
}

func (all events) reasons() (reasons []string) {
	for _, e := range all {
		reasons = append(reasons, fmt.Sprint(e.Attrs[runlog.KeyReason]))
	}
	return reasons
}

// actsOf returns what somebody did to a node.
func (all events) actsOf(by string) []string {
	return all.of(runlog.EventControl, runlog.KeyBy, by).reasons()
}
