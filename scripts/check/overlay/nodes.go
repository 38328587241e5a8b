package main

import (
	"bytes"
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
)

// process is one node and its present life.
type process struct {
	index          int
	dir            string
	listen, gossip string    // what the others dial
	behind         [2]string // where it listens for peers and gossip, if relays stand before it

	// mu guards what follows.
	mu    sync.Mutex
	life  int
	cmd   *exec.Cmd
	out   *bytes.Buffer
	ended chan struct{} // nil before the first life
	down  bool          // by a fault
	err   error         // of the life that ended
}

// crew is all nodes of the overlay.
type crew struct {
	s      settings
	site   *site
	nodes  []*process
	relays *relays // nil where no node is cut off
	seeds  string
	faults []fault
}

func newCrew(s settings, w *site) (*crew, error) {
	c := &crew{s: s, site: w, seeds: filepath.Join(s.dir, "seeds.txt")}
	var seeds strings.Builder
	for h := range min(seedHosts, len(w.hosts)) {
		fmt.Fprintln(&seeds, w.url(h, 0))
	}
	if err := os.WriteFile(c.seeds, []byte(seeds.String()), 0o644); err != nil {
		return nil, fmt.Errorf("write seeds: %w", err)
	}
	if out, err := exec.Command(s.proxima, "keygen", filepath.Join(s.dir, "secret")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make secret: %w\n%s", err, out)
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

// takePorts finds ports for all nodes, all at once so that no two are the same, and puts relays before them where needed.
func (c *crew) takePorts() (err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	if c.s.faults[isolate] > 0 {
		c.relays = newRelays(len(c.nodes), func(node int) int { return c.nodes[node].pid() })
	}
	for _, p := range c.nodes {
		for i, at := range []*string{&p.listen, &p.gossip} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return fmt.Errorf("find free port: %w", err)
			}
			held = append(held, l)
			*at = l.Addr().String()
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

// start begins a life.
func (c *crew) start(ctx context.Context, p *process) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	file := filepath.Join(p.dir, fmt.Sprintf("life%d.toml", p.life))
	cfg := configure(c.s, &c.site.layout, p.index, p.life)
	cfg.Peer.Listen, cfg.Member.Bind = p.listen, p.gossip
	if c.relays != nil {
		cfg.Peer.Listen, cfg.Peer.Advertise = p.behind[0], p.listen
		cfg.Member.Bind, cfg.Member.Advertise = p.behind[1], p.gossip
	}
	if err := os.WriteFile(file, []byte(cfg.Text()), 0o644); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	args := []string{"node", "-config", file, "-data", filepath.Join(p.dir, "data"), "-seeds", c.seeds, "-secret", filepath.Join(c.s.dir, "secret"),
		"-nodes", fmt.Sprint(c.s.nodes)}
	var others []string
	for _, other := range c.nodes[:min(3, len(c.nodes))] {
		if other != p {
			others = append(others, other.gossip)
		}
	}
	if p.index > 0 || p.life > 0 {
		args = append(args, "-join", strings.Join(others, ","))
	}
	cmd := exec.CommandContext(ctx, c.s.proxima, args...)
	p.out = new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %d: %w", p.index, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended, p.err = cmd, ended, nil
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(ended)
	}()
	return nil
}

// alive lists the nodes that run undisturbed.
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
	if p.ended == nil || p.down {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// end is closed when the present life has ended.
func (p *process) end() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended = make(chan struct{})
		close(p.ended)
	}
	return p.ended
}

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return -1
	}
	return p.cmd.Process.Pid
}

// begin does to a node what a plan says.
func (c *crew) begin(p *process, what kind) error {
	p.mu.Lock()
	f := fault{kind: what, node: p.index, life: p.life, at: time.Now()}
	p.down = true
	process := p.cmd.Process
	p.mu.Unlock()
	c.faults = append(c.faults, f)
	switch what {
	case isolate:
		c.relays.set(p.index, true)
		return nil
	case freeze:
		if err := process.Signal(syscall.SIGSTOP); err != nil {
			return fmt.Errorf("freeze node %d: %w", p.index, err)
		}
		return nil
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill node %d: %w", p.index, err)
	}
	<-p.end()
	p.mu.Lock()
	defer p.mu.Unlock()
	c.keepOutput(p)
	p.life++
	if p.cmd.ProcessState.Exited() {
		return fmt.Errorf("node %d ended by itself, with %d requests made", p.index, c.site.served.Load())
	}
	if what == erase {
		// Kept for the logs alone: the next life knows nothing of it.
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
	process := p.cmd
	p.mu.Unlock()
	var err error
	switch what {
	case isolate:
		c.relays.set(p.index, false)
	case freeze:
		if err = process.Process.Signal(syscall.SIGCONT); err != nil {
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

// keepOutput writes what a life printed. It needs the process's mu held.
func (c *crew) keepOutput(p *process) {
	// It is only for people who look for the cause of a failure.
	_ = os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("life%d.out", p.life)), p.out.Bytes(), 0o644)
}

// run starts the nodes, disturbs them as planned, and waits until the crawl has ended at all of them.
func (c *crew) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range c.nodes[:len(c.nodes)-c.s.faults[join]] {
		if err := c.start(ctx, p); err != nil {
			return err
		}
	}
	err := c.disturb(ctx)
	c.site.slowAfter.Store(0)
	if err == nil {
		err = c.await(ctx)
	}
	if err != nil {
		c.explain()
	}
	cancel()
	for _, p := range c.nodes {
		<-p.end()
		p.mu.Lock()
		c.keepOutput(p)
		if p.err != nil {
			err = errors.Join(err, fmt.Errorf("node %d, life %d: %w\n%s", p.index, p.life, p.err, tail(p.out.Bytes())))
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
		case <-p.end():
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

// explain says what the nodes that run say of themselves.
func (c *crew) explain() {
	for _, p := range c.alive() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		out, err := exec.CommandContext(ctx, c.s.proxima, "status", "-data", filepath.Join(p.dir, "data")).CombinedOutput()
		cancel()
		fmt.Fprintf(os.Stderr, "node %d, life %d (%v):\n%s\n", p.index, p.life, err, out)
	}
}

// tail is the end of what a node printed.
func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
