//go:build linux

package main

import (
	"context"
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
)

const sampled = 8 // seeds of a node

// state is where deploy.sh keeps what it made.
func (c *course) state(parts ...string) string {
	return filepath.Join(append([]string{c.dir, "state"}, parts...)...)
}

// program is the program that deploy.sh built.
func (c *course) program() (string, error) {
	names, err := filepath.Glob(c.state("bin", "proxima-linux-*[0-9]"))
	if err != nil || len(names) != 1 {
		return "", fmt.Errorf("deploy built %v, not one program: %v", names, err)
	}
	return names[0], nil
}

// deploy deploys, looks at what came, and deploys again.
func (c *course) deploy(ctx context.Context) error {
	args := []string{"-seeds", c.master, "-config", c.base, "-sample", strconv.Itoa(sampled), "-run", "check", "-state", c.state()}
	r, err := c.all(ctx, "new: node.toml secret seeds.txt proxima", "deploy.sh", args...)
	if err != nil {
		return err
	}
	c.expect(strings.Count(r.out, "building proxima") == 1, "deploy did not build once: %s", r.out)
	program, err := c.program()
	if err != nil {
		return err
	}
	secret, err := os.ReadFile(c.state("secret"))
	if err != nil {
		return fmt.Errorf("read secret: %w", err)
	}
	built, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	master, err := os.ReadFile(c.master)
	if err != nil {
		return fmt.Errorf("read seeds: %w", err)
	}
	c.programs = map[string]os.FileInfo{}
	samples := map[string]bool{}
	for _, m := range c.nodes {
		for name, mode := range map[string]os.FileMode{"secret": 0o600, "node.toml": 0o600, "seeds.txt": 0o600, "proxima": 0o700, ".": 0o700} {
			info, err := os.Stat(m.path(name))
			if err != nil {
				return fmt.Errorf("look at what was deployed: %w", err)
			}
			c.expect(info.Mode().Perm() == mode, "%s: mode of %s is %v, not %v", m.name, name, info.Mode().Perm(), mode)
			if name == "proxima" {
				c.programs[m.name] = info
			}
		}
		text, err := os.ReadFile(m.path("proxima"))
		c.expect(err == nil && string(text) == string(built), "%s has another program", m.name)
		text, err = os.ReadFile(m.path("secret"))
		c.expect(err == nil && string(text) == string(secret), "%s has another secret", m.name)
		text, err = os.ReadFile(m.path("seeds.txt"))
		seeds := strings.Fields(string(text))
		c.expect(err == nil && len(seeds) == sampled, "%s has %d seeds: %v", m.name, len(seeds), err)
		for i, s := range seeds {
			c.expect(strings.Contains(string(master), s+"\n") && !slices.Contains(seeds[:i], s), "%s has the seed %s", m.name, s)
		}
		samples[string(text)] = true
		c.configOf(m)
	}
	c.expect(len(samples) == len(c.nodes), "nodes have the same sample of seeds")
	info, err := os.Stat(c.state("secret"))
	c.expect(err == nil && info.Mode().Perm() == 0o600, "the secret kept here can be read by others: %v", err)

	// Again, with the program just built: the tree may have changed meanwhile.
	_, err = c.all(ctx, "unchanged", "deploy.sh", append(args, "-proxima", program)...)
	c.same()
	return err
}

// configOf checks the configuration of a node.
func (c *course) configOf(m *machine) {
	cfg, err := node.Load(m.path("node.toml"))
	if err != nil {
		c.expect(false, "%s: configuration: %v", m.name, err)
		return
	}
	var join []string
	for _, o := range c.nodes {
		if o != m {
			join = append(join, o.addr+":7946")
		}
	}
	slices.Sort(cfg.Member.Join)
	slices.Sort(join)
	want := fmt.Sprint("data", "check", []string{"seeds.txt"}, m.addr+":7947", m.addr+":7947", "secret", m.addr+":7946", m.addr+":7946", join, 3, "logs",
		2*time.Second, "never", 256, c.web.ring.Hosts[0].Addr)
	have := fmt.Sprint(cfg.Node.Data, cfg.Node.Run, cfg.Crawl.Seeds, cfg.Peer.Listen, cfg.Peer.Advertise, cfg.Peer.Secret, cfg.Member.Bind,
		cfg.Member.Advertise, cfg.Member.Join, cfg.Termination.ExpectedNodes, cfg.Output.Logs,
		cfg.Member.SettleAfter, cfg.Crawl.End, cfg.Node.MemoryMiB, strings.Join(cfg.Fetch.DNS.Hosts["h00.test"], " "))
	c.expect(have == want, "%s: configuration has %s, not %s", m.name, have, want)
}

