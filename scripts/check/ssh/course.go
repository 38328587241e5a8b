//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"proxima/node"
)

// holding is what the part inside prints when nodes run and it waits to be interrupted.
const holding = "nodes run; waiting for the end"

// inside runs the part inside the namespaces.
func inside(ctx context.Context, s settings) (err error) {
	if !s.loopback {
		if err := enter(); err != nil {
			return err
		}
	}
	b, err := newBed(ctx, s)
	if b != nil {
		defer func() { err = errors.Join(err, b.close()) }()
	}
	if err != nil {
		return err
	}
	c := &course{bed: b, master: filepath.Join(b.dir, "master.txt"), base: filepath.Join(b.dir, "base.toml"),
		list: filepath.Join(b.dir, "some.hosts"), logs: filepath.Join(b.dir, "logs")}
	if err := c.files(); err != nil {
		return err
	}
	if s.hold {
		return c.hold(ctx)
	}
	for _, step := range []func(context.Context) error{c.usage, c.choose, c.deploy, c.spoil, c.startAll, c.crawl, c.stopAll, c.collect, c.again, c.many} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	c.secrets()
	if n := len(b.faults); n > 0 {
		return fmt.Errorf("%d things did not hold", n)
	}
	return nil
}

// course is what is done, in order.
type course struct {
	*bed
	master, base, list, logs string
	nodes                    []*machine // of the first set
	programs                 map[string]os.FileInfo
	output                   strings.Builder // of all scripts
}

