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

// config is what differs from the defaults; it has only keys that older builds know, too.
const config = `# Written by the benchmark for one life of one node.
[fetch]
user_agent = "Proxima/%d.%d" # tells the node and its life
allow_prefixes = ["127.0.0.0/8"]
[politeness]
own = ["127.0.0.0/8"] # no gap
[scope]
seed_scope = "any"
`

// bench is the sites and what is needed to start nodes.
type bench struct {
	s             settings
	web           *client.Origin
	secret, seeds string
	crawls        int
}

// writeSeeds names the first pages of all hosts.
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

// crew is the nodes of one crawl.
type crew struct {
	b     *bench
	dir   string
	nodes []*process
}

// process is a node and its present life.
type process struct {
	index, life    int
	listen, gossip string
	now            *lab.Process // the present life, or the last; nil before the first
}

// crew prepares a crawl by so many nodes.
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
		p := &process{index: i, life: 100 * b.crawls} // requests of an earlier crawl may still be under way
		p.listen, p.gossip = free[2*i], free[2*i+1]
		if err := os.MkdirAll(c.folder(p), 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		c.nodes = append(c.nodes, p)
	}
	return c, nil
}

func (c *crew) folder(p *process) string { return filepath.Join(c.dir, fmt.Sprintf("n%d", p.index)) }

// agent is the name by which the sites know a life of a node.
func (p *process) agent() string { return fmt.Sprintf("Proxima/%d.%d", p.index, p.life) }

// start begins a life of a node; a crew of one has no peers.
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

// startAll begins the first life of every node.
func (c *crew) startAll() error {
	for _, p := range c.nodes {
		if err := c.start(p); err != nil {
			c.kill()
			return err
		}
	}
	return nil
}

// wait waits for the end of all nodes and returns how many ended by themselves in time; the others are killed.
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
			deadline = closed // for the others, too
		}
		fmt.Fprintf(os.Stderr, "node %d has not ended\n", p.index)
	}
	c.kill()
	return n
}

// kill ends all lives.
func (c *crew) kill() {
	for _, p := range c.nodes {
		if p.now != nil {
			p.now.Kill()
		}
	}
}

// remove deletes what a crawl left, unless it shall be kept.
func (c *crew) remove() error {
	if c.b.s.keep {
		return nil
	}
	return os.RemoveAll(c.dir)
}

// cpu is the time of all lives that were the last of their nodes.
func (c *crew) cpu() time.Duration {
	var sum time.Duration
	for _, p := range c.nodes {
		sum += p.now.CPU()
	}
	return sum
}
