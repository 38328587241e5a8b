package testbed

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/cmd/proxima/testbed/sites"
	"proxima/node"
)

// bed carries a run: it has the network, the servers and the places of the nodes. Nodes and servers are named by their indices in the
// plan. Only one goroutine calls its methods.
type bed interface {
	// start begins a life of a node.
	start(ctx context.Context, i int) (life, error)
	// bandwidth multiplies the planned bandwidth of a node by factor.
	bandwidth(i int, factor float64) error
	// slow adds to the planned think time of a server.
	slow(server int, add time.Duration) error
	// partition cuts the nodes for which cut is true off from the other nodes; it heals if cut is true for none or for all. The
	// portable bed also cuts them off from the servers.
	partition(cut func(i int) bool) error
	// client makes requests from the place of a node that is down. It dials the address in the URL and resolves no names. leave frees
	// the place.
	client(i int) (c *http.Client, leave func(), err error)
	// fronts returns the front pages of all hosts.
	fronts() []string
	// pages returns the number of pages on all servers, 0 if unknown. urls returns some pages of a server.
	pages() int
	urls(server int) []string
	// visits returns the requests that the servers logged.
	visits() map[netip.Addr][]sites.Visit
	// faithful reports how well the network did.
	faithful() (rundir.Testbed, error)
	// close ends everything that start did not begin.
	close() error
}

// life is one life of a node. Its methods are safe for concurrent use.
type life interface {
	// stop asks the node to end, kill ends it at once.
	stop()
	kill()
	// setShare sets the share of the time in which the node may run; 1 is all of it.
	setShare(share float64)
	// done is closed when the node has ended. Then ended returns nil if it was told to end or ended in order by itself.
	done() <-chan struct{}
	ended() error
	status(ctx context.Context) (node.Status, error)
}

// ending is the part of a life that reports its end.
type ending struct {
	over chan struct{}
	err  error // valid once over is closed
}

func newEnding() ending { return ending{over: make(chan struct{})} }

func (e *ending) end(err error) {
	e.err = err
	close(e.over)
}

func (e *ending) done() <-chan struct{} { return e.over }

func (e *ending) ended() error {
	select {
	case <-e.over:
		return e.err
	default:
		return nil
	}
}
