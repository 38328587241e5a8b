package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/testbed/sites"
)

// serverSpace is the namespace of all servers. Each node has a namespace of its own.
const serverSpace = "servers"

func nodeSpace(name string) string { return "node-" + name }

// namespaces is the platform of network namespaces, with real processes and real TCP.
type namespaces struct {
	*internet
	*emulate.Net
	run   *run
	group *errgroup.Group
	end   context.CancelFunc
}

// newNamespaces builds the network of a run and starts its servers. Its process must be inside the namespaces (emulate.Reexec). It calls
// broken if the network or a server fails later.
func newNamespaces(ctx context.Context, r *run, emulation string, broken func(error)) (_ *namespaces, err error) {
	b := &namespaces{run: r}
	if b.Net, err = emulate.New(b.emulation(emulation)); err != nil {
		return nil, fmt.Errorf("build the network: %w", err)
	}
	// The network must outlive everything that uses it.
	below, end := context.WithCancel(context.WithoutCancel(ctx))
	b.end, b.group = end, new(errgroup.Group)
	b.group.Go(func() error {
		err := b.Run(below)
		if err != nil {
			broken(fmt.Errorf("the network failed: %w", err))
		}
		return err
	})
	if b.internet, err = newInternet(ctx, r, false, sites.Deps{
		Listen: func(network, address string) (net.Listener, error) {
			return b.Listen(below, serverSpace, network, address)
		},
		ListenPacket: func(network, address string) (net.PacketConn, error) {
			return b.ListenPacket(below, serverSpace, network, address)
		},
		Start: func(cmd *exec.Cmd) error { return b.Start(serverSpace, cmd) },
	}, broken); err != nil {
		end()
		return nil, errors.Join(err, b.group.Wait())
	}
	if err := b.writeShells(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// emulation describes the network. Its endpoints are the nodes, then the servers, then the name server.
func (b *namespaces) emulation(kind string) emulate.Config {
	p := b.run.plan
	cfg := emulate.Config{Seed: p.Scenario.Seed, Emulation: kind}
	for _, n := range p.Nodes {
		cfg.Endpoints = append(cfg.Endpoints, emulate.Endpoint{Addr: n.Addr, Namespace: nodeSpace(n.Name),
			UpBytesPerMs: n.Up, DownBytesPerMs: n.Down, NAT: n.NAT})
	}
	for _, s := range p.Servers {
		cfg.Endpoints = append(cfg.Endpoints, emulate.Endpoint{Addr: s.Addr, Namespace: serverSpace, UpBytesPerMs: s.Up})
	}
	cfg.Endpoints = append(cfg.Endpoints, emulate.Endpoint{Addr: nameServer, Namespace: serverSpace})
	m := p.Scenario.Matrix
	cfg.Path = func(from, to int) emulate.Path {
		rtt := p.rtt(from, to)
		// Jitter adds to the delay, so subtract it: the mean stays that of the matrix.
		jitter := min(m.JitterMs, rtt/4)
		return emulate.Path{OneWay: ms(rtt/2 - jitter), Jitter: ms(jitter), Loss: m.Loss}
	}
	return cfg
}

// start starts `proxima node` in the node's namespace and folder. The nodes share the processors, so each has as many threads as its share:
// with more, much of its time is spent on waking threads.
func (b *namespaces) start(_ context.Context, i int) (runningNode, error) {
	plan := b.run.plan
	n := plan.Nodes[i]
	p, err := startProcess(b.run.nodeDir(i), plan.Scenario.Seed+uint64(i), func(cmd *exec.Cmd) error {
		cmd.Env = append(cmd.Environ(), fmt.Sprint("GOMAXPROCS=", max(1, runtime.NumCPU()/len(plan.Nodes))))
		return b.Start(nodeSpace(n.Name), cmd)
	})
	if err != nil {
		return nil, fmt.Errorf("start node %s: %w", n.Name, err)
	}
	return p, nil
}

func (b *namespaces) dial(i int) (dialer, func(), error) {
	return b.Dialer(nodeSpace(b.run.plan.Nodes[i].Name)), func() {}, nil
}

func (b *namespaces) close() error {
	err := b.internet.close()
	b.end()
	_ = os.Remove(filepath.Join(b.run.dir, shellFile)) // its commands no longer work
	return errors.Join(err, b.group.Wait())
}

func (b *namespaces) writeShells() error {
	commands := map[string][]string{}
	for _, n := range b.run.plan.Nodes {
		argv, err := b.ShellCommand(nodeSpace(n.Name))
		if err != nil {
			return fmt.Errorf("find the namespace of %s: %w", n.Name, err)
		}
		commands[n.Name] = argv
	}
	text, err := json.Marshal(commands)
	if err == nil {
		err = os.WriteFile(filepath.Join(b.run.dir, shellFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", shellFile, err)
	}
	return nil
}
