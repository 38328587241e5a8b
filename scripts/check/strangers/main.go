// Command strangers floods both ports of a node with connections that never prove the secret, from fifty addresses. It checks
// that the peers of the node do not suffer: every call on a new connection must succeed, a new member must be able to join, and
// the node's memory must not grow. Everything runs on loopback, the flood in a separate process. Exit codes: 0 all checks
// passed, 1 some failed, 2 wrong usage. It needs Linux. Run it from the root of the repository:
//
//	go run ./scripts/check/strangers               10,000 connects a second for 30 s
//	go run ./scripts/check/strangers -rate 500     as many as a slow machine can do
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/ncoord/quantile"
	"proxima/node/member"
	"proxima/node/peer"
	"proxima/node/wire"
	"proxima/scripts/lab"
)

const (
	// mostMiB is how much the node's memory may grow during the flood. It allows for two lobbies of 8 and 5 MiB, twice that because of
	// garbage, and the buffers of the connections' goroutines.
	mostMiB = 64
	// mostTime is how long a call may take, including its handshake.
	mostTime = 5 * time.Second
)

func main() {
	rate := flag.Int("rate", 10_000, "connects a `second`")
	last := flag.Duration("for", 30*time.Second, "how long")
	flood := flag.String("flood", "", "for the process that floods: the `addresses`")
	flag.Parse()
	lab.Refuse(*rate < 1)
	lab.Main("strangers", 0, func(ctx context.Context) (bool, error) {
		if *flood != "" {
			return true, floods(strings.Split(*flood, ","), *rate, *last)
		}
		return check(ctx, *rate, *last)
	})
}

// check runs a node and its peers, and the flood against it.
func check(ctx context.Context, rate int, last time.Duration) (ok bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	g, ctx := errgroup.WithContext(ctx)
	defer func() { stop(); err = errors.Join(err, g.Wait()) }()
	secret := peer.NewSecret([32]byte{1, 2, 3})
	join := func(id int, known ...string) (*member.Members, error) {
		cfg := member.Default()
		cfg.Bind, cfg.Preset, cfg.Join, cfg.LeaveTimeout = "127.0.0.1:0", member.PresetLAN, append([]string{}, known...), time.Second
		m, err := member.New(cfg, member.Deps{ID: fmt.Sprintf("%032x", id), Boot: 1, PeerAddr: "127.0.0.1:1",
			Secrets: secret.GossipKeys()})
		if err == nil {
			g.Go(func() error { return m.Run(ctx) })
		}
		return m, err
	}
	node, err := join(1)
	if err != nil {
		return false, err
	}
	if !lab.Within(ctx, 10*time.Second, func() bool { return node.Gossip() != "" }) {
		return false, errors.New("the node does not listen")
	}
	gossip := node.Gossip()
	if _, err := join(2, gossip); err != nil {
		return false, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return false, fmt.Errorf("listen for peers: %w", err)
	}
	idle := func(context.Context, string, *wire.IdleRequest) (*wire.IdleResponse, error) {
		return &wire.IdleResponse{}, nil
	}
	server, err := peer.NewServer(peer.Default(), peer.ServerDeps{ID: "node", Run: "check", Secret: secret, Listener: listener,
		Handler: &peer.Calls{Idle: idle}, Known: node.Knows})
	if err != nil {
		return false, err
	}
	g.Go(func() error { return server.Run(ctx) })
	client, err := peer.NewClient(peer.Default(), peer.ClientDeps{ID: "peer", Boot: 1, Run: "check", Secret: secret,
		Addr: func(string) (string, bool) { return listener.Addr().String(), true }})
	if err != nil {
		return false, err
	}
	defer client.Close()
	if !lab.Within(ctx, 20*time.Second, func() bool { return len(node.View().Alive) == 2 }) {
		return false, errors.New("the two nodes do not find each other")
	}
	before := heap()

	self, err := os.Executable()
	if err != nil {
		return false, fmt.Errorf("find own program: %w", err)
	}
	strangers := exec.CommandContext(ctx, self, "-flood", gossip+","+listener.Addr().String(), "-rate", fmt.Sprint(rate), "-for", last.String())
	strangers.Stdout, strangers.Stderr = os.Stdout, os.Stderr
	if err := strangers.Start(); err != nil {
		return false, fmt.Errorf("start the flood: %w", err)
	}
	defer func() { err = errors.Join(err, strangers.Wait()) }()
	time.Sleep(last / 10)
	var took []time.Duration
	var faults []string
	most := uint64(0)
	third, err := join(3, gossip)
	if err != nil {
		return false, err
	}
	joined := time.Duration(0)
	for began := time.Now(); time.Since(began) < last*8/10 && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		client.Forget("node") // so that it connects again
		begin := time.Now()
		if _, err := client.Idle(ctx, "node", &wire.IdleRequest{}); err != nil {
			faults = append(faults, err.Error())
		}
		took = append(took, time.Since(begin))
		most = max(most, heap())
		if joined == 0 && len(third.View().Alive) == 3 {
			joined = time.Since(began)
		}
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	slices.Sort(took)
	members, slowest := len(node.View().Alive), took[len(took)-1]
	return lab.Show(os.Stdout, []lab.Verdict{
		lab.None(fmt.Sprintf("failed of %d calls on new connections", len(took)), faults),
		{Name: "slowest call", Found: fmt.Sprintf("%v; median %v", slowest, quantile.Of(took, 0.5)), Bound: fmt.Sprint("<= ", mostTime), OK: slowest <= mostTime},
		{Name: "a new member joins", Found: fmt.Sprintf("after %v; %d members", joined.Round(time.Millisecond), members), Bound: "3 members",
			OK: joined > 0 && members == 3},
		{Name: "memory of the node and its peers", Found: fmt.Sprintf("%d MiB before, %d MiB at most", before>>20, most>>20),
			Bound: fmt.Sprintf("<= %d MiB more", mostMiB), OK: most <= before+mostMiB<<20},
	}), nil
}

