package view

// Reach is how other nodes can contact a node.
type Reach uint8

const (
	// Direct means that its port can be dialled, and packets arrive.
	Direct Reach = iota
	// Streams means that its port can be dialled, but no packets arrive: UDP may be blocked.
	Streams
	// Outbound means that it can dial others but cannot be dialled: it may be behind a NAT.
	Outbound
)

func (r Reach) String() string {
	if r > Outbound {
		return "unknown"
	}
	return [...]string{"direct", "streams", "outbound"}[r]
}

// ParseReach returns the reach with a name, and whether there is one.
func ParseReach(name string) (Reach, bool) {
	for r := Direct; r <= Outbound; r++ {
		if r.String() == name {
			return r, true
		}
	}
	return 0, false
}

// MaxRelays is how many relays a node has at most.
const MaxRelays = 3

// Way is how a node is reached.
type Way struct {
	Reach Reach
	// Relays are the nodes to which an Outbound node keeps connections, by id. There are at most MaxRelays.
	Relays []string
}
