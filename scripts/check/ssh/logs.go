//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"proxima/node/journal"
)

// collect collects, again, and again after the answer was cut short and files were lost here.
func (c *course) collect(ctx context.Context) error {
	if _, err := c.all(ctx, "new or longer", "collect.sh", "-out", c.logs); err != nil {
		return err
	}
	if err := c.readLogs(1, nil); err != nil {
		return err
	}
	if _, err := c.all(ctx, ", 0 of them new or longer, 0 KiB fetched", "collect.sh", "-out", c.logs); err != nil {
		return err
	}
	// One file is lost here: it alone comes again. From another host all come, and the answer breaks off: between two files
	// first, before any has come, then within one.
	m, cut := c.nodes[0], c.nodes[1]
	if err := os.Remove(c.folder(m, "logs", "load.jsonl.gz")); err != nil {
		return fmt.Errorf("lose a file: %w", err)
	}
	bytes, err := sizeOf(c.folder(cut, "logs"))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(c.folder(cut)); err != nil {
		return fmt.Errorf("lose a folder: %w", err)
	}
	r, err := c.cutShort(ctx, cut, len("node \n")+32+len("file "))
	if err != nil {
		return err
	}
	_, text := r.line(m)
	c.expect(strings.Contains(text, ", 1 of them new"), "collect after a loss: %s", text)
	if _, err := c.cutShort(ctx, cut, bytes/2); err != nil {
		return err
	}
	kept, err := filepath.Glob(c.folder(cut, "logs", "*.gz"))
	if _, err := os.Stat(c.folder(cut, "node.out.gz")); err == nil {
		kept = append(kept, "node.out.gz")
	}
	c.expect(err == nil && len(kept) > 0, "collect that was cut short kept nothing: %v", err)
	if r, err = c.all(ctx, "new or longer", "collect.sh", "-out", c.logs); err != nil {
		return err
	}
	var total, fetched int
	_, text = r.line(cut)
	_, err = fmt.Sscanf(text, "%d files, %d of them", &total, &fetched)
	c.expect(err == nil && fetched == total-len(kept), "collect that goes on with %d files here: %s", len(kept), text)
	if err := c.readLogs(1, nil); err != nil {
		return err
	}
	// Another node's logs do not belong there.
	if err := os.WriteFile(c.folder(m, ".node"), []byte("00000000000000000000000000000000\n"), 0o644); err != nil {
		return fmt.Errorf("change a node: %w", err)
	}
	r, err = c.run(ctx, "collect.sh", "-hosts", c.list, "-out", c.logs)
	if err != nil {
		return err
	}
	word, text := r.line(m)
	c.expect(word == "failed" && strings.Contains(text, "another node"), "logs of another node: %s %s", word, text)
	return os.Remove(c.folder(m, ".node"))
}

// sizeOf is how many bytes the files of a folder have.
func sizeOf(folder string) (sum int, err error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return 0, fmt.Errorf("list what was collected: %w", err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return 0, fmt.Errorf("size of what was collected: %w", err)
		}
		sum += int(info.Size())
	}
	return sum, nil
}

// cutShort collects while the answer of one machine breaks off after so many bytes.
func (c *course) cutShort(ctx context.Context, m *machine, bytes int) (result, error) {
	if err := os.WriteFile(filepath.Join(m.home, "cut"), fmt.Appendf(nil, "%d\n", bytes), 0o644); err != nil {
		return result{}, fmt.Errorf("cut the answer: %w", err)
	}
	r, err := c.run(ctx, "collect.sh", "-hosts", c.list, "-out", c.logs)
	if err != nil {
		return result{}, err
	}
	word, text := r.line(m)
	c.expect(word == "failed" && strings.Contains(text, "broke off"), "collect that was cut short after %d bytes: %s %s", bytes, word, text)
	return r, nil
}

// folder is where the logs of a machine are collected.
func (c *course) folder(m *machine, parts ...string) string {
	return filepath.Join(append([]string{c.logs, m.name}, parts...)...)
}

