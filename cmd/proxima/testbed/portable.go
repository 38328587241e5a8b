package testbed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/testbed/sites"
	"proxima/frontier/identity"
	"proxima/node"
	"proxima/node/netsim"
)

// portable is the platform that runs all nodes and servers in this process, over package netsim.
type portable struct {
	*internet
	run     *run
	net     *netsim.Network
	servers *netsim.Endpoint
	gates   []*gate
	began   time.Time
	idle    float64 // of the machine's processors at the start, in seconds of each
	total   float64
	nodes   sync.WaitGroup

	timing    sync.WaitGroup // runs the network's exact timers until endTiming
	endTiming context.CancelFunc
}

func newPortable(ctx context.Context, r *run, fakeClock bool, broken func(error)) (_ *portable, err error) {
	p := r.plan
	b := &portable{run: r, began: time.Now()}
	b.idle, b.total, _ = emulate.Ticks() // other systems do not tell
	at := map[netip.Addr]int{}
	b.net = netsim.New(func(from, to netip.Addr) time.Duration { return ms(p.rtt(at[from], at[to]) / 2) })
	defer func() {
		if err != nil {
			err = errors.Join(err, b.net.Close())
		}
	}()
	for i, n := range p.Nodes {
		at[n.Addr] = i
		b.gates = append(b.gates, newGate(n.CPU, p.Scenario.Seed+uint64(i)))
		b.net.SetBandwidth(n.Addr, n.Up, n.Down)
		b.net.Shield(n.Addr, n.NAT, false) // the name server's answers are datagrams
	}
	var addrs []netip.Addr
	for k, s := range p.Servers {
		at[s.Addr] = len(p.Nodes) + k
		addrs = append(addrs, s.Addr)
		b.net.SetBandwidth(s.Addr, s.Up, 0)
	}
	at[nameServer] = len(p.Nodes) + len(p.Servers)
	if b.servers, err = b.net.Open(append(addrs, nameServer)...); err != nil {
		return nil, err
	}
	deps := sites.Deps{Listen: b.servers.Listen, ListenPacket: b.servers.ListenPacket}
	if b.internet, err = newInternet(ctx, r, true, deps, broken); err != nil {
		return nil, err
	}
	timed, end := context.WithCancel(context.WithoutCancel(ctx))
	b.endTiming = end
	if !fakeClock {
		b.timing.Go(func() {
			if err := b.net.Run(timed); err != nil { // the network also works without them
				r.out.Say("timers of the kernel: %v; packets may be a millisecond late", err)
			}
		})
	}
	return b, nil
}

type portableNode struct {
	ending
	node   *node.Node
	gate   *gate
	place  *netsim.Endpoint
	cancel context.CancelFunc
	killed atomic.Bool
	out    *os.File
}

