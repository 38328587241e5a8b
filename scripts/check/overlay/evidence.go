package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"proxima/frontier"
	"proxima/node/journal"
)

// request is a line of nginx's log.
type request struct {
	node, life        int
	server, host, uri string
	status            int
	start, end        time.Time
}

func (r request) page() string { return r.host + r.uri }

// books is a line of a node's queue log.
type books struct {
	node int
	last bool // the last line of the node
	journal.Queue
}

// holding is what a node's disk says of a host after the end.
type holding struct {
	role           frontier.Role
	accepted, done uint64
}

// evidence is all that is judged.
type evidence struct {
	pages    []string // by the list written with the site
	requests []request
	faults   []fault
	books    []books
	disks    map[string]map[int]holding // by host and node
	unread   []string                   // disks that could not be read
}

// gather reads everything. The nodes and the site have ended, or nearly so.
func gather(s settings, w *site, c *crew) (evidence, error) {
	e := evidence{faults: c.faults, disks: map[string]map[int]holding{}}
	var err error
	if e.pages, err = readList(filepath.Join(w.dir, "pages.txt")); err != nil {
		return e, err
	}
	if e.requests, err = readRequests(filepath.Join(w.dir, "access.log")); err != nil {
		return e, err
	}
	for _, p := range c.nodes {
		lost, err := filepath.Glob(filepath.Join(p.dir, "lost*"))
		if err != nil {
			return e, err
		}
		for _, dir := range append(lost, filepath.Join(p.dir, "data")) {
			if err := e.readBooks(p.index, filepath.Join(dir, "logs")); err != nil {
				return e, fmt.Errorf("read logs of node %d: %w", p.index, err)
			}
		}
		if err := e.readDisk(p.index, filepath.Join(p.dir, "data", "frontier"), &w.layout); err != nil {
			e.unread = append(e.unread, fmt.Sprintf("node %d: %v", p.index, err))
		}
	}
	return e, nil
}

func readList(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read list of pages: %w", err)
	}
	defer f.Close()
	var list []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		list = append(list, lines.Text())
	}
	return list, lines.Err()
}

// readRequests reads nginx's log, sorted by the begin of the requests.
func readRequests(path string) ([]request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read access log: %w", err)
	}
	defer f.Close()
	var list []request
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r, err := parseRequest(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("read access log: %w in %q", err, lines.Text())
		}
		if r.host != "" { // a connection without a request
			list = append(list, r)
		}
	}
	// Times are in ms: of two that begin in the same one, that which has ended came first.
	slices.SortStableFunc(list, func(a, b request) int { return cmp.Or(a.start.Compare(b.start), a.end.Compare(b.end)) })
	return list, lines.Err()
}

func parseRequest(b []byte) (request, error) {
	var line struct {
		Time, Took               float64
		Server, Host, URI, Agent string
		Status                   int
	}
	if err := json.Unmarshal(b, &line); err != nil {
		return request{}, err
	}
	r := request{node: -1, life: -1, server: line.Server, host: line.Host, uri: line.URI, status: line.Status}
	// Who is unknown stays -1: then the request is strange.
	_, _ = fmt.Sscanf(line.Agent, "Proxima/%d.%d", &r.node, &r.life)
	r.end = time.UnixMilli(int64(math.Round(line.Time * 1000)))
	r.start = r.end.Add(-time.Duration(math.Round(line.Took*1000)) * time.Millisecond)
	return r, nil
}

// readBooks reads a node's queue log. The logs of one node come one after the other, that of its last life last.
func (e *evidence) readBooks(node int, dir string) error {
	files, err := journal.Files(dir, journal.LogQueue)
	if err != nil {
		return err
	}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		r := journal.NewReader(f)
		for err == nil {
			var line journal.Queue
			if err = r.Next(&line); err == nil {
				if n := len(e.books); n > 0 && e.books[n-1].node == node {
					e.books[n-1].last = false
				}
				e.books = append(e.books, books{node, true, line})
			}
		}
		if e := f.Close(); !errors.Is(err, io.EOF) || e != nil {
			return errors.Join(err, e)
		}
	}
	return nil
}

// readDisk opens what a node has left and looks up all hosts.
func (e *evidence) readDisk(node int, dir string, l *layout) (err error) {
	f, err := frontier.Open(dir, frontier.Default(), frontier.DefaultPoliteness(), frontier.Deps{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()
	for h := range l.hosts {
		host := l.authority(h)
		name := "http://" + host // as the frontier calls it
		role, known, err := f.RoleOf(ctx, name)
		if err != nil {
			return err
		}
		if !known {
			continue
		}
		d, err := f.DigestOf(ctx, name)
		if err != nil {
			return err
		}
		if e.disks[host] == nil {
			e.disks[host] = map[int]holding{}
		}
		e.disks[host][node] = holding{role, d.Accepted, d.Done}
	}
	return nil
}
