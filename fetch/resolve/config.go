package resolve

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config says whom to ask and how long to believe the answers.
type Config struct {
	// Servers are the recursive name servers, host or host:port (53 where absent). Empty means those of resolv.conf.
	// More servers survive more failures; the one that answered last is asked first.
	Servers []string `toml:"servers"`
	// Hosts maps names to addresses: private names, exactly as written, with no wildcards. They win over DNS and never
	// expire, and addresses of both families are used whatever IPv6 says. Only names that are looked up are found here,
	// never the targets of aliases: the web must not be able to point into this table.
	Hosts map[string][]string `toml:"hosts"`
	// Timeout is the time one try at one server may take, TCP included. Shorter finds the next server sooner; too short
	// gives up on servers that first have to ask far away themselves.
	Timeout time.Duration `toml:"timeout"`
	// Attempts is the number of tries of one query. Attempts × Timeout bounds a whole lookup, aliases included.
	Attempts int `toml:"attempts"`
	// MinTTL is the least time an answer is kept, whatever its own time to live. Longer saves queries; shorter follows
	// sites that move. It also blunts names that change their address between two requests.
	MinTTL time.Duration `toml:"min_ttl"`
	// MaxTTL is the longest time an answer is kept.
	MaxTTL time.Duration `toml:"max_ttl"`
	// NegativeTTL is the longest time for which a name is held not to exist.
	NegativeTTL time.Duration `toml:"negative_ttl"`
	// TemporaryTTL is the time for which a failure of the servers is repeated without asking again, 1 s to 5 min (RFC
	// 9520, section 3.2). Longer avoids storms of queries; shorter recovers sooner.
	TemporaryTTL time.Duration `toml:"temporary_ttl"`
	// CacheEntries is the number of names kept, good and bad; the one unused for longest gives way. Some 240 bytes each
	// with one address.
	CacheEntries int `toml:"cache_entries"`
	// IPv6 also asks for IPv6 addresses: it doubles the queries, and hosts get addresses in two families.
	IPv6 bool `toml:"ipv6"`
	// MaxAddresses is the number of addresses kept per name, the first of an answer. More give more to fall back on and
	// cost memory.
	MaxAddresses int `toml:"max_addresses"`
	// MaxLookups is the number of lookups under way at a time; others wait. Each holds a socket, two with IPv6.
	MaxLookups int `toml:"max_lookups"`
}

// Default asks the servers of this machine for IPv4 addresses.
func Default() Config {
	return Config{
		Timeout:      3 * time.Second,
		Attempts:     3,
		MinTTL:       30 * time.Second,
		MaxTTL:       24 * time.Hour,
		NegativeTTL:  5 * time.Minute,
		TemporaryTTL: 30 * time.Second,
		CacheEntries: 50_000,
		MaxAddresses: 8,
		MaxLookups:   256,
	}
}

// Validate reports the first field that cannot be used.
func (c Config) Validate() error {
	for i, s := range c.Servers {
		if _, err := serverAddr(s); err != nil {
			return fmt.Errorf("servers[%d]: %w", i, err)
		}
	}
	if _, err := staticTable(c.Hosts); err != nil {
		return err
	}
	for _, d := range []struct {
		field            string
		value, low, high time.Duration
	}{
		{"timeout", c.Timeout, time.Millisecond, time.Minute},
		{"min_ttl", c.MinTTL, 0, c.MaxTTL},
		{"max_ttl", c.MaxTTL, time.Second, 7 * 24 * time.Hour},
		{"negative_ttl", c.NegativeTTL, time.Second, 24 * time.Hour},
		{"temporary_ttl", c.TemporaryTTL, time.Second, 5 * time.Minute},
	} {
		if d.value < d.low || d.value > d.high {
			return fmt.Errorf("%s: %v is not within %v and %v", d.field, d.value, d.low, d.high)
		}
	}
	for _, n := range []struct {
		field            string
		value, low, high int
	}{
		{"attempts", c.Attempts, 1, 16},
		{"cache_entries", c.CacheEntries, 1, 1 << 24},
		{"max_addresses", c.MaxAddresses, 1, 256},
		{"max_lookups", c.MaxLookups, 1, 1 << 16},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("%s: %d is not within %d and %d", n.field, n.value, n.low, n.high)
		}
	}
	return nil
}

// Deps is what a Resolver needs from outside.
type Deps struct {
	// Dial connects to a name server over network "udp" or "tcp"; nil means that of net.Dialer. A connection over "udp"
	// must give one message a Read and take answers from the dialled address only, as connected UDP sockets do.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ResolvConf is the path of resolv.conf(5); "" means /etc/resolv.conf. Only its name servers are used.
	ResolvConf string
	// HostsFile is the path of hosts(5); "" means /etc/hosts.
	HostsFile string
}

// serverAddr returns host:port of a server.
func serverAddr(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), "53"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%q: no port", s)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		if _, err := canonicalName(host); err != nil {
			return "", fmt.Errorf("%q: %w", s, err)
		}
	}
	return net.JoinHostPort(host, port), nil
}

// staticTable returns the table of cfg.Hosts by canonical name.
func staticTable(hosts map[string][]string) (map[string][]netip.Addr, error) {
	table := make(map[string][]netip.Addr, len(hosts))
	for host, texts := range hosts {
		name, err := canonicalName(host)
		if err != nil {
			return nil, fmt.Errorf("hosts: %q: %w", host, err)
		}
		if len(texts) == 0 {
			return nil, fmt.Errorf("hosts: %q has no address", host)
		}
		for _, text := range texts {
			addr, err := netip.ParseAddr(text)
			if err != nil || addr.Zone() != "" {
				return nil, fmt.Errorf("hosts: %q: %q is no address", host, text)
			}
			if addr = addr.Unmap(); !slices.Contains(table[name], addr) {
				table[name] = append(table[name], addr)
			}
		}
	}
	return table, nil
}
