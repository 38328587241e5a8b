package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"proxima/scripts/bench/origin/client"
	"proxima/scripts/lab"
)

// config has the keys that differ from the defaults. Older builds also know all of them.
const config = `# Written by the benchmark for one life of one node.
[fetch]
user_agent = "Proxima/%d.%d" # tells the node and its life
allow_prefixes = ["127.0.0.0/8"]
[politeness]
own = ["127.0.0.0/8"] # no gap
[scope]
seed_scope = "any"
`

// bench has the sites, and everything that is needed to start nodes.
type bench struct {
	s             settings
	web           *client.Origin
	secret, seeds string
	crawls        int
}

// writeSeeds writes the URLs of the first pages of all hosts.
func (b *bench) writeSeeds(ctx context.Context) error {
	urls, err := b.web.URLs(ctx)
	if err != nil {
		return err
	}
	lines := bytes.SplitAfterN(urls, []byte("\n"), b.s.hosts+1)
	if err := os.WriteFile(b.seeds, bytes.Join(lines[:b.s.hosts], nil), 0o644); err != nil {
		return fmt.Errorf("write seeds: %w", err)
	}
	return nil
}

// crew has the nodes of a crawl.
type crew struct {
	b     *bench
	dir   string
	nodes []*process
}

// process is a node and its current process.
type process struct {
	index, life    int
	listen, gossip string
	now            *lab.Process // the current or last process; nil before the first
}

// crew prepares a crawl by some nodes.
func (b *bench) crew(ctx context.Context, nodes int) (*crew, error) {
	b.crawls++
	c := &crew{b: b, dir: filepath.Join(b.s.dir, fmt.Sprintf("crawl%d", b.crawls))}
	if err := b.web.Reset(ctx); err != nil {
		return nil, err
	}
	free, err := lab.Addresses("127.0.0.1", 2*nodes)
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		p := &process{index: i, life: 100 * b.crawls} // requests of an earlier crawl may still arrive
		p.listen, p.gossip = free[2*i], free[2*i+1]
		if err := os.MkdirAll(c.folder(p), 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		c.nodes = append(c.nodes, p)
	}
	return c, nil
}

func (c *crew) folder(p *process) string { return filepath.Join(c.dir, fmt.Sprintf("n%d", p.index)) }

// agent returns the User-Agent of the current process, by which the sites identify it.
func (p *process) agent() string { return fmt.Sprintf("Proxima/%d.%d", p.index, p.life) }

// start starts a process of a node. A single node has no peers.
func (c *crew) start(p *process) error {
	file := filepath.Join(c.folder(p), "node.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, config, p.index, p.life), 0o644); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	args := []string{"node", "-config", file, "-data", filepath.Join(c.folder(p), "data"), "-seeds", c.b.seeds}
	if c.b.s.profile != "" {
		args = append(args, "-cpuprofile", filepath.Join(c.b.s.profile, fmt.Sprintf("of%d-n%d-%d.pprof", len(c.nodes), p.index, c.b.crawls)))
	}
	if len(c.nodes) > 1 {
		args = append(args, "-secret", c.b.secret, "-listen", p.listen, "-gossip", p.gossip, "-nodes", fmt.Sprint(len(c.nodes)))
		var others []string
		for _, other := range c.nodes[:min(3, len(c.nodes))] {
			if other != p {
				others = append(others, other.gossip)
			}
		}
		args = append(args, "-join", strings.Join(others, ","))
	}
	cmd := exec.Command(c.b.s.bin, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	now, err := lab.Start(cmd)
	if err != nil {
		return fmt.Errorf("node %d: %w", p.index, err)
	}
	p.now = now
	return nil
}

// startAll starts all nodes.
func (c *crew) startAll() error {
	for _, p := range c.nodes {
		if err := c.start(p); err != nil {
			c.kill()
			return err
		}
	}
	return nil
}

// wait waits for the end of all nodes, and kills those that do not end in time. It returns how many ended without an error.
func (c *crew) wait(ctx context.Context) int {
	deadline := time.After(c.b.s.limit)
	n := 0
	for _, p := range c.nodes {
		select {
		case <-p.now.Ended():
			if err := p.now.Wait(); err == nil {
				n++
			} else {
				fmt.Fprintf(os.Stderr, "node %d: %v\n%s\n", p.index, err, p.now.Tail())
			}
			continue
		case <-ctx.Done():
		case <-deadline:
			closed := make(chan time.Time)
			close(closed)
			deadline = closed // for the other nodes, too
		}
		fmt.Fprintf(os.Stderr, "node %d has not ended\n", p.index)
	}
	c.kill()
	return n
}

// kill kills all nodes.
func (c *crew) kill() {
	for _, p := range c.nodes {
		if p.now != nil {
			p.now.Kill()
		}
	}
}

// remove deletes the files of a crawl unless they should be kept.
func (c *crew) remove() error {
	if c.b.s.keep {
		return nil
	}
	return os.RemoveAll(c.dir)
}

// cpu returns the processor time of the last process of each node.
func (c *crew) cpu() time.Duration {
	var sum time.Duration
	for _, p := range c.nodes {
		sum += p.now.CPU()
	}
	return sum
}