// readLogs reads all that was collected: lines numbered without gaps in each life, and a line for each request that the site saw.
// Nodes that were killed need not say that they stopped.
func (c *course) readLogs(lives int, killed []int) error {
	pagesLogged, rotated := map[string]int{}, 0
	for i, m := range c.nodes {
		events := map[string]uint64{}
		for _, name := range []string{journal.LogFetch, journal.LogQueue, journal.LogLoad, journal.LogNode, journal.LogMember} {
			files, err := filepath.Glob(c.folder(m, "logs", name+"-*.jsonl.gz"))
			if err != nil {
				return fmt.Errorf("list logs: %w", err)
			}
			rotated += len(files)
			seq, boot := uint64(0), uint64(1)
			for _, path := range append(files, c.folder(m, "logs", name+".jsonl.gz")) {
				err := readLog(path, func(b []byte) error {
					var line journal.Line
					var e journal.Entry
					switch name {
					case journal.LogFetch:
						e = &journal.Fetch{}
					case journal.LogNode:
						e = &journal.Event{}
					default:
						e = &journal.Queue{} // its first keys are those of every line
					}
					if err := journal.NewReader(bytes.NewReader(b)).Next(e); err != nil {
						return err
					}
					switch e := e.(type) {
					case *journal.Fetch:
						line = e.Line
						if e.Kind == journal.KindPage {
							pagesLogged[e.URL]++
						}
					case *journal.Event:
						line = e.Line
						events[e.Event] = line.Boot
					case *journal.Queue:
						line = e.Line
					}
					if line.Boot != boot {
						boot, seq = line.Boot, 0
					}
					seq++
					c.expect(line.Seq == seq && line.Run == "check", "%s: %s: line %d of life %d has number %d, run %q", m.name, path, seq, boot, line.Seq, line.Run)
					return nil
				})
				if err != nil {
					return err
				}
			}
			// A node need not get any page: another may have crawled all of them before. What the site was asked is compared below.
			c.expect(seq > 0 || name == journal.LogFetch, "%s: log %s is empty", m.name, name)
			c.expect(boot == uint64(lives) || name != journal.LogNode, "%s: log %s has %d lives", m.name, name, boot)
		}
		c.expect(events[journal.EventStart] == uint64(lives), "%s: the last start was that of life %d", m.name, events[journal.EventStart])
		wasKilled := false
		for _, k := range killed {
			wasKilled = wasKilled || k == i
		}
		c.expect(wasKilled || events[journal.EventStop] == uint64(lives), "%s: the last stop was that of life %d", m.name, events[journal.EventStop])
		out := c.folder(m, "node.out.gz")
		c.expect(readLog(out, func([]byte) error { return nil }) == nil, "%s cannot be read", out)
	}
	asked := c.web.asked()
	for url, n := range asked {
		c.expect(pagesLogged["http://"+url] == n, "%s: %d requests, %d in the logs", url, n, pagesLogged["http://"+url])
	}
	c.expect(len(pagesLogged) == len(asked), "%d pages are in the logs, %d were asked for", len(pagesLogged), len(asked))
	for _, m := range c.nodes {
		_, err := os.Stat(m.path(".collect"))
		c.expect(errors.Is(err, os.ErrNotExist), "collect left its folder at %s: %v", m.name, err)
	}
	c.expect(rotated > 0, "no rotated file was collected")
	return nil
}

