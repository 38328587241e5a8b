package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"proxima/cmd/proxima/world"
	"proxima/node/runlog"
)

type crew struct {
	nodes                  []*Node
	proxima, secret, seeds string
}

// Node is a node of an overlay that runs as processes on this machine.
type Node struct {
	Index, Life    int // a life is one process; the User-Agent tells node and life
	Dir            string
	Listen, Gossip string
	Hidden         bool     // whether no other node can dial it
	Now            *Process // the latest life; nil before the first
	crew           *crew
}

// Agent returns the version of the User-Agent that tells sites the node and its life.
func (n *Node) Agent() string { return fmt.Sprintf("Proxima/%d.%d", n.Index, n.Life) }

// Data returns the directory of its data.
func (n *Node) Data() string { return filepath.Join(n.Dir, "data") }

// NewCrew prepares the nodes of an overlay in a folder, which is made if it is absent. There are two addresses for each: for peers and for
// gossip. A single node needs none: "".
func NewCrew(dir, proxima string, seeds []string, addrs ...string) ([]*Node, error) {
	c := &crew{proxima: proxima, secret: filepath.Join(dir, "secret"), seeds: filepath.Join(dir, "seeds.txt")}
	for pair := range slices.Chunk(addrs, 2) {
		n := &Node{Index: len(c.nodes), Listen: pair[0], Gossip: pair[1], crew: c}
		n.Dir = filepath.Join(dir, fmt.Sprintf("n%d", n.Index))
		if err := os.MkdirAll(n.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		c.nodes = append(c.nodes, n)
	}
	if err := os.WriteFile(c.seeds, []byte(strings.Join(seeds, "\n")+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("write seeds: %w", err)
	}
	if out, err := exec.Command(proxima, "keygen", c.secret).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make secret: %w\n%s", err, out)
	}
	return c.nodes, nil
}

// Start starts a life of the node with a configuration and further flags. The words of before stand before the command. It ends with the
// context. A single node has no peers.
func (n *Node) Start(ctx context.Context, config string, before []string, flags ...string) error {
	c := n.crew
	file := filepath.Join(n.Dir, fmt.Sprintf("life%d.toml", n.Life))
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	args := append(slices.Clone(before), c.proxima, "node", "-config", file, "-data", n.Data(), "-seeds", c.seeds)
	if len(c.nodes) > 1 {
		var others []string
		for _, o := range c.nodes[:min(3, len(c.nodes))] {
			if o != n && !o.Hidden {
				others = append(others, o.Gossip)
			}
		}
		args = append(args, "-secret", c.secret, "-listen", n.Listen, "-gossip", n.Gossip, "-nodes", fmt.Sprint(len(c.nodes)),
			"-join", strings.Join(others, ","))
	}
	args = append(args, flags...)
	now, err := Start(exec.CommandContext(ctx, args[0], args[1:]...))
	if err != nil {
		return fmt.Errorf("node %d: %w", n.Index, err)
	}
	n.Now = now
	return nil
}

// Lines reads each line of a node's log into e, oldest first, and calls visit. It returns how many lines could not be read.
func Lines(dir, log string, e runlog.Entry, visit func()) (torn int, err error) {
	files, err := runlog.Files(dir, log)
	if err != nil {
		return 0, err
	}
	for _, path := range files {
		if err := world.Open(path, func(in io.Reader) (err error) {
			r := runlog.NewReader(in)
			for err = r.Next(e); err == nil; err = r.Next(e) {
				visit()
			}
			torn += r.Skipped()
			return err
		}); !errors.Is(err, io.EOF) {
			return torn, fmt.Errorf("read log: %w", err)
		}
	}
	return torn, nil
}
