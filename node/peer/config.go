package peer

import (
	"fmt"
	"net/netip"
	"time"

	"proxima/node/strict"
	"proxima/node/view"
)

// Config is how a node speaks with its peers.
type Config struct {
	// Listen is the host:port of the peer protocol. Without peer.secret only loopback is allowed.
	Listen string `toml:"listen"`
	// Advertise is the host:port that peers dial. Empty: that of peer.listen, which must then be one address.
	Advertise string `toml:"advertise"`
	// Secret is the file of the cluster secret, made by proxima keygen and the same on every node. Empty: the node stays
	// alone.
	Secret string `toml:"secret"`
	// Reach says how peers reach this node: "direct" (they dial it), "outbound" (it dials them, as behind a NAT, and some of
	// them forward to it), "streams" (they dial it, but UDP is blocked), or "auto" (the node finds out with the help of some
	// peers).
	Reach string `toml:"reach"`

	// No file sets the rest: only tests do. member.faster divides the times of links.

	// MessageBytes is the largest message, decompressed, that is sent or read. It bounds memory: up to calls times
	// three times this. At least 2 MiB: a host travels with its robots.txt, two of 500 KiB at most.
	MessageBytes int `toml:"-"`
	// Calls is the number of calls of peers that are carried out at once; others wait.
	Calls int `toml:"-"`
	// CallsPerPeer is the share of one peer in calls.
	CallsPerPeer int `toml:"-"`
	// Connections is the number of connections that peers may hold here; more are closed at once.
	Connections int `toml:"-"`

	// OutboxLinks is the number of links for one peer of whose places a node has a list in memory. Further ones wait on
	// disk only, some 100 bytes each.
	OutboxLinks int `toml:"-"`
	// OutboxWait is how long a link may wait for company in a message. Longer makes fewer, better compressed messages.
	OutboxWait time.Duration `toml:"-"`
	// CopyAfter is how long a link waits for its answer before it is copied to another node. Shorter: pages count as done
	// at their replicas sooner when a peer is slow, and more links are sent twice.
	CopyAfter time.Duration `toml:"-"`
	// OutboxMessageLinks bounds the links in one message. More: fewer messages, and a longer wait where one is lost.
	OutboxMessageLinks int `toml:"-"`
	// OutboxMessageBytes bounds the size of one message of links, before compression.
	OutboxMessageBytes int `toml:"-"`
	// OutboxBackoff is the longest pause between two tries to deliver.
	OutboxBackoff time.Duration `toml:"-"`
}

const (
	// callTime is the longest that one call may take, tries and pauses included. Longer suits slow lines and large
	// messages, shorter notices dead peers sooner.
	callTime = 10 * time.Second
	// tries is how often a call is tried within that time when the connection fails or the peer is not available.
	tries = 3
	// firstPause is the longest pause between two of these tries, which then doubles.
	firstPause = 150 * time.Millisecond
	// dialTime is the longest that a connection may take to stand, TLS included.
	dialTime = 5 * time.Second
	// keepAlive is how long a connection is silent before it is tested; one that does not answer within half of it is
	// given up.
	keepAlive = 10 * time.Second
	// idleTime is how long an unused connection is kept. A new one costs two round trips and a handshake.
	idleTime = 5 * time.Minute
)

// Default listens on loopback and has no secret.
func Default() Config {
	return Config{
		Listen:             "127.0.0.1:7947",
		Reach:              ReachAuto,
		MessageBytes:       8 << 20,
		Calls:              256,
		CallsPerPeer:       32,
		Connections:        1024,
		OutboxLinks:        100_000,
		OutboxWait:         time.Second,
		CopyAfter:          2 * time.Second,
		OutboxMessageLinks: 1000,
		OutboxMessageBytes: 256 << 10,
		OutboxBackoff:      30 * time.Second,
	}
}

// ReachAuto is the value of Config.Reach that finds it out.
const ReachAuto = "auto"

// Validate reports the first value that cannot be.
func (c Config) Validate() error {
	host, _, err := strict.HostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if _, forced := view.ParseReach(c.Reach); !forced && c.Reach != ReachAuto {
		return fmt.Errorf("reach: %q is none of %q, %q, %q, %q", c.Reach, ReachAuto, view.Direct, view.Streams, view.Outbound)
	}
	a, _ := netip.ParseAddr(host)
	if c.Secret != "" && (host == "" || a.IsUnspecified()) && c.Advertise == "" {
		return fmt.Errorf("advertise: missing: peers cannot dial %q", c.Listen)
	}
	if c.Advertise != "" {
		host, port, err := strict.HostPort(c.Advertise)
		a, _ := netip.ParseAddr(host)
		switch {
		case err != nil:
			return fmt.Errorf("advertise: %w", err)
		case host == "" || a.IsUnspecified() || port == 0:
			return fmt.Errorf("advertise: peers cannot dial %q", c.Advertise)
		}
	}
	if c.Secret == "" && host != "localhost" && !a.IsLoopback() {
		return fmt.Errorf("listen: %q is not loopback, and without a secret nothing else is allowed", c.Listen)
	}
	return nil
}

// fits reports whether links of that size may travel in one message.
func (c Config) fits(links, bytes int) bool {
	return links <= c.OutboxMessageLinks && bytes <= c.OutboxMessageBytes
}