// same checks that programs were not copied again.
func (c *course) same() {
	for _, m := range c.nodes {
		info, err := os.Stat(m.path("proxima"))
		c.expect(err == nil && os.SameFile(info, c.programs[m.name]), "%s: the program was copied again", m.name)
	}
}

// spoil breaks the configuration of one node: start has to say so, and deploy to mend it.
func (c *course) spoil(ctx context.Context) error {
	victim := c.nodes[0]
	f, err := os.OpenFile(victim.path("node.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("spoil configuration: %w", err)
	}
	fmt.Fprintln(f, "nonsense = 1")
	if err := f.Close(); err != nil {
		return fmt.Errorf("spoil configuration: %w", err)
	}
	one := filepath.Join(c.dir, "one.hosts")
	if err := os.WriteFile(one, []byte(victim.entry+"\n"), 0o644); err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	r, err := c.run(ctx, "start.sh", "-hosts", one)
	if err != nil {
		return err
	}
	word, text := r.line(victim)
	c.expect(r.code == 4 && word == "failed" && strings.Contains(text, "code 2") && strings.Contains(text, "nonsense"),
		"a wrong configuration: code %d: %s", r.code, r.out)
	program, err := c.program()
	if err != nil {
		return err
	}
	r, err = c.all(ctx, "", "deploy.sh", "-seeds", c.master, "-config", c.base, "-sample", strconv.Itoa(sampled), "-run", "check", "-state", c.state(),
		"-proxima", program)
	_, text = r.line(victim)
	c.expect(strings.HasPrefix(text, "new: node.toml,"), "deploy did not mend the configuration: %s", text)
	return err
}

// startAll starts the nodes, and again.
func (c *course) startAll(ctx context.Context) error {
	if _, err := c.all(ctx, "started, process", "start.sh"); err != nil {
		return err
	}
	before := c.pids()
	c.expect(len(before) == len(c.nodes), "%d nodes run after the start", len(before))
	r, err := c.all(ctx, "runs already, process", "start.sh")
	c.expect(slices.Equal(before, c.pids()), "nodes are %v, and were %v before the second start: %s", c.pids(), before, r.out)
	return err
}

func (c *course) pids() (list []int) {
	for _, p := range nodesOf(c.dir) {
		list = append(list, p.pid)
	}
	slices.Sort(list)
	return list
}

// row is a node in the table of status.sh.
type row struct {
	state, members string
	pages, pending int
}

func (c *course) status(ctx context.Context) (map[string]row, result, error) {
	r, err := c.run(ctx, "status.sh", "-hosts", c.list)
	rows := map[string]row{}
	for l := range strings.Lines(r.out) {
		if f := strings.Fields(l); len(f) >= 6 {
			pages, _ := strconv.Atoi(f[3])
			pending, _ := strconv.Atoi(f[4])
			rows[f[0]] = row{f[1], f[5], pages, pending}
		}
	}
	return rows, r, err
}

// await asks until the overlay is whole and has crawled a number of pages in all.
func (c *course) await(ctx context.Context, want, before int) error {
	for {
		rows, r, err := c.status(ctx)
		if err != nil {
			return err
		}
		crawled, whole := 0, true
		for _, m := range c.nodes {
			row := rows[m.name]
			crawled += row.pages
			whole = whole && row.state == "running" && row.members == "3/3" && row.pending == 0
		}
		if whole && len(c.web.asked()) == want && crawled >= want-before {
			c.expect(r.code == 1, "status: code %d: %s", r.code, r.out)
			for _, m := range c.machines {
				if m.kind != kindGood {
					c.expect(rows[m.name].state == m.word(), "status of %s, which %s: %s", m.name, m.kind, r.out)
				}
			}
			fmt.Print(r.out)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the crawl: %w:\n%s", ctx.Err(), r.out)
		case <-time.After(time.Second):
		}
	}
}

// crawl waits for the crawl, and does what must not disturb it.
func (c *course) crawl(ctx context.Context) error {
	if err := c.await(ctx, len(c.web.ring.Pages()), 0); err != nil {
		return err
	}
	for page, n := range c.web.asked() {
		c.expect(n == 1, "%s was asked for %d times", page, n)
	}
	r, err := c.run(ctx, "deploy.sh", "-hosts", c.list, "-seeds", c.master, "-config", c.base, "-state", c.state(), "-proxima", c.state("bin", "proxima-given"), "-fresh")
	if err != nil {
		return err
	}
	c.expect(r.code == 4 && strings.Count(r.out, "stop it before -fresh") == len(c.nodes), "deploy -fresh beside running nodes: %s", r.out)
	if _, err := c.all(ctx, "new or longer", "collect.sh", "-out", c.logs); err != nil {
		return err
	}
	return nil
}

// stopAll stops the nodes, and again.
func (c *course) stopAll(ctx context.Context) error {
	if _, err := c.all(ctx, "stopped, process", "stop.sh"); err != nil {
		return err
	}
	c.expect(len(c.pids()) == 0, "nodes run after the stop: %v", c.pids())
	rows, r, err := c.status(ctx)
	if err != nil {
		return err
	}
	c.expect(r.code == 4, "status of stopped nodes: code %d", r.code)
	for _, m := range c.nodes {
		c.expect(rows[m.name].state == "stopped", "status of stopped nodes: %s", r.out)
		// A pid file of another process, as after a restart of the machine, must not mislead.
		if err := os.WriteFile(m.path("pid"), fmt.Appendln(nil, m.sshd.Process.Pid), 0o600); err != nil {
			return fmt.Errorf("write pid: %w", err)
		}
	}
	if _, err := c.all(ctx, "did not run", "stop.sh"); err != nil {
		return err
	}
	for _, m := range c.nodes {
		c.expect(syscall.Kill(m.sshd.Process.Pid, 0) == nil, "stop ended a process that is no node")
	}
	return nil
}

// again does all once more: other seeds, one node killed, one that does not stop.
func (c *course) again(ctx context.Context) error {
	f, err := os.OpenFile(c.master, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("add seeds: %w", err)
	}
	fmt.Fprint(f, seeds(c.web.late))
	if err := f.Close(); err != nil {
		return fmt.Errorf("add seeds: %w", err)
	}
	if err := c.choose2(ctx); err != nil {
		return err
	}
	args := []string{"-seeds", c.master, "-config", c.base, "-sample", "0", "-run", "check", "-state", c.state(), "-proxima", c.state("bin", "proxima-given")}
	if _, err := c.all(ctx, "new: seeds.txt, as", "deploy.sh", args...); err != nil {
		return err
	}
	c.same()
	// A pid file that is not true, and none.
	for i, m := range c.nodes[:2] {
		if err := os.RemoveAll(m.path("pid")); err != nil {
			return fmt.Errorf("remove pid: %w", err)
		}
		if i == 0 {
			if err := os.WriteFile(m.path("pid"), fmt.Appendln(nil, m.sshd.Process.Pid), 0o600); err != nil {
				return fmt.Errorf("write pid: %w", err)
			}
		}
	}
	if err := c.startAll(ctx); err != nil {
		return err
	}
	if err := c.await(ctx, pages, len(c.web.ring.Pages())); err != nil {
		return err
	}
	// One is killed, one does not hear, and of one the pid file is lost.
	nodes := nodesOf(c.dir)
	for i, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		for _, p := range nodes {
			if p.cwd == c.nodes[i].path() {
				if err := syscall.Kill(p.pid, sig); err != nil {
					return fmt.Errorf("send a signal: %w", err)
				}
			}
		}
	}
	if err := os.Remove(c.nodes[2].path("pid")); err != nil {
		return fmt.Errorf("remove pid: %w", err)
	}
	for _, p := range nodes {
		if p.cwd == c.nodes[0].path() {
			awaitEnd(ctx, p.pid)
		}
	}
	// A node whose peers are dead or stand still says farewell to them until its calls end: some seconds.
	r, err := c.all(ctx, "", "stop.sh", "-wait", "15")
	if err != nil {
		return err
	}
	for i, want := range []string{"did not run", "killed, since", "stopped, process"} {
		_, text := r.line(c.nodes[i])
		c.expect(strings.HasPrefix(text, want), "stop of node %d: %q, not %q", i, text, want)
	}
	c.expect(len(c.pids()) == 0, "nodes run after the stop: %v", c.pids())
	if _, err := c.all(ctx, "new or longer", "collect.sh", "-out", c.logs); err != nil {
		return err
	}
	if err := c.readLogs(2, []int{0, 1}); err != nil {
		return err
	}
	if _, err := c.all(ctx, "new: (no data, no logs), as", "deploy.sh", append(args, "-fresh")...); err != nil {
		return err
	}
	for _, m := range c.nodes {
		for _, name := range []string{"data", "logs", "node.out"} {
			_, err := os.Stat(m.path(name))
			c.expect(errors.Is(err, os.ErrNotExist), "%s: deploy -fresh left %s: %v", m.name, name, err)
		}
	}
	return nil
}

// awaitEnd waits until a process that was killed holds nothing any more.
func awaitEnd(ctx context.Context, pid int) {
	for ctx.Err() == nil {
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
