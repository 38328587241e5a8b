package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"proxima/node"
	"proxima/node/member"
	"proxima/node/placement"
	"proxima/scripts/lab"
)

const subnet = "127.0.3." // of the site

// crew is all nodes of the overlay, and the faults that befell them.
type crew struct {
	Nodes  []*lab.Node
	s      settings
	site   *lab.Site
	down   map[*lab.Node]bool // because of a fault
	faults []fault
	looked time.Time // when busy was called last
}

func newCrew(s settings, w *lab.Site) (*crew, error) {
	var addrs []string
	var err error
	if s.inside {
		for i := range s.nodes {
			addrs = append(addrs, s.home(i)+":7947", s.home(i)+":7946")
		}
	} else if addrs, err = lab.Addresses("127.0.0.1", 2*s.nodes); err != nil {
		return nil, err
	}
	nodes, err := lab.NewCrew(s.Dir, s.Proxima, w.Seeds(), addrs...)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		n.Hidden = s.behind(n.Index)
	}
	return &crew{Nodes: nodes, s: s, site: w, down: map[*lab.Node]bool{}}, nil
}

func (c *crew) start(ctx context.Context, n *lab.Node) error {
	var before []string
	if c.s.inside {
		before = []string{"ip", "netns", "exec", fmt.Sprintf("n%d", n.Index)}
	}
	return n.Start(ctx, configure(c.s, &c.site.Layout, n).Text(), before)
}

// configure makes the configuration of one life of one node. The version in the User-Agent identifies node and life. All times of the
// overlay are the defaults divided by s.faster.
func configure(s settings, l *lab.Layout, n *lab.Node) node.Config {
	c := node.Default()
	c.Crawl.Fetchers = s.fetch
	c.Scope.SeedScope = "any"
	prefix := subnet + "0/24"
	if s.inside {
		prefix = natSubnet + "0/24"
	}
	c.Fetch.UserAgent = n.Agent()
	c.Fetch.AllowPrefixes = []string{prefix}
	c.Fetch.DNS.Hosts = map[string][]string{}
	for _, h := range l.Hosts {
		c.Fetch.DNS.Hosts[h.Name] = []string{h.Addr}
	}
	// No gap between requests, but one at a time.
	c.Politeness.Own, c.Politeness.OwnGap, c.Politeness.OwnParallel = []string{prefix}, 0, 1

	shorter := func(least time.Duration, times ...*time.Duration) {
		for _, t := range times {
			*t = max(least, time.Duration(float64(*t)/s.faster).Round(time.Millisecond))
		}
	}
	c.Hasten(s.faster)
	c.Member.Preset = member.PresetLAN
	b := &c.Batch
	b.Mode, b.URLs, b.Hosts = placement.ModeCycle, 20, 5
	shorter(time.Second, &c.Crawl.Patience)
	shorter(100*time.Millisecond, &b.Check, &b.LongestWait)
	return c
}

// alive lists the nodes that run without a fault.
func (c *crew) alive() []*lab.Node {
	var list []*lab.Node
	for _, n := range c.Nodes {
		if n.Now != nil && !c.down[n] && n.Now.Running() {
			list = append(list, n)
		}
	}
	return list
}

func (c *crew) begin(ctx context.Context, n *lab.Node, what kind) error {
	c.faults = append(c.faults, fault{kind: what, node: n.Index, life: n.Life, at: time.Now()})
	c.down[n] = what != join
	switch what {
	case join:
		c.faults[len(c.faults)-1].until = time.Now()
		return c.start(ctx, n)
	case isolate, path, mute:
		return c.s.cut(ctx, n.Index, what, true)
	case freeze:
		if err := n.Now.Signal(syscall.SIGSTOP); err != nil {
			return fmt.Errorf("freeze node %d: %w", n.Index, err)
		}
		return nil
	}
	if err := c.kill(n); err != nil {
		return err
	}
	switch what {
	case erase:
		return erased(n)
	case lose:
		n.Now = nil
		c.faults[len(c.faults)-1].until = time.Now()
		return erased(n)
	case restore:
		if out, err := exec.CommandContext(ctx, "cp", "-Rp", n.Data(), backup(n)).CombinedOutput(); err != nil {
			return fmt.Errorf("copy disk of node %d: %w\n%s", n.Index, err, out)
		}
		return c.start(ctx, n)
	}
	return nil
}

