// Package emulate emulates an Internet with network namespaces of the Linux kernel: one for each node and one for all servers. A router,
// which is a separate process, carries every packet between them with loss, bandwidth, delay and jitter. Processes, TCP and sockets are
// real. No packet leaves the namespaces. The package does not know what runs in them: that is the task of the testbed, which also has the
// portable emulation for systems without namespaces.
//
// A testbed consists of two processes. The outer one asks Preflight what this machine allows. It then calls Reexec, which runs the program
// again in new network, mount, pid and (unless it is root) user namespaces. The inner process builds the network with New and keeps it up
// with Run. Both processes must call Child at the beginning of main. When the outer process ends for any reason, the kernel ends everything
// inside.
//
// A packet passes these stages in order: loss; the uplink of its sender, a FIFO queue with the configured bandwidth and tail drop; the delay
// and jitter of its path, which never reorder its packets; the downlink of its receiver, a queue like the first. Bandwidth counts whole IP
// packets: a full TCP segment carries 1448 bytes of 1500.
package emulate

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// The kinds of emulation, best first.
const (
	TUN      = "tun"      // a TUN device in each namespace, which the router reads and writes
	Veth     = "veth"     // pairs of virtual Ethernet devices and packet sockets, for machines without access to /dev/net/tun
	Portable = "portable" // one process with emulated connections, outside this package
)

// Prefix returns the network of the emulated addresses. It is reserved for benchmarks (RFC 2544), and no router forwards it.
func Prefix() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, 0, 0}), 15) }

// Readiness says what this machine allows.
type Readiness struct {
	Emulation string   // the best that works here: TUN, Veth or Portable
	Missing   []string // why better ones do not work; empty with TUN
}

// Err returns an error if only the portable emulation works.
func (r Readiness) Err() error {
	if r.Emulation != Portable {
		return nil
	}
	return errors.New(strings.Join(r.Missing, "; "))
}

// Endpoint is an address with its bandwidth in bytes per ms (kB/s): up as sender, down as receiver. 0 is unlimited. Packets between endpoints
// of one namespace bypass the router. An endpoint behind a NAT receives only what it has asked for.
type Endpoint struct {
	Addr           netip.Addr
	Namespace      string
	UpBytesPerMs   float64
	DownBytesPerMs float64
	NAT            bool
}

// Path is one direction between two endpoints. Its delay is at least OneWay, and OneWay+Jitter on average.
type Path struct {
	OneWay time.Duration
	// Jitter is the mean of an exponential delay that is added to OneWay. Packets of one path within 10 ms share a draw.
	Jitter time.Duration
	// Loss is the share of packets that are lost, 0 to 1.
	Loss float64
}

// Config describes the emulated network.
type Config struct {
	Endpoints []Endpoint
	// Path returns the path between two endpoints, by index. New calls it once for each ordered pair in different namespaces.
	Path func(from, to int) Path
	// Seed draws loss and jitter.
	Seed uint64
	// Emulation is TUN or Veth. If it is empty, New takes TUN if it can, and otherwise Veth.
	Emulation string
}

// EndpointsMost limits the matrix of paths.
const EndpointsMost = 1000

// Stats describes the packets since New, and how exactly the network was emulated. The router fills in what it knows.
type Stats struct {
	Emulation  string
	Congestion string // congestion control of the namespaces; a comma-separated list if they differ

	Packets    int64 // delivered
	Lost       int64 // dropped as planned, by Path.Loss
	Overflowed int64 // dropped as planned, at the tail of a full emulated queue
	Cut        int64 // dropped as planned, by Partition or a NAT
	Unplanned  int64 // dropped because the queue of a device or the memory of the router was full
	Strays     int64 // to or from addresses that are not endpoints

	// How much later than planned packets left the router.
	LateP50, LateP99 time.Duration

	// Busy is the share of the machine's processors in use, 0 to 1.
	Busy float64
	// How long the processes of Start waited for a core. The samples are the mean waits of each thread in each second, weighted by how often
	// it ran. It is 0 if the kernel does not report waits.
	WaitP99 time.Duration

	Cores   int
	Elapsed time.Duration
}

// Planned returns the number of packets that were dropped as configured.
func (s Stats) Planned() int64 { return s.Lost + s.Overflowed + s.Cut }

// MaxLate is the limit of the lateness at the 99th percentile. A run above it cannot be trusted.
const MaxLate = time.Millisecond

// congestion is the congestion control that the emulation sets. Its slow start is that of the model of downloads.
const congestion = "reno"

// Doubts returns the reasons why a run with these figures cannot be trusted.
func (s Stats) Doubts() []string {
	var doubts []string
	if s.LateP99 > MaxLate {
		doubts = append(doubts, fmt.Sprintf("packets were late by %.2f ms at the 99th percentile; the limit is %v", float64(s.LateP99)/1e6, MaxLate))
	}
	if s.Unplanned > 0 {
		doubts = append(doubts, fmt.Sprintf("%d packets were dropped unplanned", s.Unplanned))
	}
	if s.Emulation != Portable && s.Congestion != congestion {
		doubts = append(doubts, fmt.Sprintf("the congestion control is %s, not %s", s.Congestion, congestion))
	}
	return doubts
}