func (b *portable) start(ctx context.Context, i int) (_ runningNode, err error) {
	p := b.run.plan.Nodes[i]
	dir := b.run.nodeDir(i)
	l := &portableNode{ending: newEnding(), gate: b.gates[i]}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("start node %s: %w", p.Name, err), l.release())
		}
	}()
	if l.place, err = b.net.Open(p.Addr); err != nil {
		return nil, err
	}
	l.place.Hold(l.gate.wait)
	gossip, err := l.place.Gossip(gossipPort)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(dir, seedsFile))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	seeds, err := identity.ReadSeeds(file)
	if err != nil {
		return nil, err
	}
	if l.out, err = os.OpenFile(filepath.Join(dir, outputFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	c := absolute(b.run.config(i), dir)
	c.Metrics.Listen, c.Console.Listen, c.WebMaster.Listen = "", "", "" // nobody outside of the emulation could reach them
	l.node, err = node.New(c, seeds.URLs, node.Deps{Dial: l.place.DialContext, DialDNS: l.place.DialContext, Listen: l.place.Listen,
		DialPeer: l.place.DialContext, Gossip: gossip,
		Echo: slog.NewTextHandler(l.out, &slog.HandlerOptions{Level: slog.LevelWarn})})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	b.nodes.Go(func() { l.run(running) })
	return l, nil
}

func (l *portableNode) run(ctx context.Context) {
	end, err := l.node.Run(ctx)
	if end.Reason != "failed" || l.killed.Load() {
		err = nil
	}
	_ = l.release() // kill may have closed the endpoint
	l.end(err)
}

// release closes what the node has opened so far.
func (l *portableNode) release() (err error) {
	if l.place != nil {
		err = l.place.Close()
	}
	if l.out != nil {
		err = errors.Join(err, l.out.Close())
	}
	return err
}

func (l *portableNode) stop() { l.cancel() }

// kill does most of what SIGKILL would do: the node can send nothing more. But it still writes to disk what it has in memory.
func (l *portableNode) kill() {
	l.killed.Store(true)
	_ = l.place.Close()
	l.cancel()
}

func (l *portableNode) setShare(share float64) { l.gate.set(share) }

func (l *portableNode) status(context.Context) (node.Status, error) { return l.node.Status(), nil }

func (b *portable) SetBandwidth(node netip.Addr, up, down float64) error {
	b.net.SetBandwidth(node, up, down)
	return nil
}

func (b *portable) Partition(some, others []netip.Addr) error {
	if len(some) == 0 || len(others) == 0 {
		b.net.Heal()
	} else {
		b.net.Partition(some)
	}
	return nil
}

func (b *portable) dial(i int) (dialer, func(), error) {
	place, err := b.net.Open(b.run.plan.Nodes[i].Addr)
	if err != nil {
		return nil, nil, err
	}
	place.Hold(b.gates[i].wait)
	return place.DialContext, func() { _ = place.Close() }, nil
}

func (b *portable) Stats() (emulate.Stats, error) {
	s := b.net.Stats()
	t := emulate.Stats{Emulation: emulate.Portable, LateP50: s.LateP50, LateP99: s.LateP99, Packets: s.Packets, Cut: s.Cut, Unplanned: s.Overflowed,
		Cores: runtime.NumCPU(), Elapsed: time.Since(b.began)}
	t.Busy = b.busy(t.Elapsed, t.Cores)
	return t, nil
}

// busy returns the share of the machine's processors in use since the start or, where the system does not tell it, by this process alone.
func (b *portable) busy(elapsed time.Duration, cores int) float64 {
	if idle, total, err := emulate.Ticks(); err == nil && total > b.total {
		return 1 - (idle-b.idle)/(total-b.total)
	}
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return min(1, float64(used.Utime.Nano()+used.Stime.Nano())/float64(elapsed)/float64(cores))
}

func (b *portable) close() error {
	b.nodes.Wait()
	err := b.internet.close()
	b.endTiming()
	b.timing.Wait()
	return errors.Join(err, b.servers.Close(), b.net.Close())
}

// gate throttles a node that is not a process and so cannot be stopped. The network holds back what arrives until the node would run again.
// Safe for concurrent use.
type gate struct {
	mu    sync.Mutex // guards the fields below
	share float64
	duty  duty
	// The node stops between from and until in the current turn, both counted since the network began.
	from, until time.Duration
}

func newGate(share float64, seed uint64) *gate {
	return &gate{share: share, duty: newDuty(seed)}
}

func (g *gate) set(share float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.share, g.from, g.until = share, 0, 0
}

// wait returns how long the node will remain stopped at a time that is counted since the network began.
func (g *gate) wait(since time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.share >= 1 {
		return 0
	}
	if g.until == 0 {
		g.until = since // a turn begins
	}
	for g.until <= since {
		run, stopped := g.duty.turn(g.share)
		g.from = g.until + run
		g.until = g.from + stopped
	}
	if since < g.from {
		return 0
	}
	return g.until - since
}
