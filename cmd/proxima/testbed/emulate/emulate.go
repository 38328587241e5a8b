// Package emulate owns the emulated Internet of the testbed: network namespaces of the Linux kernel, one for each node and one
// for all servers, and a router, a process of its own, that carries every packet between them with loss, bandwidth, delay and
// jitter. Processes, TCP and sockets are real; nothing leaves the namespaces. It does not know what runs in them: scenarios,
// sites, names and truth belong to the testbed above it, and so does the portable emulation for systems without namespaces.
//
// A testbed has two lives. The outer process asks Preflight what is possible and calls Reexec, which runs the program again in
// new user (unless root), network, mount and pid namespaces. Inside, New builds the network and Run keeps it. Both need Child
// to be called first thing in main. When the outer process dies, however it dies, the kernel ends everything inside.
//
// A packet meets the effects in this order: loss; the uplink of its sender, a FIFO that serialises at the configured
// bandwidth and drops at its tail; the delay of the pair and its jitter, which never reorders within a pair; the downlink of
// its receiver, a FIFO like the first. Bandwidth counts whole IP packets: a full TCP segment carries 1448 bytes of 1500.
package emulate

import (
	"fmt"
	"net/netip"
	"time"
)

// The kinds of emulation, best first.
const (
	TUN      = "tun"      // a TUN device in each namespace, read and written by the router
	Veth     = "veth"     // pairs of virtual Ethernet devices and packet sockets, where /dev/net/tun is closed
	Portable = "portable" // no namespaces: one process, emulated connections, not of this package
)

// Prefix is the network that the emulated addresses come from: reserved for benchmarks (RFC 2544), routed nowhere.
func Prefix() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, 0}), 15) }

// Readiness is what this machine allows.
type Readiness struct {
	Emulation string   // the best that is possible: TUN, Veth or Portable
	Missing   []string // what keeps the better ones from working, in plain words; empty with TUN
}

// Endpoint is one address with its bandwidth in bytes a millisecond (kB/s), up as sender, down as receiver; 0 is unlimited.
// Endpoints of the same namespace talk to each other undelayed, past the router. What an endpoint behind a NAT has not asked for does
// not reach it.
type Endpoint struct {
	Addr           netip.Addr
	Namespace      string
	UpBytesPerMs   float64
	DownBytesPerMs float64
	NAT            bool
}

// Path is one direction between two endpoints. Its delay is never below OneWay and OneWay+Jitter on average.
type Path struct {
	OneWay time.Duration
	// Jitter is the mean of the exponential delay added to OneWay. Packets of one pair within 10 ms share a draw.
	Jitter time.Duration
	// Loss is the share of packets that never arrive, 0 to 1.
	Loss float64
}

// Config of the emulated network.
type Config struct {
	Endpoints []Endpoint
	// Path gives the path between two endpoints, by index; New calls it once for each ordered pair in two namespaces.
	Path func(from, to int) Path
	// Seed of loss and jitter.
	Seed uint64
	// Emulation is TUN or Veth; empty takes TUN where it is possible, else Veth.
	Emulation string
}

// endpointsMost bounds the matrix of paths.
const endpointsMost = 1000

func (c Config) check() error {
	seen := map[netip.Addr]bool{}
	for _, e := range c.Endpoints {
		switch {
		case !e.Addr.Is4() || !Prefix().Contains(e.Addr):
			return fmt.Errorf("endpoint %v: not an address of %v", e.Addr, Prefix())
		case seen[e.Addr]:
			return fmt.Errorf("endpoint %v: given twice", e.Addr)
		case e.Namespace == "":
			return fmt.Errorf("endpoint %v: no namespace", e.Addr)
		case e.UpBytesPerMs < 0 || e.DownBytesPerMs < 0:
			return fmt.Errorf("endpoint %v: negative bandwidth", e.Addr)
		}
		seen[e.Addr] = true
	}
	switch {
	case len(c.Endpoints) > endpointsMost:
		return fmt.Errorf("%d endpoints, %d at most", len(c.Endpoints), endpointsMost)
	case len(c.Endpoints) == 0:
		return fmt.Errorf("no endpoints")
	case c.Path == nil:
		return fmt.Errorf("no paths")
	case c.Emulation != "" && c.Emulation != TUN && c.Emulation != Veth:
		return fmt.Errorf("emulation %q is neither %s nor %s", c.Emulation, TUN, Veth)
	}
	return nil
}

// Stats is what the network did since New, and how faithful it was.
type Stats struct {
	Emulation  string // TUN or Veth
	Congestion string // congestion control of the namespaces; a list with commas where they differ
	Router     string // how the router is scheduled, in words

	Packets, Bytes int64 // delivered
	Lost           int64 // dropped as planned, by Path.Loss
	Overflowed     int64 // dropped as planned, at the tail of a full emulated queue
	Cut            int64 // dropped as planned, by Partition or a NAT
	Unplanned      int64 // dropped for the testbed's own reasons: devices' queues or the router's memory were full
	Strays         int64 // to or from addresses that are no endpoint

	// How much later than planned packets left the router.
	LateP50, LateP99, LateMax time.Duration

	// Busy is the share of the machine's processors in use, 0 to 1.
	Busy float64
	// How long processes of Start waited for a core: for each of their threads and each second, the mean wait before it ran,
	// weighted by how often it ran. Waited is false where the kernel does not tell.
	WaitP50, WaitP99 time.Duration
	Waited           bool

	Cores   int
	Elapsed time.Duration
}

// Planned is how many packets were dropped as configured.
func (s Stats) Planned() int64 { return s.Lost + s.Overflowed + s.Cut }

// MaxLate is the lateness at the 99th percentile above which a run is not to be trusted.
const MaxLate = time.Millisecond

// congestion is the congestion control that the emulation sets: the simplest, with slow start as the model of downloads has it.
const congestion = "reno"

// Doubts says in words why a run with these figures is not to be trusted; none if it is.
func (s Stats) Doubts() []string {
	var doubts []string
	if s.LateP99 > MaxLate {
		doubts = append(doubts, fmt.Sprintf("packets left the router late: %.2f ms at the 99th percentile, %v allowed",
			float64(s.LateP99)/1e6, MaxLate))
	}
	if s.Unplanned > 0 {
		doubts = append(doubts, fmt.Sprintf("%d packets were dropped unplanned", s.Unplanned))
	}
	if s.Congestion != congestion {
		doubts = append(doubts, fmt.Sprintf("the congestion control is %s, not %s", s.Congestion, congestion))
	}
	return doubts
}
