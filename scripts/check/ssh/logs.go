//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"proxima/cmd/proxima/world"
	"proxima/node/bell"
	"proxima/node/runlog"
	"proxima/scripts/lab"
)

// collect collects the logs, then again after files were lost here and after the answer was cut short.
func (c *course) collect() {
	c.all("new or longer", "collect", "-out", c.logs)
	c.readLogs(1, nil)
	c.all(", 0 of them new or longer, 0 KiB fetched", "collect", "-out", c.logs)

	// One file is lost here and comes again. From another host everything must come, and its answer breaks off twice: first in the list of
	// files, then within a file.
	m, cut := c.nodes[0], c.nodes[1]
	c.must(os.Remove(c.folder(m, "logs", "load.jsonl.gz")))
	size := 0
	files, err := os.ReadDir(c.folder(cut, "logs"))
	c.must(err)
	for _, f := range files {
		info, err := f.Info()
		c.must(err)
		size += int(info.Size())
	}
	c.must(os.RemoveAll(c.folder(cut)))
	_, text := c.cutShort(cut, 80).line(m)
	c.expect(strings.Contains(text, ", 1 of them new"), "collect after a loss: %s", text)
	c.cutShort(cut, size/2)
	kept, err := filepath.Glob(c.folder(cut, "logs", "*.gz"))
	c.must(err)
	if _, err := os.Stat(c.folder(cut, "node.out.gz")); err == nil {
		kept = append(kept, "node.out.gz")
	}
	c.expect(len(kept) > 0, "collect that was cut short kept nothing")
	_, text = c.all("new or longer", "collect", "-out", c.logs).line(cut)
	var total, fetched int
	_, err = fmt.Sscanf(text, "%d files, %d of them", &total, &fetched)
	c.expect(err == nil && fetched == total-len(kept), "collect that goes on with %d files here: %s", len(kept), text)
	c.readLogs(1, nil)

	// The logs of another node do not belong in the folder.
	c.write(c.folder(m, ".node"), "00000000000000000000000000000000\n")
	word, text := c.fleet("collect", "-hosts", c.list, "-out", c.logs).line(m)
	c.expect(word == "failed" && strings.Contains(text, "another node"), "logs of another node: %s %s", word, text)
	c.must(os.Remove(c.folder(m, ".node")))
}

// cutShort collects while the answer of one machine breaks off after so many bytes.
func (c *course) cutShort(m *machine, bytes int) result {
	c.write(filepath.Join(m.home, "cut"), fmt.Sprintln(bytes))
	r := c.fleet("collect", "-hosts", c.list, "-out", c.logs)
	word, text := r.line(m)
	c.expect(word == "failed" && strings.Contains(text, "broke off"), "collect that was cut short after %d bytes: %s %s", bytes, word, text)
	return r
}

// folder returns a path in the collected logs of a machine.
func (c *course) folder(m *machine, parts ...string) string {
	return filepath.Join(append([]string{c.logs, m.name}, parts...)...)
}

// readLogs reads everything that was collected. Lines are numbered without gaps in each life, and there is a line for each request that
// the site saw. Killed nodes need not have logged their stop.
func (c *course) readLogs(lives uint64, killed []*machine) {
	pagesLogged, rotated := map[string]int{}, 0
	for _, m := range c.nodes {
		last := map[string]uint64{} // life by event
		for _, name := range []string{runlog.LogFetch, runlog.LogQueue, runlog.LogLoad, runlog.LogNode, runlog.LogMember} {
			files, err := filepath.Glob(c.folder(m, "logs", name+"-*.jsonl.gz"))
			c.must(err)
			rotated += len(files)
			seq, boot, life := uint64(0), uint64(0), uint64(0)
			var line runlog.Event // has the keys of every log
			torn, err := lab.Lines(c.folder(m, "logs"), name, &line, func() {
				if line.Boot != boot {
					c.expect(line.Boot > boot, "%s: %s: life %d comes after life %d", m.name, name, line.Boot, boot)
					boot, seq, life = line.Boot, 0, life+1
				}
				seq++
				c.expect(line.Seq == seq && line.Run == "check", "%s: %s: line %d of life %d has number %d, run %q", m.name, name, seq, life,
					line.Seq, line.Run)
				switch url, _ := line.Attrs[runlog.KeyURL].(string); {
				case name == runlog.LogNode:
					last[line.Event] = life
				case name == runlog.LogFetch && line.Attrs[runlog.KeyKind] == runlog.KindPage:
					pagesLogged[url]++
				}
			})
			c.must(err)
			c.expect(torn == 0, "%s: %d lines of log %s cannot be read", m.name, torn, name)
			// A node may fetch no page: another may have crawled all of them before. The requests are compared below.
			c.expect(seq > 0 || name == runlog.LogFetch, "%s: log %s is empty", m.name, name)
			c.expect(life == lives || name != runlog.LogNode, "%s: log %s has %d lives", m.name, name, life)
		}
		c.expect(last[runlog.EventStart] == lives, "%s: the last start was that of life %d", m.name, last[runlog.EventStart])
		c.expect(slices.Contains(killed, m) || last[runlog.EventStop] == lives, "%s: the last stop was that of life %d", m.name, last[runlog.EventStop])
		c.unzip(c.folder(m, "node.out.gz"))
		_, err := os.Stat(m.path(".collect"))
		c.expect(errors.Is(err, os.ErrNotExist), "collect left its folder at %s: %v", m.name, err)
	}
	asked := c.web.asked()
	for url, n := range asked {
		c.expect(pagesLogged["http://"+url] == n, "%s: %d requests, %d in the logs", url, n, pagesLogged["http://"+url])
	}
	c.expect(len(pagesLogged) == len(asked), "%d pages are in the logs, %d were asked for", len(pagesLogged), len(asked))
	c.expect(rotated > 0, "no rotated file was collected")
}

