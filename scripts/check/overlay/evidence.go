package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"proxima/frontier"
	"proxima/node/runlog"
	"proxima/scripts/lab"
)

// books is a line of a node's queue log.
type books struct {
	node int
	runlog.Queue
}

// holding is what a node's disk has of a host at the end.
type holding struct {
	role           frontier.Role
	accepted, done uint64
}

type evidence struct {
	pages    []string
	requests []lab.Request
	faults   []fault
	books    []books
	disks    map[string]map[int]holding // by host and node
	unread   []string                   // disks that could not be read
}

// gather collects the evidence after all nodes have ended.
func gather(w *lab.Site, c *crew) (evidence, error) {
	e := evidence{pages: w.Pages(), requests: w.Requests(), faults: c.faults, disks: map[string]map[int]holding{}}
	for _, p := range c.Nodes {
		lost, err := filepath.Glob(filepath.Join(p.Dir, "lost*"))
		if err != nil {
			return e, err
		}
		if !e.gone(p.Index) {
			lost = append(lost, p.Data())
		}
		for _, dir := range lost {
			if err := e.readBooks(p.Index, filepath.Join(dir, "logs")); err != nil {
				return e, fmt.Errorf("read logs of node %d: %w", p.Index, err)
			}
		}
		if e.gone(p.Index) {
			continue
		}
		if err := e.readDisk(p.Index, filepath.Join(p.Data(), "frontier"), &w.Layout); err != nil {
			e.unread = append(e.unread, fmt.Sprintf("node %d: %v", p.Index, err))
		}
	}
	return e, nil
}

// readBooks reads a node's queue log. It is called for one node after the other, oldest directory first.
func (e *evidence) readBooks(node int, dir string) error {
	var line runlog.Queue
	_, err := lab.Lines(dir, runlog.LogQueue, &line, func() { e.books = append(e.books, books{node, line}) })
	return err
}

// readDisk opens a node's frontier and looks up all hosts.
func (e *evidence) readDisk(node int, dir string, l *lab.Layout) (err error) {
	f, err := frontier.Open(dir, frontier.Default(), frontier.DefaultPoliteness(), frontier.Deps{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	end := lab.Beside(ctx, f.Run)
	defer func() { err = errors.Join(err, end()) }()
	for h := range l.Hosts {
		host := l.Authority(h)
		name := "http://" + host // the frontier's name for it
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
