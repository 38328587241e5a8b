package testbed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/testbed/sites"
	"proxima/frontier/identity"
	"proxima/node"
	"proxima/node/netsim"
)

// house is the bed of one process: all nodes and servers live in it, over the portable emulation.
type house struct {
	*internet
	run   *run
	net   *netsim.Network
	place *netsim.Endpoint // of the servers
	group errgroup.Group
	exact sync.WaitGroup // what keeps the network's times, until rough
	rough context.CancelFunc
	alive []*lodger
	gates []*gate
	began time.Time
}

func newHouse(ctx context.Context, r *run, fakeClock bool, say func(string, ...any)) (_ *house, err error) {
	p := r.plan
	b := &house{run: r, alive: make([]*lodger, len(p.Nodes)), began: time.Now()}
	at := map[netip.Addr]int{}
	b.net = netsim.New(func(from, to netip.Addr) time.Duration { return ms(p.rtt(at[from], at[to]) / 2) })
	defer func() {
		if err != nil {
			err = errors.Join(err, b.net.Close())
		}
	}()
	for i, n := range p.Nodes {
		at[n.Addr] = i
		b.gates = append(b.gates, newGate(n.CPU, p.Seed+uint64(i)))
		if err := b.net.Add(n.Addr, n.Up, n.Down); err != nil {
			return nil, err
		}
		if err := b.net.Shield(n.Addr, n.NAT, false); err != nil { // datagrams pass: answers of the name server are some
			return nil, err
		}
	}
	var addrs []netip.Addr
	for k, s := range p.Servers {
		at[s.Addr] = len(p.Nodes) + k
		addrs = append(addrs, s.Addr)
		if err := b.net.Add(s.Addr, s.Up, 0); err != nil {
			return nil, err
		}
	}
	at[nameServer] = len(p.Nodes) + len(p.Servers)
	if err := b.net.Add(nameServer, 0, 0); err != nil {
		return nil, err
	}
	if b.place, err = b.net.Open(append(addrs, nameServer)...); err != nil {
		return nil, err
	}
	b.internet, err = newInternet(ctx, p, r.dir, true, sites.Deps{Listen: b.place.Listen, ListenPacket: b.place.ListenPacket}, say)
	if err != nil {
		return nil, err
	}
	timed, rough := context.WithCancel(context.WithoutCancel(ctx))
	b.rough = rough
	if !fakeClock {
		b.exact.Go(func() {
			if err := b.net.Run(timed); err != nil { // it works without
				say("timers of the kernel: %v; packets may be a millisecond late", err)
			}
		})
	}
	return b, nil
}

// lodger is a life of a node in this process.
type lodger struct {
	node   *node.Node
	place  *netsim.Endpoint
	cancel context.CancelFunc
	over   chan struct{}
	err    error // once over is closed
	killed chan struct{}
	out    *os.File
}

func (b *house) start(ctx context.Context, i int) (_ life, err error) {
	p := b.run.plan.Nodes[i]
	dir := b.run.nodeDir(i)
	fail := func(err error) (life, error) { return nil, fmt.Errorf("start node %s: %w", p.Name, err) }
	place, err := b.net.Open(p.Addr)
	if err != nil {
		return fail(err)
	}
	gossip, err := place.Gossip(gossipPort)
	if err != nil {
		return fail(errors.Join(err, place.Close()))
	}
	file, err := os.Open(filepath.Join(dir, seedsFile))
	if err != nil {
		return fail(errors.Join(err, place.Close()))
	}
	defer file.Close()
	seeds, err := identity.ReadSeeds(file)
	if err != nil {
		return fail(errors.Join(err, place.Close()))
	}
	out, err := os.OpenFile(filepath.Join(dir, outputFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fail(errors.Join(err, place.Close()))
	}
	g := b.gates[i]
	n, err := node.New(absolute(b.run.config(i), dir), seeds.URLs, node.Deps{Dial: g.dial(place.DialContext), DialDNS: place.DialContext,
		Listen: g.listen(place.Listen), DialPeer: g.dial(place.DialContext), Gossip: g.gossip(gossip),
		Echo: slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn})})
	if err != nil {
		return fail(errors.Join(err, place.Close(), out.Close()))
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &lodger{node: n, place: place, cancel: cancel, over: make(chan struct{}), killed: make(chan struct{}, 1), out: out}
	b.alive[i] = l
	b.group.Go(func() error { l.live(life); return nil })
	return l, nil
}

