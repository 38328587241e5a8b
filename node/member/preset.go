package member

import (
	"time"

	"github.com/hashicorp/memberlist"
)

// preset is memberlist's timing. Every preset probes once a second, so that a node measures at least one round trip a
// second; what differs is how long it waits for answers, and how long the suspected may take to object.
//
// A dead node is suspected after a second or two, and declared dead SuspicionMult·max(1, log10 n) seconds later if enough
// others confirm it. With 30 nodes all knew of a death after about 6 s (lan), 5 to 9 s (testbed) and 14 s (wan): well
// before its hosts are assigned anew.
//
// A machine at its limit (40 processes on two cores) lets a process wait for seconds, and some are declared dead that live.
// Longer times would make all wait for those that are dead, so what is made cheap is the error: a vote lasts for
// majority_window, the dead are told that they are and object, and the vote counts again at once, 3 to 11 s after the
// process runs again. A process that is late itself suspects others later (AwarenessMaxMultiplier), and a suspicion that
// no others confirm lasts six times as long.
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
		// Indirect probes and the one over TCP have what is left of the interval; those slower than that are suspected
		// now and then, and object in time.
		c.ProbeTimeout = 800 * time.Millisecond
		c.TCPTimeout = 20 * time.Second
		c.SuspicionMult = 12
		c.GossipInterval = 500 * time.Millisecond
		c.GossipNodes = 4
		c.GossipToTheDeadTime = time.Minute
	}
	// Compressed messages are decompressed before they are checked, and ours are small.
	c.EnableCompression = false
	// A node that died may come back under another address at once.
	c.DeadNodeReclaimTime = time.Nanosecond
	return c
}
