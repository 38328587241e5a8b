//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"proxima/node"
	"proxima/node/bell"
	"proxima/scripts/lab"
)

const sampled = 8 // seeds of a node

// state returns a file in the directory where fleet deploy keeps what it made.
func (c *course) state(parts ...string) string {
	return filepath.Join(append([]string{c.Dir, "state"}, parts...)...)
}

// deployment returns the flags of fleet deploy with a sample of so many seeds.
func (c *course) deployment(sample int, args ...string) []string {
	return append([]string{"-seeds", c.master, "-config", c.base, "-sample", strconv.Itoa(sample), "-run", "check", "-state", c.state()}, args...)
}

// deploy deploys, checks what arrived, and deploys again.
func (c *course) deploy() {
	c.all("new: proxima node.toml seeds.txt secret", "deploy", c.deployment(sampled)...)
	program, secret, master := c.read(c.Proxima), c.read(c.state("secret")), c.read(c.master)
	c.programs = map[string]os.FileInfo{}
	samples := map[string]bool{}
	for _, m := range c.nodes {
		for name, mode := range map[string]os.FileMode{"secret": 0o600, "node.toml": 0o600, "seeds.txt": 0o600, "proxima": 0o700, ".": 0o700} {
			info, err := os.Stat(m.path(name))
			c.must(err)
			c.expect(info.Mode().Perm() == mode, "%s: mode of %s is %v, not %v", m.name, name, info.Mode().Perm(), mode)
			if name == "proxima" {
				c.programs[m.name] = info
			}
		}
		c.expect(c.read(m.path("proxima")) == program, "%s has another program", m.name)
		c.expect(c.read(m.path("secret")) == secret, "%s has another secret", m.name)
		text := c.read(m.path("seeds.txt"))
		seeds := strings.Fields(text)
		c.expect(len(seeds) == sampled, "%s has %d seeds", m.name, len(seeds))
		for i, s := range seeds {
			c.expect(strings.Contains(master, s+"\n") && !slices.Contains(seeds[:i], s), "%s has the seed %s", m.name, s)
		}
		samples[text] = true
	}
	c.expect(len(samples) == len(c.nodes), "nodes have the same sample of seeds")
	info, err := os.Stat(c.state("secret"))
	c.expect(err == nil && info.Mode().Perm() == 0o600, "others can read the secret kept here: %v", err)

	c.all("unchanged", "deploy", c.deployment(sampled, "-proxima", c.Proxima)...)
	c.samePrograms()
}

// samePrograms checks that no program was copied again.
func (c *course) samePrograms() {
	for _, m := range c.nodes {
		info, err := os.Stat(m.path("proxima"))
		c.expect(err == nil && os.SameFile(info, c.programs[m.name]), "%s: the program was copied again", m.name)
	}
}

// spoil breaks the configuration of one node. start must report it, and deploy must repair it.
func (c *course) spoil() {
	victim := c.nodes[0]
	c.extend(victim.path("node.toml"), "nonsense = 1\n")
	c.write(c.file("one.hosts"), victim.entry+"\n")
	r := c.fleet("start", "-hosts", c.file("one.hosts"))
	word, text := r.line(victim)
	c.expect(r.code == 4 && word == "failed" && strings.Contains(text, "code 2") && strings.Contains(text, "nonsense"),
		"a wrong configuration: code %d: %s", r.code, r.out)
	_, text = c.all("", "deploy", c.deployment(sampled)...).line(victim)
	c.expect(strings.HasPrefix(text, "new: node.toml,"), "deploy did not repair the configuration: %s", text)
}

// startAll starts the nodes, twice.
func (c *course) startAll() {
	c.all("started, process", "start")
	before := c.pids()
	c.expect(len(before) == len(c.nodes), "%d nodes run after the start", len(before))
	r := c.all("runs already, process", "start")
	c.expect(slices.Equal(before, c.pids()), "the nodes are %v, and were %v before the second start: %s", c.pids(), before, r.out)
}

func (c *course) pids() (list []int) {
	for _, p := range nodesOf(c.Dir) {
		list = append(list, p.Pid)
	}
	slices.Sort(list)
	return list
}

// row is a node in the table of fleet status.
type row struct {
	state, members string
	pages, pending int
}

func (c *course) status() (map[string]row, result) {
	r := c.fleet("status", "-hosts", c.list)
	rows := map[string]row{}
	for l := range strings.Lines(r.out) {
		if f := strings.Fields(l); len(f) >= 6 {
			pages, _ := strconv.Atoi(f[3])
			pending, _ := strconv.Atoi(f[4])
			rows[f[0]] = row{f[1], f[5], pages, pending}
		}
	}
	return rows, r
}

