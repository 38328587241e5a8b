package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// With -nat each node has a network namespace. Some nodes (the last ones except those that join late) all have the same private address behind a
// masquerading router, as in homes: they can dial the others, but the others cannot dial them.

// natSubnet is the network of the site, natHome the address of each node behind a router.
const (
	natSubnet = "10.77.200."
	natHome   = "192.168.1.2"
)

// apart runs this program again inside namespaces, and reports whether it could.
func apart(ctx context.Context) (bool, error) {
	if os.Getuid() != 0 {
		return false, errors.New("not root")
	}
	for _, tool := range []string{"unshare", "ip", "nft", "sysctl", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false, fmt.Errorf("%s is not installed", tool)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return false, fmt.Errorf("find this program: %w", err)
	}
	inNamespaces := []string{"-n", "-m", "-p", "-f", "--mount-proc", "--kill-child"}
	probe := strings.Join(slices.Concat([]string{"set -e", "mount -t tmpfs none /run", "mkdir /run/netns"}, wire(0, true)), "\n")
	if out, err := exec.CommandContext(ctx, "unshare", append(slices.Clone(inNamespaces), "sh", "-c", probe)...).CombinedOutput(); err != nil {
		return false, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	args := slices.Concat(inNamespaces, []string{self}, os.Args[1:], []string{"-inside"})
	c := exec.CommandContext(ctx, "unshare", args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	return true, c.Run()
}

// wire returns the commands that make the network of a node: namespace n0 with 10.77.1.2, or if behind is set n0 behind a router r0.
func wire(node int, behind bool) []string {
	wan, lan := fmt.Sprintf("r%d", node), fmt.Sprintf("n%d", node)
	if !behind {
		wan = lan
	}
	at := fmt.Sprintf("10.77.%d", node+1)
	commands := []string{
		"ip netns add " + wan,
		fmt.Sprintf("ip link add v%d type veth peer name wan netns %s", node, wan),
		fmt.Sprintf("ip addr add %s.1/24 dev v%d", at, node),
		fmt.Sprintf("ip link set v%d up", node),
		fmt.Sprintf("ip -n %s addr add %s.2/24 dev wan", wan, at),
		fmt.Sprintf("ip -n %s link set wan up", wan),
		fmt.Sprintf("ip -n %s link set lo up", wan),
		fmt.Sprintf("ip -n %s route add default via %s.1", wan, at),
	}
	if !behind {
		return commands
	}
	return append(commands,
		"ip netns add "+lan,
		fmt.Sprintf("ip -n %s link add lan type veth peer name eth netns %s", wan, lan),
		fmt.Sprintf("ip -n %s addr add 192.168.1.1/24 dev lan", wan),
		fmt.Sprintf("ip -n %s link set lan up", wan),
		fmt.Sprintf("ip -n %s addr add %s/24 dev eth", lan, natHome),
		fmt.Sprintf("ip -n %s link set eth up", lan),
		fmt.Sprintf("ip -n %s link set lo up", lan),
		fmt.Sprintf("ip -n %s route add default via 192.168.1.1", lan),
		fmt.Sprintf("ip netns exec %s sysctl -qw net.ipv4.ip_forward=1", wan),
		fmt.Sprintf("ip netns exec %s nft add table ip nat", wan),
		fmt.Sprintf("ip netns exec %s nft add chain ip nat out '{ type nat hook postrouting priority 100 ; }'", wan),
		fmt.Sprintf("ip netns exec %s nft add rule ip nat out oifname wan masquerade", wan),
	)
}

// build makes the networks of all nodes and assigns the site's addresses.
func build(ctx context.Context, s settings) error {
	commands := []string{"set -e", "mount -t tmpfs none /run", "mkdir /run/netns", "ip link set lo up", "sysctl -qw net.ipv4.ip_forward=1"}
	for i := range s.addresses {
		commands = append(commands, fmt.Sprintf("ip addr add %s%d/32 dev lo", natSubnet, 11+i))
	}
	for i := range s.nodes {
		commands = append(commands, wire(i, s.behind(i))...)
	}
	if out, err := exec.CommandContext(ctx, "sh", "-c", strings.Join(commands, "\n")).CombinedOutput(); err != nil {
		return fmt.Errorf("make namespaces: %w: %s", err, out)
	}
	return nil
}

// behind reports whether a node is behind a router. The first two, through which others join, never are, nor are those that start late.
func (s settings) behind(node int) bool {
	last := s.nodes - s.faults[join]
	return s.nat > 0 && node < last && node >= last-s.nat
}

// home is the address that a node has in its namespace.
func (s settings) home(node int) string {
	if s.behind(node) {
		return natHome
	}
	return fmt.Sprintf("10.77.%d.2", node+1)
}
