package testbed

import (
	"context"
	"net"
	"net/netip"
	"time"

	"proxima/cmd/proxima/testbed/emulate"
	"proxima/cmd/proxima/testbed/sites"
	"proxima/node"
)

// platform provides the network, the web servers and the nodes of a run. Nodes and servers are identified by their indices in the plan.
// Only one goroutine calls its methods.
type platform interface {
	// start starts a node.
	start(ctx context.Context, i int) (runningNode, error)
	// SetBandwidth sets the bandwidth of a node, in bytes per ms.
	SetBandwidth(node netip.Addr, up, down float64) error
	// Slow adds to the planned think time of a server.
	Slow(server netip.Addr, add time.Duration) error
	// Partition cuts some nodes off from the others. If there are none of either, every node can reach every other again. The portable
	// platform also cuts them off from the servers.
	Partition(some, others []netip.Addr) error
	// dial returns a dialer from the address of a node that is down. It resolves no names. leave releases the address.
	dial(i int) (dial dialer, leave func(), err error)
	// frontPages returns the front pages of all hosts.
	frontPages() []string
	// urls returns some pages of a server.
	urls(server int) []string
	// Visits returns the requests that each server has logged.
	Visits() map[netip.Addr][]sites.Visit
	// Stats reports how exactly the network was emulated.
	Stats() (emulate.Stats, error)
	// close stops everything except the nodes.
	close() error
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// runningNode is a node from its start to its end. Its methods are safe for concurrent use.
type runningNode interface {
	// stop tells the node to end. kill ends it at once.
	stop()
	kill()
	// setShare sets the share of the time in which the node may run; 1 is all of it.
	setShare(share float64)
	// done is closed when the node has ended. After that, ended returns its error: nil if it was told to end or had finished.
	done() <-chan struct{}
	ended() error
	status(ctx context.Context) (node.Status, error)
}

// ending reports the end of something that runs.
type ending struct {
	over chan struct{}
	err  error // set before over is closed
}

func newEnding() ending { return ending{over: make(chan struct{})} }

func (e *ending) end(err error) {
	e.err = err
	close(e.over)
}

func (e *ending) done() <-chan struct{} { return e.over }

func (e *ending) ended() error {
	<-e.over
	return e.err
}
