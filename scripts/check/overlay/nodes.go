package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// kill is the end of one life of a node.
type kill struct {
	node, life int
	at         time.Time // just before the signal was sent
	down       time.Duration
}

// plan says when a kill comes: after so many requests, and a delay; and for how long the node stays dead.
type plan struct {
	after       int
	delay, down time.Duration
	pick        uint64 // chooses among the nodes alive then
	long        bool   // its hosts are taken over meanwhile
}

// plans draws the moments. The progress and not the clock spaces them, so that all fit on machines of any speed. Every
// fifth node stays dead for so long that its hosts are taken over.
func plans(s settings) []plan {
	random := rand.New(rand.NewPCG(s.seed, 0))
	marks := make([]int, s.kills)
	for i := range marks {
		marks[i] = s.pages/20 + random.IntN(max(1, s.pages*13/20))
	}
	slices.Sort(marks)
	list := make([]plan, s.kills)
	for i, m := range marks {
		list[i] = plan{after: m, delay: time.Duration(random.Int64N(int64(500 * time.Millisecond))), pick: random.Uint64(),
			down: time.Duration(random.Int64N(int64(4 * time.Second)))}
		if i%5 == 0 {
			// Found dead, taken over, and by a new home that has taken the place of the dead.
			cfg := configure(s, &layout{}, 0, 0)
			list[i].long = true
			list[i].down += 8*time.Second + cfg.Home.TakeAfter + cfg.Member.ForgetAfter
		}
	}
	return list
}

// process is one node and its present life.
type process struct {
	index          int
	dir            string
	listen, gossip string

	// mu guards what follows.
	mu    sync.Mutex
	life  int
	cmd   *exec.Cmd
	out   *bytes.Buffer
	ended chan struct{}
	err   error // of the life that ended
}

// crew is all nodes of the overlay.
type crew struct {
	s     settings
	site  *site
	nodes []*process
	seeds string
	kills []kill
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
	// All ports are taken at once, so that no two are the same.
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for _, p := range c.nodes {
		for _, at := range []*string{&p.listen, &p.gossip} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, fmt.Errorf("find free port: %w", err)
			}
			held = append(held, l)
			*at = l.Addr().String()
		}
	}
	return c, nil
}

// start begins a life.
func (c *crew) start(ctx context.Context, p *process) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	file := filepath.Join(p.dir, fmt.Sprintf("life%d.toml", p.life))
	cfg := configure(c.s, &c.site.layout, p.index, p.life)
	if err := os.WriteFile(file, []byte(cfg.Text()), 0o644); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	args := []string{"node", "-config", file, "-data", filepath.Join(p.dir, "data"), "-seeds", c.seeds, "-secret", filepath.Join(c.s.dir, "secret"),
		"-listen", p.listen, "-gossip", p.gossip, "-nodes", fmt.Sprint(c.s.nodes)}
	var join []string
	for _, other := range c.nodes[:min(3, len(c.nodes))] {
		if other != p {
			join = append(join, other.gossip)
		}
	}
	if p.index > 0 || p.life > 0 {
		args = append(args, "-join", strings.Join(join, ","))
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

// alive lists the nodes that run.
func (c *crew) alive() []*process {
	var list []*process
	for _, p := range c.nodes {
		select {
		case <-p.end():
		default:
			list = append(list, p)
		}
	}
	return list
}

func (p *process) end() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// kill ends a life.
func (c *crew) kill(p *process, down time.Duration) error {
	p.mu.Lock()
	k := kill{node: p.index, life: p.life, at: time.Now(), down: down}
	err := p.cmd.Process.Kill()
	p.mu.Unlock()
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill node %d: %w", p.index, err)
	}
	<-p.end()
	p.mu.Lock()
	exited := p.cmd.ProcessState.Exited()
	c.keepOutput(p)
	p.life++
	p.mu.Unlock()
	if exited {
		return fmt.Errorf("node %d ended by itself, with %d requests made", k.node, c.site.served.Load())
	}
	c.kills = append(c.kills, k)
	return nil
}

// keepOutput writes what a life printed. It needs the process's mu held.
func (c *crew) keepOutput(p *process) {
	// It is only for people who look for the cause of a failure.
	_ = os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("life%d.out", p.life)), p.out.Bytes(), 0o644)
}

// run starts all nodes, kills as planned, and waits until the crawl has ended at all of them.
func (c *crew) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range c.nodes {
		if err := c.start(ctx, p); err != nil {
			return err
		}
	}
	err := c.disturb(ctx)
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
	return err
}

// disturb carries out the plans. Less than half of the nodes are dead at a time, and a host has two copies: no two nodes
// are dead for long at the same time, nor is one before those that came back have settled and have their copies.
func (c *crew) disturb(ctx context.Context) error {
	back := make(chan *process, c.s.kills)
	list := plans(c.s)
	dead := 0
	var alone time.Time // until then nobody else may be dead for long
	cfg := configure(c.s, &c.site.layout, 0, 0)
	for len(list) > 0 || dead > 0 {
		if len(c.alive()) < c.s.nodes-dead {
			return fmt.Errorf("a node ended with %d kills left and %d requests made", len(list), c.site.served.Load())
		}
		ready := len(list) > 0 && c.site.served.Load() >= int64(list[0].after) && 2*(dead+1) < c.s.nodes &&
			(!list[0].long || dead == 0 && time.Now().After(alone))
		if ready {
			p := list[0]
			list = list[1:]
			if err := pause(ctx, p.delay); err != nil {
				return err
			}
			alive := c.alive()
			if len(alive) < c.s.nodes-dead {
				continue
			}
			victim := choose(alive, c.site.takeBusy(), p.pick)
			if err := c.kill(victim, p.down); err != nil {
				return err
			}
			dead++
			mended := p.down + cfg.Home.FenceAfter // copies are tried again that often at least
			if p.long {
				mended += cfg.Member.SettleAfter
			}
			if at := time.Now().Add(mended + 3*time.Second); at.After(alone) {
				alone = at
			}
			time.AfterFunc(p.down, func() { back <- victim }) // there is room for all
			continue
		}
		select {
		case p := <-back:
			dead--
			if err := c.start(ctx, p); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("%d kills are left: %w", len(list), ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// choose draws a victim. Nodes that download much are killed more often, but all can be: the others keep homes and leases.
func choose(alive []*process, busy map[int]int, pick uint64) *process {
	total := 0
	for _, p := range alive {
		total += busy[p.index]
	}
	base := 1 + total/(4*len(alive)) // a fifth of the kills is spread evenly
	at := int(pick % uint64(total+base*len(alive)))
	for _, p := range alive {
		if at -= busy[p.index] + base; at < 0 {
			return p
		}
	}
	return alive[0]
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// await waits for the end of all nodes.
func (c *crew) await(ctx context.Context) error {
	for _, p := range c.nodes {
		select {
		case <-p.end():
		case <-ctx.Done():
			return fmt.Errorf("the crawl has not ended at node %d: %w", p.index, ctx.Err())
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
