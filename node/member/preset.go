package member

import (
	"time"

	"github.com/hashicorp/memberlist"
)

// preset returns memberlist's timing. Every preset probes once a second, so that a node measures at least one round
// trip a second. They differ in how long they wait for answers, and how long suspects may take to object.
//
// A dead node is suspected after a second or two, and declared dead SuspicionMult·max(1, log10 n) seconds later if
// enough others confirm it. With 30 nodes, all knew of a death after about 6 s (lan), 5 to 9 s (testbed) and 14 s
// (wan): well before its hosts are assigned anew.
//
// On an overloaded machine (40 processes on two cores) a process may wait for seconds, and some live nodes are declared
// dead. Longer times would delay everything for the really dead, so the error is made cheap instead: a vote lasts for
// majority_window, and the declared dead are told, object, and have their vote back at once, 3 to 11 s after the
// process runs again. A process that is late itself suspects others later (AwarenessMaxMultiplier), and a suspicion
// that nobody confirms lasts six times as long.
func preset(name string) *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.ProbeInterval = time.Second
	c.AwarenessMaxMultiplier = 4
	switch name {
	case PresetLAN:
	case PresetTestbed:
		c.ProbeTimeout = 700 * time.Millisecond
		c.SuspicionMult = 6
		c.PushPullInterval = 20 * time.Second
	default:
		// Indirect probes and the one over TCP get the rest of the interval. Slower nodes are suspected now and then,
		// and object in time.
		c.ProbeTimeout = 800 * time.Millisecond
		c.TCPTimeout = 20 * time.Second
		c.SuspicionMult = 12
		c.GossipInterval = 500 * time.Millisecond
		c.GossipNodes = 4
		c.GossipToTheDeadTime = time.Minute
	}
	// Compressed messages would be decompressed before they are checked, and ours are small.
	c.EnableCompression = false
	// A dead node may come back at once under another address.
	c.DeadNodeReclaimTime = time.Nanosecond
	return c
}