// heap returns the memory in use, including garbage.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

const (
	addresses = 50
	workers   = 16
	// held is the number of connections that each worker keeps open.
	held = 300
)

// floods connects to the addresses in turn, from fifty addresses. A third of the connections sends nothing, a third sends random bytes,
// and a third announces a gossip message and sends its beginning.
func floods(to []string, rate int, last time.Duration) error {
	var made, failed atomic.Int64
	began := time.Now()
	var g errgroup.Group
	for w := range workers {
		g.Go(func() error {
			noise := make([]byte, 2<<10)
			if _, err := rand.Read(noise); err != nil {
				return err
			}
			announced := append([]byte{10, 0, 15, 0, 0}, noise...) // 960 KiB
			var open []net.Conn
			defer func() { shut(open) }()
			pause := time.Duration(workers) * time.Second / time.Duration(rate)
			for i := w; time.Since(began) < last; i += workers {
				if ahead := pause*time.Duration(i/workers) - time.Since(began); ahead > 0 {
					time.Sleep(ahead)
				}
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%addresses))}, Timeout: time.Second}
				c, err := d.Dial("tcp", to[i/addresses%len(to)])
				if err != nil {
					failed.Add(1)
					continue
				}
				made.Add(1)
				switch i / workers % 3 {
				case 1:
					_, _ = c.Write(noise)
				case 2:
					_, _ = c.Write(announced)
				}
				if open = append(open, c); len(open) > held {
					shut(open[:1])
					open = open[1:]
				}
			}
			return nil
		})
	}
	err := g.Wait()
	fmt.Printf("strangers: %.0f connects a second from %d addresses, %d failed\n", float64(made.Load())/time.Since(began).Seconds(),
		addresses, failed.Load())
	return err
}

// shut closes connections immediately, so that ports do not run out.
func shut(conns []net.Conn) {
	for _, c := range conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
}
