//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// course is the steps of the check, in order. Steps report what does not hold with expect. When the check itself cannot go on, they panic
// with a stop, which run turns into its error.
type course struct {
	*bed
	ctx                      context.Context
	master, base, list, logs string
	nodes                    []*machine // of the first set
	programs                 map[string]os.FileInfo
	output                   strings.Builder // of all commands
}

type stop struct{ error }

func newCourse(b *bed) *course {
	return &course{bed: b, master: filepath.Join(b.Dir, "master.txt"), base: filepath.Join(b.Dir, "base.toml"),
		list: filepath.Join(b.Dir, "some.hosts"), logs: filepath.Join(b.Dir, "logs")}
}

func (c *course) run(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(stop)
			if !ok {
				panic(r)
			}
			err = s.error
		}
	}()
	c.ctx = ctx
	c.write(c.master, "# The master list.\n\n"+seeds(c.web.ring))
	c.write(c.base, c.web.config())
	c.write(c.file("all.hosts"), "# All hosts.\n\n"+entries(c.machines))
	for _, step := range []func(){c.nobody, c.choose, c.deploy, c.spoil, c.startAll, c.crawl, c.stopAll, c.collect, c.again, c.interrupt, c.secrets} {
		step()
	}
	if n := len(c.faults); n > 0 {
		return fmt.Errorf("%d things did not hold", n)
	}
	return nil
}

func (c *course) must(err error) {
	if err != nil {
		panic(stop{err})
	}
}

func (c *course) file(name string) string { return filepath.Join(c.Dir, name) }

func (c *course) write(path, text string) { c.must(os.WriteFile(path, []byte(text), 0o600)) }

func (c *course) read(path string) string {
	text, err := os.ReadFile(path)
	c.must(err)
	return string(text)
}

func (c *course) extend(path, text string) { c.write(path, c.read(path)+text) }

// entries returns the lines of machines in a list of hosts.
func entries(machines []*machine) (text string) {
	for _, m := range machines {
		text += m.entry + "\n"
	}
	return text
}

// result is how a command ended and what it printed.
type result struct {
	code int
	out  string
}

// line returns the result of a machine: the first word of its line, and the rest after its name.
func (r result) line(m *machine) (word, text string) {
	for l := range strings.Lines(r.out) {
		if f := strings.Fields(l); len(f) >= 2 && f[1] == m.name {
			_, text, _ = strings.Cut(l, m.name)
			return f[0], strings.TrimSpace(text)
		}
	}
	return "", ""
}

// fleet runs proxima fleet to its end. It checks that no temporary file is left.
func (c *course) fleet(verb string, args ...string) result {
	r, err := c.try(c.ctx, verb, args...)
	c.must(err)
	return r
}

// try is fleet with a context. Its error is never the command's own failure.
func (c *course) try(ctx context.Context, verb string, args ...string) (result, error) {
	began := time.Now()
	cmd := exec.CommandContext(ctx, c.Proxima, append([]string{"fleet", verb, "-timeout", "30"}, args...)...)
	cmd.Env = append(os.Environ(), "SSH_CONFIG="+c.servers.SSHConfig(), "TMPDIR="+c.file("tmp"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err := c.start(here, cmd)
	if err == nil {
		err = cmd.Wait()
	}
	left, readErr := os.ReadDir(c.file("tmp"))
	c.expect(readErr == nil && len(left) == 0, "%s left temporary files: %v %v", verb, left, readErr)
	if _, failed := errors.AsType[*exec.ExitError](err); ctx.Err() != nil || err != nil && !failed {
		return result{}, fmt.Errorf("run %s: %w: %s", verb, errors.Join(err, ctx.Err()), &out)
	}
	r := result{cmd.ProcessState.ExitCode(), out.String()}
	c.output.WriteString(r.out)
	last := strings.TrimRight(r.out, "\n")
	fmt.Printf("%-10s %4.1f s  code %d: %.120s\n", verb, time.Since(began).Seconds(), r.code, last[strings.LastIndexByte(last, '\n')+1:])
	return r, nil
}

// all runs a verb on the list. It checks that the good machines succeed and that the others have the right trouble.
func (c *course) all(says, verb string, args ...string) result {
	r := c.fleet(verb, append([]string{"-hosts", c.list}, args...)...)
	c.expect(r.code == 1, "%s: code %d, not 1: %s", verb, r.code, r.out)
	c.troubles(r)
	for _, m := range c.nodes {
		word, text := r.line(m)
		c.expect(word == "ok" && strings.Contains(text, says), "%s: %s has %s %q, not %q", verb, m.name, word, text, says)
	}
	return r
}

// troubles checks the results of the machines that cannot be used.
func (c *course) troubles(r result) {
	for _, m := range c.bad() {
		word, text := r.line(m)
		c.expect(word == m.kind && text != "", "%s has the result %q (%q), not %q", m.name, word, text, m.kind)
	}
}

// nobody checks that ssh runs into its timeout if packets to an address are lost, since it does not exist.
func (c *course) nobody() {
	if c.net == nil {
		return
	}
	c.write(c.file("nobody.hosts"), "198.18.0.200\n")
	r := c.fleet("status", "-hosts", c.file("nobody.hosts"), "-timeout", "1")
	c.expect(r.code == 4 && strings.Contains(r.out, "silent"), "status of an address that does not exist: code %d: %s", r.code, r.out)
}

// selectSets runs fleet select on all hosts, with room for any amount of data.
func (c *course) selectSets(out string, args ...string) result {
	return c.fleet("select", append([]string{"-hosts", c.file("all.hosts"), "-out", c.file(out), "-free", "1"}, args...)...)
}

// choose selects two sets of three, twice, and makes the list for the other steps: the first set and the machines that cannot be used.
func (c *course) choose() {
	var sets [2]string
	for round := range 2 {
		r := c.selectSets("sets", "-need", "3", "-take", "6")
		c.expect(r.code == 0, "select: code %d: %s", r.code, r.out)
		c.troubles(r)
		for k := range sets {
			before := sets[k]
			sets[k] = c.read(c.file(fmt.Sprintf("sets/set-%d.hosts", k+1)))
			if round == 1 && !c.loopback { // on loopback the load is real and changes
				c.expect(sets[k] == before, "select: the same loads gave another set: %s, %s", sets[k], before)
			}
		}
	}
	seen := map[string]bool{}
	for k, text := range sets {
		members := slices.DeleteFunc(slices.Clone(c.machines), func(m *machine) bool {
			return !slices.Contains(strings.Fields(text), strings.Fields(m.entry)[0])
		})
		c.expect(len(members) == 3, "select: set %d has %d members", k+1, len(members))
		for _, m := range members {
			load, _ := strconv.ParseFloat(m.load, 64)
			c.expect(m.kind == kindGood && !seen[m.name] && load < 1, "select: %s with load %.2f is in set %d", m.name, load, k+1)
			seen[m.name] = true
		}
		if k == 0 {
			c.nodes = members
		}
	}
	c.write(c.list, sets[0]+entries(c.bad()))
	if len(c.nodes) != 3 {
		c.must(errors.New("nothing more can be checked without a set of three"))
	}
}
