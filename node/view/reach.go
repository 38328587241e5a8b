package view

// Reach is how a node can be reached by others.
type Reach uint8

const (
	// Direct: its ports can be dialled, and packets arrive.
	Direct Reach = iota
	// Streams: its port for peers can be dialled, but no packets arrive, as where UDP is blocked.
	Streams
	// Outbound: it can dial others and cannot be dialled, as behind a NAT.
	Outbound
)

func (r Reach) String() string {
	if r > Outbound {
		return "unknown"
	}
	return [...]string{"direct", "streams", "outbound"}[r]
}

// MaxRelays is how many relays a node has at most.
const MaxRelays = 3

// Way is how a node is reached.
type Way struct {
	Reach Reach
	// Relays are those that a node without a way in keeps connections to, sorted by id; at most MaxRelays.
	Relays []string
}
