package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"proxima/cmd/proxima/testbed/emulate"
	"proxima/scripts/lab"
)

// To isolate nodes or to put them behind NATs, each node gets a network namespace. Nodes behind NATs (the last ones except those that join
// late) all have the same private address behind a masquerading router, as in homes: they can dial the others, but the others cannot dial them.

// natSubnet is the network of the site in that case, natHome the address of each node behind a router.
const (
	natSubnet = "10.77.200."
	natHome   = "192.168.1.2"
)

// ready returns an error if this machine cannot make the namespaces.
func ready(ctx context.Context) error {
	if err := lab.Installed("ip", "nft", "sysctl", "mount"); err != nil {
		return err
	}
	return emulate.Preflight(ctx).Err()
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

// build makes the networks of all nodes and assigns the site's addresses. No packet passes between the nodes of the set "isolate" and others, nor between
// a pair in "path", and no stream between the nodes of "mute" and others. The site is not among the others, since its packets are not forwarded.
func build(ctx context.Context, s settings) error {
	commands := []string{"set -e", "mount -t tmpfs none /run", "mkdir /run/netns", "ip link set lo up", "sysctl -qw net.ipv4.ip_forward=1",
		"nft add table ip nodes", "nft add chain ip nodes between '{ type filter hook forward priority 0 ; }'",
		"nft add set ip nodes isolate '{ type ipv4_addr ; }'", "nft add set ip nodes mute '{ type ipv4_addr ; }'", "nft add set ip nodes path '{ type ipv4_addr . ipv4_addr ; }'"}
	for _, rule := range []string{"ip saddr @isolate", "ip daddr @isolate", "ip protocol tcp ip saddr @mute", "ip protocol tcp ip daddr @mute", "ip saddr . ip daddr @path"} {
		commands = append(commands, "nft add rule ip nodes between "+rule+" drop")
	}
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

// cut isolates a node from the other nodes, or from the one with the next number, or its streams only; or it ends that. As on a broken network,
// nothing is refused: streams stall and packets are lost.
func (s settings) cut(ctx context.Context, node int, what kind, on bool) error {
	verb, members := "delete", outside(node)
	if what == path {
		members = fmt.Sprintf("%s . %s, %[2]s . %[1]s", members, outside((node+1)%s.nodes))
	}
	if on {
		verb = "add"
	}
	if out, err := exec.CommandContext(ctx, "nft", verb, "element", "ip", "nodes", string(what), "{ "+members+" }").CombinedOutput(); err != nil {
		return fmt.Errorf("%s of node %d: %w: %s", what, node, err, out)
	}
	return nil
}

// apart reports whether the nodes need namespaces.
func (s settings) apart() bool {
	return s.nat > 0 || s.faults[isolate]+s.faults[path]+s.faults[mute] > 0
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
	return outside(node)
}

// outside is the address from which a node's packets come.
func outside(node int) string { return fmt.Sprintf("10.77.%d.2", node+1) }