// live runs the node until it ends.
func (l *lodger) live(ctx context.Context) {
	defer close(l.over)
	end, err := l.node.Run(ctx)
	if end.Reason == "failed" && len(l.killed) == 0 {
		l.err = err
	}
	_ = l.place.Close() // a killed one is closed already
	l.out.Close()
}

func (l *lodger) stop() { l.cancel() }

// kill is as near to SIGKILL as one process comes: nothing leaves the node any more, but what it has in memory it still writes.
func (l *lodger) kill() {
	l.killed <- struct{}{}
	_ = l.place.Close()
	l.cancel()
}

func (l *lodger) done() <-chan struct{} { return l.over }

func (l *lodger) ended() error {
	select {
	case <-l.over:
		return l.err
	default:
		return nil
	}
}

func (l *lodger) status(context.Context) (node.Status, error) { return l.node.Status(), nil }

func (b *house) bandwidth(i int, factor float64) error {
	n := b.run.plan.Nodes[i]
	return b.net.SetBandwidth(n.Addr, n.Up*factor, n.Down*factor)
}

func (b *house) share(i int, share float64) error {
	b.gates[i].set(share)
	return nil
}

func (b *house) partition(cut func(int) bool) error {
	var some []netip.Addr
	for i, n := range b.run.plan.Nodes {
		if cut(i) {
			some = append(some, n.Addr)
		}
	}
	if len(some) == 0 {
		b.net.Heal()
		return nil
	}
	b.net.Partition(some)
	return nil
}

func (b *house) client(i int) (*http.Client, func(), error) {
	place, err := b.net.Open(b.run.plan.Nodes[i].Addr)
	if err != nil {
		return nil, nil, err
	}
	t := &http.Transport{DialContext: b.gates[i].dial(place.DialContext), DisableKeepAlives: true, DisableCompression: true}
	return &http.Client{Transport: t}, func() { _ = place.Close() }, nil
}

func (b *house) faithful() (rundir.Testbed, error) {
	s := b.net.Stats()
	t := rundir.Testbed{Emulation: emulate.Portable, DelayErrorP50Ms: inMs(s.LateP50), DelayErrorP99Ms: inMs(s.LateP99), Packets: s.Packets,
		DroppedPlanned: s.Cut, DroppedForOwn: s.Overflowed, Cores: runtime.NumCPU(), Seconds: time.Since(b.began).Seconds()}
	// Of the machine only this process is known, on any system.
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err == nil {
		t.CPUBusy = min(1, float64(used.Utime.Nano()+used.Stime.Nano())/1e9/t.Seconds/float64(t.Cores))
	}
	if s.LateP99 > time.Millisecond {
		t.Why = append(t.Why, fmt.Sprintf("packets were late by %.2f ms at the 99th percentile; 1 ms is the most", t.DelayErrorP99Ms))
	}
	if s.Overflowed > 0 {
		t.Why = append(t.Why, fmt.Sprintf("%d packets were dropped that no one wanted dropped", s.Overflowed))
	}
	t.Trusted = len(t.Why) == 0
	return t, nil
}

func (b *house) close() error {
	for _, l := range b.alive {
		if l != nil {
			l.cancel()
			<-l.over
		}
	}
	err := errors.Join(b.group.Wait(), b.internet.close())
	b.rough()
	b.exact.Wait()
	return errors.Join(err, b.place.Close(), b.net.Close())
}
