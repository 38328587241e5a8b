package netsim

import (
	"time"

	"proxima/ncoord/quantile"
)

// Stats is how the network did.
type Stats struct {
	// Packets counts the segments and datagrams that arrived, acknowledgements included; Bytes is their content.
	Packets, Bytes int64
	// Cut counts packets lost on purpose: in a partition, or to hosts that are not there.
	Cut int64
	// Overflowed counts packets lost because nobody read them, which is the testbed's own fault.
	Overflowed int64
	// LateP50 and LateP99 are how much later than planned packets were handed over, to 10 µs, at most half a second. The time
	// that a goroutine then waits for a processor is not included.
	LateP50, LateP99 time.Duration
}

type counts struct {
	Stats // without the percentiles
	late  quantile.Histogram
}

// arrived counts a packet. It needs mu held.
func (n *Network) arrived(bytes int) {
	n.counts.Packets++
	n.counts.Bytes += int64(bytes)
	n.counts.late.Add(n.plan.real-n.plan.now, 1)
}

// Stats returns how the network performed so far.
func (n *Network) Stats() Stats {
	n.lock()
	defer n.unlock()
	s := n.counts.Stats
	s.LateP50, s.LateP99 = n.counts.late.Of(0.5), n.counts.late.Of(0.99)
	return s
}
