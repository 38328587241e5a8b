package member

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/node/strict"
)

// Presets of timing.
const (
	// PresetLAN finds the dead within seconds where round trips are short.
	PresetLAN = "lan"
	// PresetWAN bears round trips of seconds.
	PresetWAN = "wan"
	// PresetTestbed is for wide-area round trips emulated on one machine: prompt, and patient with a busy processor.
	PresetTestbed = "testbed"
)

// Config is how a node finds its peers and when it believes what it sees of them.
type Config struct {
	// Bind is the host:port of the gossip, for both UDP and TCP; port 0 takes any free port.
	Bind string `toml:"bind"`
	// Advertise is the host:port that peers use if it is not member.bind. "" is member.bind, or where that is 0.0.0.0 the
	// first private address of the machine.
	Advertise string `toml:"advertise"`
	// Preset is the timing of probes and gossip: "lan", "wan" or "testbed". Shorter times find deaths sooner and mistake
	// more slow nodes for dead ones.
	Preset string `toml:"preset"`
	// Join are gossip addresses (host:port) of some peers. One that answers is enough; the others are dialled again for
	// ever. The first node of an overlay has none, or only its own address.
	Join []string `toml:"join"`
	// Faster divides the times of the overlay, 1 to 20: when silent nodes count as gone, when owners stop and homes take
	// over, how long leases last, how often peers are dialled. A larger number finds deaths sooner, costs more messages and
	// mistakes more slow machines for dead ones. Nodes with different values do not find each other.
	Faster float64 `toml:"faster"`
	// SettleAfter is how long a node must have run before homes and grantors are assigned to it. With a longer time fewer
	// homes move when nodes come and go at once.
	SettleAfter time.Duration `toml:"settle_after"`
	// ForgetAfter is how long a dead node still counts. Longer bears slower restarts; its hosts wait as long.
	ForgetAfter time.Duration `toml:"-"`
	// MajorityWindow is how long a dead node counts for the majority: then the majority decides to go on without it. A
	// minority never does: it waits until it sees enough nodes again, or is told to go on (proxima go-alone).
	MajorityWindow time.Duration `toml:"-"`
	// HearWithin is how lately a voter must have answered to count for the majority: a node that is cut off stops that
	// much later. It is shorter than the skew of leases. Longer bears slower machines.
	HearWithin time.Duration `toml:"-"`
	// GoAloneAfter is when nodes in a minority go on with those that they see, as if an operator had told them to; "0s" is
	// never. Two sides of a partition that both do this crawl the same hosts, and ask the same servers at once.
	GoAloneAfter time.Duration `toml:"go_alone_after"`
	// Redial is the first wait until a dead peer is dialled again; it doubles. Shorter heals partitions sooner.
	Redial time.Duration `toml:"-"`
	// RedialMax is the longest such wait, give or take its jitter.
	RedialMax time.Duration `toml:"-"`
	// LeaveTimeout bounds the farewell when the node stops.
	LeaveTimeout time.Duration `toml:"-"`
	// AnnounceEvery is the shortest time between two announcements of this node's place to all. In between, only the
	// acknowledgements of pings carry it.
	AnnounceEvery time.Duration `toml:"-"`
}

// Default is a node on loopback that nobody knows of.
func Default() Config {
	return Config{
		Bind:           "127.0.0.1:7946",
		Preset:         PresetWAN,
		Join:           []string{},
		Faster:         1,
		SettleAfter:    time.Minute,
		ForgetAfter:    time.Minute,
		MajorityWindow: 10 * time.Minute,
		HearWithin:     20 * time.Second,
		Redial:         15 * time.Second,
		RedialMax:      5 * time.Minute,
		LeaveTimeout:   3 * time.Second,
		AnnounceEvery:  5 * time.Second,
	}
}

// Validate reports all values that cannot be.
func (c Config) Validate() error {
	var errs []error
	report := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	host, _, err := strict.HostPort(c.Bind)
	switch ip := net.ParseIP(host); {
	case err != nil:
		report("bind: %w", err)
	case ip == nil:
		report("bind: %q is not an IP address", host) // memberlist would listen on all
	case ip.IsUnspecified() && ip.To4() == nil && c.Advertise == "":
		report("bind: %q needs an address to advertise", c.Bind)
	}
	if c.Advertise != "" {
		host, port, err := strict.HostPort(c.Advertise)
		switch {
		case err != nil:
			report("advertise: %w", err)
		case net.ParseIP(host) == nil || net.ParseIP(host).IsUnspecified():
			report("advertise: %q is not the address of a machine", host)
		case port == 0:
			report("advertise: port 0 cannot be dialled")
		}
	}
	switch c.Preset {
	case PresetLAN, PresetWAN, PresetTestbed:
	default:
		report("preset: %q is none of %q, %q, %q", c.Preset, PresetLAN, PresetWAN, PresetTestbed)
	}
	for i, a := range c.Join {
		if host, port, err := strict.HostPort(a); err != nil {
			report("join[%d]: %w", i, err)
		} else if host == "" || port == 0 {
			report("join[%d]: %q cannot be dialled", i, a)
		}
	}
	if !(c.Faster >= 1 && c.Faster <= 20) {
		report("faster: %v is not between 1 and 20", c.Faster)
	}
	if c.SettleAfter < time.Second || c.SettleAfter > time.Hour {
		report("settle_after: %v is not between 1s and 1h", c.SettleAfter)
	}
	if d := c.GoAloneAfter; d != 0 && (d < c.MajorityWindow || d > 30*24*time.Hour) {
		report("go_alone_after: %v is neither 0 nor between %v, when the majority forgets the dead, and 720h", d, c.MajorityWindow)
	}
	return errors.Join(errs...)
}

// validate reports all that is wrong with what a node is given.
func validate(cfg Config, deps Deps) error {
	errs := []error{cfg.Validate()}
	report := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !validID(deps.ID) {
		report("id: %q is not %d characters of lower-case hex", deps.ID, idLen)
	}
	if n := len(label(cfg, deps)); n > memberlist.LabelMaxSize {
		report("run: %d bytes with its times, more than %d", n, memberlist.LabelMaxSize)
	}
	for _, key := range deps.Secrets {
		if len(key) != 32 {
			report("secret: %d bytes, not 32", len(key))
		}
	}
	if len(deps.Secrets) == 0 {
		report("secret: missing")
	}
	if err := checkAddr(deps.PeerAddr, true); err != nil {
		report("peer address: it cannot be dialled: %w", err)
	}
	if deps.Location != nil && !deps.Location.Valid() {
		report("location: %v, %v is not on Earth", deps.Location.Lat, deps.Location.Lon)
	}
	return errors.Join(errs...)
}

// label is what all gossip carries in the clear. Nodes whose times differ must not meet: a lease or an ownership would have ended at one of
// them, and not yet at the other.
func label(cfg Config, deps Deps) string {
	if cfg.Faster == 1 {
		return deps.Label
	}
	return fmt.Sprintf("%s times %v", deps.Label, cfg.Faster)
}

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