func (c *course) unzip(path string) (text []byte) {
	c.must(world.Open(path, func(in io.Reader) (err error) {
		text, err = io.ReadAll(in)
		return err
	}))
	return text
}

// interrupt deploys to two names of one machine, which would be two nodes with one address, and interrupts a command.
func (c *course) interrupt() {
	var config strings.Builder
	for _, name := range []string{"once", "again"} {
		fmt.Fprintf(&config, "Host %s\n  HostName %s\n  Port %d\n", name, c.nodes[0].Addr, c.nodes[0].Port)
	}
	c.extend(c.servers.SSHConfig(), config.String())
	c.write(c.file("two.hosts"), "once\nagain\n")
	r := c.fleet("deploy", append([]string{"-hosts", c.file("two.hosts")}, c.deployment(sampled)...)...)
	c.expect(r.code == 1 && strings.Contains(r.out, "has the address of once"), "one machine with two names: code %d: %s", r.code, r.out)

	// Ctrl-C while a host takes long.
	command := filepath.Join(c.nodes[0].home, "command")
	c.must(os.WriteFile(command+".slow", fmt.Appendf(nil, "#!/bin/sh\ncd %s && exec sleep 600\n", c.nodes[0].home), 0o755))
	c.must(os.Rename(command+".slow", command))
	short, cancel := context.WithCancel(c.ctx)
	defer cancel()
	go bell.Every(short, 20*time.Millisecond, func() { //nolint:errcheck // it never fails
		if slices.ContainsFunc(lab.ProcessesOf(c.Dir), func(p lab.Other) bool { return filepath.Base(p.Exe) == "sleep" || slices.Index(p.Args, "ssh") == 0 }) {
			cancel()
		}
	})
	_, err := c.try(short, "status", "-hosts", c.list)
	c.expect(errors.Is(err, context.Canceled) && strings.Contains(err.Error(), "exit status 130"), "Ctrl-C: %v", err)
	for _, p := range lab.ProcessesOf(c.Dir) {
		c.expect(slices.Index(p.Args, "ssh") != 0, "Ctrl-C left process %d: %v", p.Pid, p.Args)
	}
}

// secrets checks that no command printed the secret, or sent it as a word of a command.
func (c *course) secrets() {
	_, secret, ok := strings.Cut(strings.TrimSpace(c.read(c.state("secret"))), " ")
	if !ok {
		c.must(errors.New("the secret kept here cannot be read"))
	}
	c.expect(!strings.Contains(c.output.String(), secret), "a command printed the secret")
	for _, m := range c.nodes {
		for _, path := range []string{filepath.Join(m.home, "commands"), c.servers.Log(m.Addr), m.path("node.toml")} {
			text := c.read(path)
			c.expect(text != "" && !strings.Contains(text, secret), "%s is empty or has the secret", path)
		}
		c.expect(!bytes.Contains(c.unzip(c.folder(m, "node.out.gz")), []byte(secret)), "%s printed the secret", m.name)
	}
}
