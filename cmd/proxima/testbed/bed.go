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

// bed carries a run: the network, the servers on it, and the nodes' processes. Nodes and servers are named by their indices in
// the plan. Methods are called by one goroutine.
type bed interface {
	// start begins a life of a node.
	start(ctx context.Context, i int) (life, error)
	// bandwidth is Factor times what is planned from now on.
	bandwidth(i int, factor float64) error
	// share is how much of the time a node may run from now on, 1 for all.
	share(i int, share float64) error
	// slow lets a server think that much longer than planned.
	slow(server int, add time.Duration) error
	// partition cuts the nodes for which it is true off from the other nodes; no node or all of them heals. The portable
	// bed cuts them off from the servers, too.
	partition(cut func(i int) bool) error
	// client makes requests from the place of a node that is down, without names: it dials the address of the URL. leave gives the
	// place back.
	client(i int) (c *http.Client, leave func(), err error)
	// fronts are the front pages of all hosts.
	fronts() []string
	// pages is how many there are on all servers, 0 where that is not known; urls are some pages of a server.
	pages() int
	urls(server int) []string
	// visits are what the servers that make pages were asked.
	visits() map[netip.Addr][]sites.Visit
	// faithful says how well the network did.
	faithful() (rundir.Testbed, error)
	// close ends everything. Nothing of the bed is left then.
	close() error
}

// life is one life of a node. Its methods are safe for concurrent use.
type life interface {
	// stop asks it to end in order, kill ends it at once.
	stop()
	kill()
	// done is closed when it has ended; ended then says how: nil in order, by itself or because it was told to.
	done() <-chan struct{}
	ended() error
	status(ctx context.Context) (node.Status, error)
}
