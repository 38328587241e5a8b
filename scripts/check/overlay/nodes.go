package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"proxima/scripts/lab"
)

// process is one node with its current life.
type process struct {
	index          int
	dir            string
	listen, gossip string    // the addresses that others dial
	behind         [2]string // where it listens for peers and gossip if relays own those addresses

	// mu guards what follows.
	mu   sync.Mutex
	life int
	now  *lab.Process // the latest life; nil before the first
	down bool         // because of a fault
}

// crew is all nodes of the overlay.
type crew struct {
	s      settings
	site   *lab.Site
	nodes  []*process
	relays *relays // nil if no node is isolated
	seeds  string
	faults []fault
	looked time.Time // when busy was called last
}

func newCrew(s settings, w *lab.Site) (*crew, error) {
	c := &crew{s: s, site: w, seeds: filepath.Join(s.dir, "seeds.txt")}
	if err := os.WriteFile(c.seeds, []byte(strings.Join(w.Seeds(), "\n")+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("write seeds: %w", err)
	}
	if err := lab.Keygen(s.proxima, filepath.Join(s.dir, "secret")); err != nil {
		return nil, err
	}
	for i := range s.nodes {
		p := &process{index: i, dir: filepath.Join(s.dir, fmt.Sprintf("n%d", i))}
		if err := os.Mkdir(p.dir, 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		c.nodes = append(c.nodes, p)
	}
	return c, c.takePorts()
}

// takePorts finds ports for all nodes, and puts relays before them if nodes will be isolated.
func (c *crew) takePorts() (err error) {
	if c.s.inside {
		for _, p := range c.nodes {
			p.listen, p.gossip = c.s.home(p.index)+":7947", c.s.home(p.index)+":7946"
		}
		return nil
	}
	free, err := lab.Addresses("127.0.0.1", 2*len(c.nodes))
	if err != nil {
		return err
	}
	if c.s.faults[isolate] > 0 {
		c.relays = newRelays(len(c.nodes), func(node int) int { return c.nodes[node].pid() })
	}
	for _, p := range c.nodes {
		for i, at := range []*string{&p.listen, &p.gossip} {
			*at = free[2*p.index+i]
			if c.relays == nil {
				continue
			}
			p.behind[i] = *at
			front, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return fmt.Errorf("listen for relay: %w", err)
			}
			*at = front.Addr().String()
			c.relays.streams(front, p.behind[i], p.index)
			if i == 1 {
				packets, err := net.ListenPacket("udp", *at)
				if err != nil {
					return fmt.Errorf("listen for relay: %w", err)
				}
				if err := c.relays.packets(packets, p.behind[i], p.index); err != nil {
					return fmt.Errorf("start relay: %w", err)
				}
			}
		}
	}
	return nil
}

// start starts a life of a node.
func (c *crew) start(ctx context.Context, p *process) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	file := filepath.Join(p.dir, fmt.Sprintf("life%d.toml", p.life))
	cfg := configure(c.s, &c.site.Layout, p.index, p.life)
	cfg.Peer.Listen, cfg.Member.Bind = p.listen, p.gossip
	cfg.Peer.Secret = filepath.Join(c.s.dir, "secret")
	if c.relays != nil {
		cfg.Peer.Listen, cfg.Peer.Advertise = p.behind[0], p.listen
		cfg.Member.Bind, cfg.Member.Advertise = p.behind[1], p.gossip
	}
	if err := os.WriteFile(file, []byte(cfg.Text()), 0o644); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	args := []string{"node", "-config", file, "-data", filepath.Join(p.dir, "data"), "-seeds", c.seeds, "-nodes", fmt.Sprint(c.s.nodes)}
	var others []string
	for _, other := range c.nodes[:min(3, len(c.nodes))] {
		if other != p && !c.s.behind(other.index) {
			others = append(others, other.gossip)
		}
	}
	if p.index > 0 || p.life > 0 {
		args = append(args, "-join", strings.Join(others, ","))
	}
	command := append([]string{c.s.proxima}, args...)
	if c.s.inside {
		command = append([]string{"ip", "netns", "exec", fmt.Sprintf("n%d", p.index)}, command...)
	}
	now, err := lab.Start(exec.CommandContext(ctx, command[0], command[1:]...))
	if err != nil {
		return fmt.Errorf("node %d: %w", p.index, err)
	}
	p.now = now
	return nil
}

