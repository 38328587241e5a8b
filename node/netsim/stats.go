package netsim

import "time"

// Stats is how the network did.
type Stats struct {
	// Packets are the segments and datagrams that arrived, acknowledgements included; Bytes what they carried.
	Packets, Bytes int64
	// Cut are those lost on purpose: to a partition, or to hosts that are not there.
	Cut int64
	// Overflowed are those lost because nobody read them: the testbed's own fault.
	Overflowed int64
	// LateP50 and LateP99 are how much later than planned packets were handed over, to 10 µs; 50 ms and more are one. How long a
	// goroutine then waits for a processor is not in it.
	LateP50, LateP99 time.Duration
}

const (
	lateStep  = 10 * time.Microsecond
	lateSteps = 5000
)

type counts struct {
	packets, bytes, cut, overflowed int64
	late                            [lateSteps + 1]int64 // packets by lateness in steps
}

// arrived counts a packet. mu is held.
func (n *Network) arrived(bytes int) {
	n.counts.packets++
	n.counts.bytes += int64(bytes)
	n.counts.late[min((n.plan.real-n.plan.now)/lateStep, lateSteps)]++
}

// Stats is how the network did so far.
func (n *Network) Stats() Stats {
	n.lock()
	defer n.unlock()
	c := &n.counts
	return Stats{Packets: c.packets, Bytes: c.bytes, Cut: c.cut, Overflowed: c.overflowed,
		LateP50: c.percentile(0.5), LateP99: c.percentile(0.99)}
}

// percentile is a lateness that a share of the packets did not exceed.
func (c *counts) percentile(share float64) time.Duration {
	most, sum := int64(share*float64(c.packets)), int64(0)
	for i, k := range c.late {
		if sum += k; sum > most {
			return time.Duration(i) * lateStep
		}
	}
	return 0
}