// kill kills a node. Its next life may begin then.
func (c *crew) kill(n *lab.Node) error {
	killed := n.Now.Kill()
	keepOutput(n)
	n.Life++
	if !killed {
		return fmt.Errorf("node %d ended by itself, with %d requests made", n.Index, c.site.Asked())
	}
	return nil
}

// erased takes the disk of a dead node away. It is kept for its logs; the next life does not see it.
func erased(n *lab.Node) error {
	if err := os.Rename(n.Data(), filepath.Join(n.Dir, fmt.Sprintf("lost%d", n.Life))); err != nil {
		return fmt.Errorf("erase disk of node %d: %w", n.Index, err)
	}
	return nil
}

func backup(n *lab.Node) string { return filepath.Join(n.Dir, "backup") }

func (c *crew) finish(ctx context.Context, n *lab.Node, what kind) (err error) {
	var again time.Time
	switch what {
	case isolate, path, mute:
		err = c.s.cut(ctx, n.Index, what, false)
	case freeze:
		if err = n.Now.Signal(syscall.SIGCONT); err != nil {
			err = fmt.Errorf("wake node %d: %w", n.Index, err)
		}
	case restore:
		again = time.Now()
		if err = c.kill(n); err == nil {
			err = erased(n)
		}
		if err == nil {
			err = os.Rename(backup(n), n.Data())
		}
		if err == nil {
			err = c.start(ctx, n)
		}
	default:
		err = c.start(ctx, n)
	}
	c.down[n] = false
	for i := range c.faults {
		if f := &c.faults[i]; f.node == n.Index && f.until.IsZero() {
			f.until, f.again = time.Now(), again
		}
	}
	return err
}

// keepOutput writes the output of a life to a file, for people who look for the cause of a failure.
func keepOutput(n *lab.Node) {
	_ = os.WriteFile(filepath.Join(n.Dir, fmt.Sprintf("life%d.out", n.Life)), n.Now.Output(), 0o644)
}

// run starts the nodes, injects the faults, and waits until the crawl has ended at every node.
func (c *crew) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, n := range c.Nodes[:len(c.Nodes)-c.s.faults[join]] {
		if err := c.start(ctx, n); err != nil {
			return err
		}
	}
	err := c.disturb(ctx)
	c.site.Slower.Store(0)
	if err == nil {
		err = c.await(ctx)
	}
	if err != nil {
		c.explain()
	}
	cancel()
	for _, n := range c.Nodes {
		if n.Now == nil {
			continue
		}
		ended := n.Now.Wait()
		keepOutput(n)
		if ended != nil {
			err = errors.Join(err, fmt.Errorf("node %d, life %d: %w\n%s", n.Index, n.Life, ended, n.Now.Tail()))
		}
	}
	return err
}

func (c *crew) await(ctx context.Context) error {
	for _, n := range c.Nodes {
		if n.Now == nil {
			continue
		}
		select {
		case <-n.Now.Ended():
		case <-ctx.Done():
			var late []string
			for _, n := range c.alive() {
				late = append(late, fmt.Sprint(n.Index))
			}
			return fmt.Errorf("the crawl has not ended at the nodes %s: %w", strings.Join(late, ", "), ctx.Err())
		}
	}
	return nil
}

// explain prints the status of the nodes that still run.
func (c *crew) explain() {
	for _, n := range c.alive() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		out, err := exec.CommandContext(ctx, c.s.Proxima, "status", "-data", n.Data()).CombinedOutput()
		cancel()
		fmt.Fprintf(os.Stderr, "node %d, life %d (%v):\n%s\n", n.Index, n.Life, err, out)
	}
}

// busy counts the requests of each node since the last call.
func (c *crew) busy() map[int]int {
	n := map[int]int{}
	for _, r := range c.site.Requests() {
		if r.Start.After(c.looked) {
			n[r.Node]++
		}
	}
	c.looked = time.Now()
	return n
}
