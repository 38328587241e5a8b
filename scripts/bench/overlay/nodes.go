package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"proxima/scripts/bench/origin/client"
	"proxima/scripts/lab"
)

// config has the keys that differ from the defaults. Older builds also know all of them.
const config = `# Written by the benchmark for one life of one node.
[fetch]
user_agent = "%s" # tells the node and its life
allow_prefixes = ["127.0.0.0/8"]
[politeness]
own = ["127.0.0.0/8"] # no gap
[scope]
seed_scope = "%s"
`

type bench struct {
	s      settings
	web    *client.Origin
	seeds  []string // the first pages of all hosts
	crawls int
}

type crew struct {
	Nodes []*lab.Node
	scope string
	b     *bench
	dir   string
}

// crew prepares a crawl by the nodes of one overlay. If they are apart, each has its own part of the sites and knows of no other node.
func (b *bench) crew(ctx context.Context, nodes int, apart bool) (*crew, error) {
	b.crawls++
	if err := b.web.Reset(ctx); err != nil {
		return nil, err
	}
	addrs, err := lab.Addresses("127.0.0.1", 2*nodes)
	if err != nil {
		return nil, err
	}
	c := &crew{scope: "any", b: b, dir: filepath.Join(b.s.Dir, fmt.Sprintf("crawl%d", b.crawls))}
	crews := 1
	if apart {
		crews, c.scope = nodes, "host"
	}
	for i := range crews {
		seeds := b.seeds[i*len(b.seeds)/crews : (i+1)*len(b.seeds)/crews]
		list, err := lab.NewCrew(filepath.Join(c.dir, fmt.Sprint(i)), b.s.Proxima, seeds, addrs[i*len(addrs)/crews:(i+1)*len(addrs)/crews]...)
		if err != nil {
			return nil, err
		}
		for _, n := range list {
			n.Index = len(c.Nodes)
			n.Life = 100 * b.crawls // requests of an earlier crawl may still arrive
			c.Nodes = append(c.Nodes, n)
		}
	}
	return c, nil
}

func (c *crew) start(ctx context.Context, n *lab.Node) error {
	var flags []string
	if c.b.s.profile != "" {
		flags = []string{"-cpuprofile", filepath.Join(c.b.s.profile, fmt.Sprintf("of%d-n%d-%d.pprof", len(c.Nodes), n.Index, c.b.crawls))}
	}
	return n.Start(ctx, fmt.Sprintf(config, n.Agent(), c.scope), nil, flags...)
}

func (c *crew) startAll(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := c.start(ctx, n); err != nil {
			c.kill()
			return err
		}
	}
	return nil
}

// wait waits for the end of all nodes, and kills those that do not end in time. It returns how many ended without an error.
func (c *crew) wait(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, c.b.s.limit)
	defer cancel()
	ended := 0
	for _, n := range c.Nodes {
		select {
		case <-n.Now.Ended():
			if err := n.Now.Wait(); err == nil {
				ended++
			} else {
				fmt.Fprintf(os.Stderr, "node %d: %v\n%s\n", n.Index, err, n.Now.Tail())
			}
		case <-ctx.Done():
			fmt.Fprintf(os.Stderr, "node %d has not ended\n", n.Index)
		}
	}
	c.kill()
	return ended
}

func (c *crew) kill() {
	for _, n := range c.Nodes {
		if n.Now != nil {
			n.Now.Kill()
		}
	}
}

// remove deletes the files of a crawl unless they should be kept.
func (c *crew) remove() error {
	if c.b.s.Kept {
		return nil
	}
	return os.RemoveAll(c.dir)
}

// cpu returns the processor time of the last process of each node.
func (c *crew) cpu() time.Duration {
	var sum time.Duration
	for _, n := range c.Nodes {
		sum += n.Now.CPU()
	}
	return sum
}