// await waits until the overlay is whole and the site was asked for want pages. The nodes report those since their start: all but earlier.
func (c *course) await(want, earlier int) {
	for {
		rows, r := c.status()
		crawled, whole := 0, true
		for _, m := range c.nodes {
			row := rows[m.name]
			crawled += row.pages
			whole = whole && row.state == "running" && row.members == "3/3" && row.pending == 0
		}
		if whole && len(c.web.asked()) == want && crawled >= want-earlier {
			c.expect(r.code == 1, "status: code %d: %s", r.code, r.out)
			for _, m := range c.bad() {
				c.expect(rows[m.name].state == m.kind, "status of %s, which is %s: %s", m.name, m.kind, r.out)
			}
			fmt.Print(r.out)
			return
		}
		if err := bell.Sleep(c.ctx, time.Second); err != nil {
			c.must(fmt.Errorf("wait for the crawl: %w:\n%s", err, r.out))
		}
	}
}

// crawl waits for the crawl, and runs commands that must not disturb it.
func (c *course) crawl() {
	c.await(len(c.web.ring.Pages()), 0)
	for page, n := range c.web.asked() {
		c.expect(n == 1, "%s was asked for %d times", page, n)
	}
	r := c.fleet("deploy", append([]string{"-hosts", c.list}, c.deployment(sampled, "-fresh")...)...)
	c.expect(r.code == 4 && strings.Count(r.out, "stop it before -fresh") == len(c.nodes), "deploy -fresh beside running nodes: %s", r.out)
	c.all("new or longer", "collect", "-out", c.logs)
}

// stopAll stops the nodes, twice.
func (c *course) stopAll() {
	c.all("stopped, process", "stop")
	c.expect(len(c.pids()) == 0, "nodes run after the stop: %v", c.pids())
	rows, r := c.status()
	c.expect(r.code == 4, "status of stopped nodes: code %d", r.code)
	for _, m := range c.nodes {
		c.expect(rows[m.name].state == "stopped", "status of stopped nodes: %s", r.out)
		c.misleadingPid(m)
	}
	c.all("did not run", "stop")
	for _, m := range c.nodes {
		c.expect(syscall.Kill(m.pid, 0) == nil, "stop ended a process that is no node")
	}
}

// misleadingPid makes a node's pid file name another process, as it may after a restart of the machine.
func (c *course) misleadingPid(m *machine) { c.write(m.path("pid"), fmt.Sprintln(m.pid)) }

// again does everything once more with other seeds. It kills a node, stops one so that it cannot hear, and removes a pid file.
func (c *course) again() {
	c.extend(c.master, seeds(c.web.late))
	r := c.selectSets("sets", "-need", "3", "-sets", "2", "-take", "7")
	c.expect(r.code == 0, "select with one to spare: code %d: %s", r.code, r.out)
	sets, err := filepath.Glob(c.file("sets/set-*.hosts"))
	c.expect(err == nil && len(sets) == 2, "select made the sets %v: %v", sets, err)

	deployment := c.deployment(0)
	c.all("new: seeds.txt, as", "deploy", deployment...)
	c.samePrograms()
	c.misleadingPid(c.nodes[0])
	c.must(os.RemoveAll(c.nodes[1].path("pid")))
	c.startAll()
	c.await(pages, len(c.web.ring.Pages()))

	pidOf := func(i int) int {
		for _, p := range nodesOf(c.Dir) {
			if p.Cwd == c.nodes[i].path() {
				return p.Pid
			}
		}
		return 0
	}
	killed, deaf := pidOf(0), pidOf(1)
	c.must(errors.Join(syscall.Kill(killed, syscall.SIGKILL), syscall.Kill(deaf, syscall.SIGSTOP), os.Remove(c.nodes[2].path("pid"))))
	lab.Within(c.ctx, time.Minute, func() bool { return pidOf(0) == 0 })
	// A node whose peers are dead or stopped needs some seconds until its farewell calls give up.
	r = c.all("", "stop", "-wait", "15")
	for i, want := range []string{"did not run", "killed, since", "stopped, process"} {
		_, text := r.line(c.nodes[i])
		c.expect(strings.HasPrefix(text, want), "stop of node %d: %q, not %q", i, text, want)
	}
	c.expect(len(c.pids()) == 0, "nodes run after the stop: %v", c.pids())
	c.all("new or longer", "collect", "-out", c.logs)
	c.readLogs(2, c.nodes[:2])

	c.all("data and logs of before are deleted", "deploy", append(deployment, "-fresh", "-peers", "1")...)
	joined := map[string]bool{}
	for _, m := range c.nodes {
		for _, name := range []string{"data", "logs", "node.out"} {
			_, err := os.Stat(m.path(name))
			c.expect(errors.Is(err, os.ErrNotExist), "%s: deploy -fresh left %s: %v", m.name, name, err)
		}
		cfg, err := node.Load(m.path("node.toml"))
		c.must(err)
		join := cfg.Member.Join
		c.expect(len(join) == 1 && !joined[join[0]] && join[0] != cfg.Member.Advertise, "with -peers 1 the nodes are no ring: %s joins %v", m.name, join)
		joined[strings.Join(join, " ")] = true
	}
}
