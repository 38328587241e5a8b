package node

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"proxima/node/sink"
)

// tableReceipts is the table of the sink's receipts.
const tableReceipts = 's'

// stopPatience is how long a node that is stopped waits for its sink. The rest is delivered after the next start.
const stopPatience = 5 * time.Second

// sinkRoom is how much room the sink's destination had when it last answered. A network's share may hang for hours, and the sink, which
// says so, is the only one that waits for it.
type sinkRoom struct {
	asking atomic.Bool
	room   atomic.Pointer[uint64] // in bytes; nil if it is not known
}

// destinationPatience is how long the room at the destination is waited for.
const destinationPatience = 100 * time.Millisecond

// ask asks for the room, unless an earlier question is still unanswered, and returns the last answer.
func (d *sinkRoom) ask(room func() (uint64, error)) uint64 {
	if d.asking.CompareAndSwap(false, true) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer d.asking.Store(false)
			if free, err := room(); err == nil {
				d.room.Store(&free)
			} else {
				d.room.Store(nil)
			}
		}()
		timer := time.NewTimer(destinationPatience)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
	}
	if free := d.room.Load(); free != nil {
		return *free
	}
	return math.MaxUint64
}

func (n *Node) openSink(transport http.RoundTripper) (err error) {
	dir := filepath.Join(n.cfg.Node.Data, "sink")
	if n.cfg.Sink.URL == "" {
		if left, err := os.ReadDir(dir); err == nil && len(left) > 0 {
			n.early = append(n.early, fmt.Errorf("%d files wait in %s to be delivered: start the node with -sink, as before", len(left), dir))
		}
		return nil
	}
	n.sink, err = sink.Open(dir, n.cfg.Sink, sink.Deps{
		Receipts: n.frontier.Shelf(tableReceipts), Sync: n.frontier.Sync, Hold: func(why string) { n.frontier.Hold("sink", why) }, Log: n.runlog.Events(), Warn: n.warn,
		Node: n.id.Node, Boot: n.id.Boot, Run: n.cfg.Node.Run, Version: Version(), Operator: n.cfg.Fetch.From,
		Transport: transport,
	})
	return err
}

// flush makes the sink deliver what it has. A node that is stopped waits only shortly; one whose crawl has ended waits longer.
func (n *Node) flush(ctx context.Context) {
	if n.sink == nil {
		return
	}
	patience := n.cfg.Sink.Patience
	if ctx.Err() != nil {
		ctx, patience = context.WithoutCancel(ctx), min(patience, stopPatience)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if left := n.sink.Flush(ctx); left > 0 {
		n.warn(fmt.Errorf("%d packages were not delivered: they are kept, and delivered when the node is started again", left))
	}
}

func (n *Node) sinkStatus() *sink.Status {
	if n.sink == nil {
		return nil
	}
	s := n.sink.Status()
	return &s
}