// alive lists the nodes that run without a fault.
func (c *crew) alive() []*process {
	var list []*process
	for _, p := range c.nodes {
		if p.runs() {
			list = append(list, p)
		}
	}
	return list
}

func (p *process) runs() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now != nil && !p.down && p.now.Running()
}

// present returns the latest life; nil before the first.
func (p *process) present() *lab.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *process) pid() int {
	if now := p.present(); now != nil {
		return now.Pid()
	}
	return -1
}

// begin begins a fault of a node.
func (c *crew) begin(p *process, what kind) error {
	p.mu.Lock()
	f := fault{kind: what, node: p.index, life: p.life, at: time.Now()}
	p.down = true
	now := p.now
	p.mu.Unlock()
	c.faults = append(c.faults, f)
	switch what {
	case isolate:
		c.relays.set(p.index, true)
		return nil
	case freeze:
		if err := now.Signal(syscall.SIGSTOP); err != nil {
			return fmt.Errorf("freeze node %d: %w", p.index, err)
		}
		return nil
	}
	killed := now.Kill()
	p.mu.Lock()
	defer p.mu.Unlock()
	c.keepOutput(p)
	p.life++
	if !killed {
		return fmt.Errorf("node %d ended by itself, with %d requests made", p.index, c.site.Asked())
	}
	if what == erase {
		// Kept for its logs; the next life does not see it.
		if err := os.Rename(filepath.Join(p.dir, "data"), filepath.Join(p.dir, fmt.Sprintf("lost%d", f.life))); err != nil {
			return fmt.Errorf("erase disk of node %d: %w", p.index, err)
		}
	}
	return nil
}

// finish ends a fault.
func (c *crew) finish(ctx context.Context, p *process, what kind) error {
	p.mu.Lock()
	p.down = false
	now := p.now
	p.mu.Unlock()
	var err error
	switch what {
	case isolate:
		c.relays.set(p.index, false)
	case freeze:
		if err = now.Signal(syscall.SIGCONT); err != nil {
			err = fmt.Errorf("wake node %d: %w", p.index, err)
		}
	default:
		err = c.start(ctx, p)
	}
	for i := range c.faults {
		if f := &c.faults[i]; f.node == p.index && f.until.IsZero() {
			f.until = time.Now()
		}
	}
	return err
}

// keepOutput writes the output of a life to a file, for people who look for the cause of a failure. The caller holds p.mu.
func (c *crew) keepOutput(p *process) {
	_ = os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("life%d.out", p.life)), p.now.Output(), 0o644)
}

// run starts the nodes, injects the faults, and waits until the crawl has ended at every node.
func (c *crew) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range c.nodes[:len(c.nodes)-c.s.faults[join]] {
		if err := c.start(ctx, p); err != nil {
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
	for _, p := range c.nodes {
		now := p.present()
		if now == nil {
			continue
		}
		ended := now.Wait()
		p.mu.Lock()
		c.keepOutput(p)
		if ended != nil {
			err = errors.Join(err, fmt.Errorf("node %d, life %d: %w\n%s", p.index, p.life, ended, now.Tail()))
		}
		p.mu.Unlock()
	}
	if c.relays != nil {
		err = errors.Join(err, c.relays.close())
	}
	return err
}

// await waits for the end of all nodes.
func (c *crew) await(ctx context.Context) error {
	for _, p := range c.nodes {
		select {
		case <-p.present().Ended():
		case <-ctx.Done():
			var late []string
			for _, p := range c.alive() {
				late = append(late, fmt.Sprint(p.index))
			}
			return fmt.Errorf("the crawl has not ended at the nodes %s: %w", strings.Join(late, ", "), ctx.Err())
		}
	}
	return nil
}

// explain prints the status of the nodes that still run.
func (c *crew) explain() {
	for _, p := range c.alive() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		out, err := exec.CommandContext(ctx, c.s.proxima, "status", "-data", filepath.Join(p.dir, "data")).CombinedOutput()
		cancel()
		fmt.Fprintf(os.Stderr, "node %d, life %d (%v):\n%s\n", p.index, p.life, err, out)
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