// readLog calls f for each line of a compressed file.
func readLog(path string, f func([]byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer file.Close()
	in, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for b := range bytes.Lines(text) {
		if err := f(b); err != nil {
			return fmt.Errorf("read %s: %w: %.200s", path, err, b)
		}
	}
	return nil
}

// choose2 selects again, with the nodes stopped.
func (c *course) choose2(ctx context.Context) error {
	r, err := c.run(ctx, "select.sh", "-hosts", filepath.Join(c.dir, "all.hosts"), "-need", "3", "-sets", "2", "-take", "7", "-out",
		filepath.Join(c.dir, "sets"), "-free", "1")
	if err != nil {
		return err
	}
	c.expect(r.code == 0, "select with one to spare: code %d: %s", r.code, r.out)
	sets, err := filepath.Glob(filepath.Join(c.dir, "sets", "set-*.hosts"))
	c.expect(err == nil && len(sets) == 2, "select made the sets %v: %v", sets, err)
	return nil
}

// many asks many hosts at once: the same machines under many names; and stops a script in the middle.
func (c *course) many(ctx context.Context) error {
	const count = 30
	var names, config strings.Builder
	for i := range count {
		m := c.nodes[i%len(c.nodes)]
		fmt.Fprintf(&names, "many%02d\n", i)
		fmt.Fprintf(&config, "Host many%02d\n  HostName %s\n  Port %d\n", i, m.addr, m.port)
	}
	list := filepath.Join(c.dir, "many.hosts")
	if err := os.WriteFile(list, []byte(names.String()), 0o644); err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(c.dir, "ssh_config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("write names: %w", err)
	}
	_, err = f.WriteString(config.String())
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write names: %w", err)
	}
	r, err := c.run(ctx, "status.sh", "-hosts", list, "-jobs", "8")
	if err != nil {
		return err
	}
	c.expect(r.code == 4 && strings.Count(r.out, " stopped ") == count, "status of many hosts: code %d: %s", r.code, r.out)

	// Two names of one machine would be two nodes with one address.
	two := filepath.Join(c.dir, "two.hosts")
	if err := os.WriteFile(two, fmt.Appendf(nil, "many00\nmany%02d\n", len(c.nodes)), 0o644); err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	r, err = c.run(ctx, "deploy.sh", "-hosts", two, "-seeds", c.master, "-config", c.base, "-state", c.state(), "-proxima", c.state("bin", "proxima-given"))
	if err != nil {
		return err
	}
	c.expect(r.code == 1 && strings.Contains(r.out, "has the address of many00"), "one machine with two names: code %d: %s", r.code, r.out)

	// Ctrl-C in the middle: at a host that takes long.
	slow := filepath.Join(c.nodes[0].home, "stand")
	if err := os.WriteFile(slow+".slow", fmt.Appendf(nil, "#!/bin/sh\ncd %s && exec sleep 600\n", c.nodes[0].home), 0o755); err != nil {
		return fmt.Errorf("make a slow host: %w", err)
	}
	if err := os.Rename(slow+".slow", slow); err != nil {
		return fmt.Errorf("make a slow host: %w", err)
	}
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for short.Err() == nil {
			for _, p := range processesOf(c.dir) {
				if filepath.Base(p.exe) == "sleep" || len(p.args) > 1 && p.args[0] == "ssh" {
					cancel()
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	_, err = c.run(short, "status.sh", "-hosts", c.list)
	c.expect(errors.Is(err, context.Canceled) && strings.Contains(err.Error(), "exit status 130"), "Ctrl-C: %v", err)
	left, err := os.ReadDir(filepath.Join(c.dir, "tmp"))
	c.expect(err == nil && len(left) == 0, "Ctrl-C left temporary files: %v %v", left, err)
	for _, p := range processesOf(c.dir) {
		c.expect(p.args[0] != "ssh", "Ctrl-C left process %d: %v", p.pid, p.args)
	}
	return nil
}

// secrets checks that the secret was never sent as a word of a command, nor printed.
func (c *course) secrets() {
	text, err := os.ReadFile(c.state("secret"))
	_, secret, ok := strings.Cut(strings.TrimSpace(string(text)), " ")
	c.expect(err == nil && ok, "the secret kept here cannot be read: %v", err)
	if !ok {
		return
	}
	c.expect(!strings.Contains(c.output.String(), secret), "a script printed the secret")
	for _, m := range c.nodes {
		for _, path := range []string{filepath.Join(m.home, "commands"), filepath.Join(m.home, "sshd.log"), m.path("node.out"), m.path("node.toml")} {
			text, err := os.ReadFile(path)
			c.expect(err == nil && len(text) > 0 || filepath.Base(path) == "node.out", "%s is empty: %v", path, err)
			c.expect(!strings.Contains(string(text), secret), "the secret stands in %s", path)
		}
	}
}
