package peer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Config is how a node speaks with its peers.
type Config struct {
	// Listen is the host:port of the peer protocol. Without a secret only loopback is allowed.
	Listen string `toml:"listen"`
	// Advertise is the host:port that peers dial; empty is that of listen, which must then be one address.
	Advertise string `toml:"advertise"`
	// Secret is the file of the cluster secret (made by keygen, the same on every node). Empty: the node stays alone,
	// whatever speaks to it.
	Secret string `toml:"secret"`
	// Timeout is the longest that one call may take, tries and pauses included. Longer suits slow lines and large
	// messages, shorter notices dead peers sooner.
	Timeout time.Duration `toml:"timeout"`
	// DialTimeout is the longest that a connection may take to stand, TLS included.
	DialTimeout time.Duration `toml:"dial_timeout"`
	// Tries is how often a call is tried when the connection fails or the peer is not available, within timeout.
	Tries int `toml:"tries"`
	// KeepAlive is how long a connection is silent before it is tested; one that does not answer within half of it is
	// given up.
	KeepAlive time.Duration `toml:"keep_alive"`
	// Idle is how long an unused connection is kept. A new one costs two round trips and a handshake.
	Idle time.Duration `toml:"idle"`
	// MessageMiB is the largest message, decompressed, in MiB, that is sent or read. It bounds memory: up to calls times
	// three times this. At least 2: a host travels with its robots.txt, two of 500 KiB at most.
	MessageMiB int `toml:"message_mib"`
	// Calls is the number of calls of peers that are carried out at once; others wait.
	Calls int `toml:"calls"`
	// CallsPerPeer is the share of one peer in calls.
	CallsPerPeer int `toml:"calls_per_peer"`
	// Connections is the number of connections that peers may hold here; more are closed at once.
	Connections int `toml:"connections"`

	// OutboxLinks is the number of links for one peer of whose places a node has a list in memory. Further ones wait on
	// disk only, some 100 bytes each.
	OutboxLinks int `toml:"outbox_links"`
	// OutboxWait is how long a link may wait for company in a message. Longer makes fewer, better compressed messages.
	OutboxWait time.Duration `toml:"outbox_wait"`
	// OutboxMessageLinks bounds the links in one message. More: fewer messages, and a longer wait where one is lost.
	OutboxMessageLinks int `toml:"outbox_message_links"`
	// OutboxMessageKiB bounds the size of one message of links in KiB, before compression.
	OutboxMessageKiB int `toml:"outbox_message_kib"`
	// OutboxBackoff is the longest pause between two tries to deliver.
	OutboxBackoff time.Duration `toml:"outbox_backoff"`
}

// Default listens on loopback and has no secret.
func Default() Config {
	return Config{
		Listen:             "127.0.0.1:7947",
		Timeout:            10 * time.Second,
		DialTimeout:        5 * time.Second,
		Tries:              3,
		KeepAlive:          10 * time.Second,
		Idle:               5 * time.Minute,
		MessageMiB:         8,
		Calls:              256,
		CallsPerPeer:       32,
		Connections:        1024,
		OutboxLinks:        100_000,
		OutboxWait:         time.Second,
		OutboxMessageLinks: 1000,
		OutboxMessageKiB:   256,
		OutboxBackoff:      30 * time.Second,
	}
}

// Validate reports every value that cannot be.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := c.checkListen(); err != nil {
		errs = append(errs, err)
	}
	for _, d := range []struct {
		key      string
		value    time.Duration
		min, max time.Duration
	}{
		{"timeout", c.Timeout, 100 * time.Millisecond, 10 * time.Minute},
		{"dial_timeout", c.DialTimeout, 100 * time.Millisecond, 10 * time.Minute},
		{"keep_alive", c.KeepAlive, 100 * time.Millisecond, time.Hour},
		{"idle", c.Idle, time.Second, 24 * time.Hour},
		{"outbox_wait", c.OutboxWait, 0, time.Minute},
		{"outbox_backoff", c.OutboxBackoff, 100 * time.Millisecond, time.Hour},
	} {
		if d.value < d.min || d.value > d.max {
			fault("%s: %v is not between %v and %v", d.key, d.value, d.min, d.max)
		}
	}
	for _, n := range []struct {
		key             string
		value, min, max int
	}{
		{"tries", c.Tries, 1, 10},
		{"message_mib", c.MessageMiB, 2, 256},
		{"calls", c.Calls, 1, 100_000},
		{"calls_per_peer", c.CallsPerPeer, 1, 10_000},
		{"connections", c.Connections, 1, 100_000},
		{"outbox_links", c.OutboxLinks, 1, 100_000_000},
		{"outbox_message_links", c.OutboxMessageLinks, 1, 10_000},
		{"outbox_message_kib", c.OutboxMessageKiB, 1, 4096},
	} {
		if n.value < n.min || n.value > n.max {
			fault("%s: %d is not between %d and %d", n.key, n.value, n.min, n.max)
		}
	}
	if c.CallsPerPeer > c.Calls {
		fault("calls_per_peer: %d is more than calls, %d", c.CallsPerPeer, c.Calls)
	}
	// What frames a link is small beside a quarter of the largest message.
	if c.OutboxMessageKiB > 768*c.MessageMiB {
		fault("outbox_message_kib: %d KiB do not fit into message_mib, %d MiB", c.OutboxMessageKiB, c.MessageMiB)
	}
	return errors.Join(errs...)
}

func (c Config) checkListen() error {
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen: %q is not host:port: %w", c.Listen, err)
	}
	a, _ := netip.ParseAddr(host)
	if c.Secret != "" && (host == "" || a.IsUnspecified()) && c.Advertise == "" {
		return fmt.Errorf("advertise: missing: peers cannot dial %q", c.Listen)
	}
	if c.Advertise != "" {
		if _, _, err := net.SplitHostPort(c.Advertise); err != nil {
			return fmt.Errorf("advertise: %q is not host:port: %w", c.Advertise, err)
		}
	}
	if c.Secret != "" || host == "localhost" {
		return nil
	}
	if a, err := netip.ParseAddr(host); err != nil || !a.IsLoopback() {
		return fmt.Errorf("listen: %q is not loopback, and without a secret nothing else is allowed", c.Listen)
	}
	return nil
}

// maxMessage is the largest message in bytes.
func (c Config) maxMessage() int { return c.MessageMiB << 20 }