// files writes the master list, the common configuration and the list of all hosts.
func (c *course) files() error {
	hosts := "# All hosts.\n\n"
	for _, m := range c.machines {
		hosts += m.entry + "\n"
	}
	for name, text := range map[string]string{c.master: "# The master list.\n\n" + seeds(c.web.ring), c.base: c.web.config(), filepath.Join(c.dir, "all.hosts"): hosts} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// result is how a script ended and what it printed.
type result struct {
	code int
	out  string
}

// line is the result of a host: its first word, and the rest after the name.
func (r result) line(m *machine) (word, text string) {
	for l := range strings.Lines(r.out) {
		f := strings.Fields(l)
		if len(f) >= 2 && f[1] == m.name {
			_, text, _ = strings.Cut(l, m.name)
			return f[0], strings.TrimSpace(text)
		}
	}
	return "", ""
}

// run runs a script; an error is one of the check, not of the script.
func (c *course) run(ctx context.Context, script string, args ...string) (result, error) {
	began := time.Now()
	cmd := exec.CommandContext(ctx, "bash", append([]string{filepath.Join("scripts", script), "-timeout", "30"}, args...)...)
	cmd.Env = append(os.Environ(), "SSH_CONFIG="+filepath.Join(c.dir, "ssh_config"), "TMPDIR="+filepath.Join(c.dir, "tmp"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if ctx.Err() != nil || err != nil && !errors.As(err, &failed) {
		return result{}, fmt.Errorf("run %s: %w: %s", script, errors.Join(err, ctx.Err()), out)
	}
	r := result{cmd.ProcessState.ExitCode(), string(out)}
	c.output.WriteString(r.out)
	last := strings.TrimRight(r.out, "\n")
	last = last[strings.LastIndexByte(last, '\n')+1:]
	fmt.Printf("%-10s %4.1f s  code %d: %.120s\n", script, time.Since(began).Seconds(), r.code, last)
	left, err := os.ReadDir(filepath.Join(c.dir, "tmp"))
	c.expect(err == nil && len(left) == 0, "%s left temporary files: %v %v", script, left, err)
	return r, nil
}

// usage checks that mistakes are refused before anything is done.
func (c *course) usage(ctx context.Context) error {
	twice := filepath.Join(c.dir, "twice.hosts")
	option := filepath.Join(c.dir, "option.hosts")
	for name, text := range map[string]string{twice: "a\nb\nroot@a\n", option: "-oProxyCommand=date\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write list: %w", err)
		}
	}
	for _, t := range []struct {
		args string
		code int
		says string
	}{
		{"start.sh -h", 0, "-wait S"}, {"status.sh", 2, "-hosts is missing"}, {"status.sh -hosts " + twice, 2, "line 1"},
		{"stop.sh -hosts " + option, 2, "is not [USER@]HOST"}, {"stop.sh -hosts " + c.list + " -force", 2, "no flag -force"},
		{"select.sh -hosts " + twice + " -need x -sets 2 -out d", 2, "-need"},
		{"deploy.sh -hosts " + twice, 2, "-seeds is missing"},
	} {
		f := strings.Fields(t.args)
		r, err := c.run(ctx, f[0], f[1:]...)
		if err != nil {
			return err
		}
		c.expect(r.code == t.code && strings.Contains(r.out, t.says), "%s: code %d, not %d with %q: %s", t.args, r.code, t.code, t.says, r.out)
	}
	return nil
}

// choose selects two sets of three, twice.
func (c *course) choose(ctx context.Context) error {
	sets := filepath.Join(c.dir, "sets")
	var first [2][]byte
	for round := range 2 {
		r, err := c.run(ctx, "select.sh", "-hosts", filepath.Join(c.dir, "all.hosts"), "-need", "3", "-take", "6", "-out", sets, "-free", "1")
		if err != nil {
			return err
		}
		c.expect(r.code == 0, "select: code %d: %s", r.code, r.out)
		if round == 0 && !c.s.loopback {
			// Having waited for the silent one once is enough: from here on the answer is quick.
			for _, m := range c.machines {
				if m.kind != kindSilent {
					continue
				}
				if err := ip(ctx, "route", "add", "unreachable", m.addr); err != nil {
					return err
				}
			}
		}
		for _, m := range c.machines {
			if m.kind != kindGood {
				c.bad(r, m)
			}
		}
		for k := range 2 {
			text, err := os.ReadFile(filepath.Join(sets, fmt.Sprintf("set-%d.hosts", k+1)))
			if err != nil {
				return fmt.Errorf("read set: %w", err)
			}
			if round == 0 {
				first[k] = text
			} else if !c.s.loopback { // elsewhere the load is real
				c.expect(bytes.Equal(text, first[k]), "select: the same loads gave another set: %s, %s", first[k], text)
			}
			first[k] = text
		}
	}
	var sums [2]float64
	seen := map[string]bool{}
	for k, text := range first {
		lines := strings.Fields(strings.ReplaceAll(string(text), "\n", " "))
		members := 0
		for _, m := range c.machines {
			where := strings.Fields(m.entry)[0]
			if !slices.Contains(lines, where) {
				continue
			}
			members++
			c.expect(m.kind == kindGood && !seen[m.name], "select: %s is in set %d", m.name, k+1)
			seen[m.name] = true
			load, _ := strconv.ParseFloat(m.load, 64)
			c.expect(load < 1, "select: %s with load %.2f was taken", m.name, load)
			sums[k] += load
			if k == 0 {
				c.nodes = append(c.nodes, m)
			}
		}
		c.expect(members == 3, "select: set %d has %d members", k+1, members)
	}
	c.expect(math.Abs(sums[0]-sums[1]) < 0.11, "select: loads of the sets are %v", sums)
	// More than there are: as many sets as can be.
	r, err := c.run(ctx, "select.sh", "-hosts", filepath.Join(c.dir, "all.hosts"), "-need", "4", "-sets", "2", "-out", sets+"4", "-free", "1")
	if err != nil {
		return err
	}
	c.expect(r.code == 1 && strings.Contains(r.out, "1 of 2 sets"), "select of too many: code %d: %s", r.code, r.out)

	// The rest is done with the first set, and with those that cannot be used.
	list := string(first[0])
	for _, m := range c.machines {
		if m.kind != kindGood {
			list += m.entry + "\n"
		}
	}
	if err := os.WriteFile(c.list, []byte(list), 0o644); err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	if len(c.nodes) != 3 {
		return errors.New("without a set of three nothing more can be checked")
	}
	return nil
}

// bad checks the result of a host that cannot be used.
func (c *course) bad(r result, m *machine) {
	word, text := r.line(m)
	c.expect(word == m.word() && text != "", "%s, which %s, has %q (%q), not %q", m.name, m.kind, word, text, m.word())
}

// word is how scripts call the trouble with a machine.
func (m *machine) word() string {
	return map[string]string{kindRefuses: "refused", kindUnknown: "unknown", kindSilent: "silent", kindGood: "ok"}[m.kind]
}

// all runs a script on the list, and checks that it succeeded with the good ones and says what is wrong with the others.
func (c *course) all(ctx context.Context, says string, script string, args ...string) (result, error) {
	r, err := c.run(ctx, script, append([]string{"-hosts", c.list}, args...)...)
	if err != nil {
		return r, err
	}
	c.expect(r.code == 1, "%s: code %d, not 1: %s", script, r.code, r.out)
	for _, m := range c.machines {
		if m.kind != kindGood {
			c.bad(r, m)
		}
	}
	for _, m := range c.nodes {
		word, text := r.line(m)
		c.expect(word == "ok" && strings.Contains(text, says), "%s: %s has %s %q, not %q", script, m.name, word, text, says)
	}
	return r, nil
}

// hold starts nodes and waits for the end.
func (c *course) hold(ctx context.Context) error {
	c.nodes = c.machines[len(c.machines)-3:]
	var list string
	for _, m := range c.nodes {
		list += m.entry + "\n"
	}
	if err := os.WriteFile(c.list, []byte(list), 0o644); err != nil {
		return fmt.Errorf("write list: %w", err)
	}
	state := filepath.Join(filepath.Dir(c.dir), "all", "state") // the program is there already
	for _, step := range [][]string{{"deploy.sh", "-seeds", c.master, "-config", c.base, "-peers", "1", "-state", state, "-proxima",
		filepath.Join(state, "bin", "proxima-given")}, {"start.sh"}} {
		r, err := c.run(ctx, step[0], append([]string{"-hosts", c.list}, step[1:]...)...)
		if err != nil {
			return err
		}
		if r.code != 0 {
			return fmt.Errorf("%s: code %d: %s", step[0], r.code, r.out)
		}
	}
	if n := len(nodesOf(c.dir)); n != len(c.nodes) {
		return fmt.Errorf("%d nodes run", n)
	}
	joined := map[string]bool{}
	for _, m := range c.nodes {
		cfg, err := node.Load(m.path("node.toml"))
		if err != nil {
			return err
		}
		if len(cfg.Member.Join) != 1 || joined[cfg.Member.Join[0]] || cfg.Member.Join[0] == cfg.Member.Advertise {
			return fmt.Errorf("with -peers 1 the nodes are no ring: %s joins %v", m.name, cfg.Member.Join)
		}
		joined[cfg.Member.Join[0]] = true
	}
	fmt.Println(holding)
	<-ctx.Done()
	return ctx.Err()
}
