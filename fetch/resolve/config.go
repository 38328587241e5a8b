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
	// Servers are the recursive name servers, host or host:port (53 by default). Empty: those of resolv.conf. The server
	// that answered last is asked first; more servers survive more failures.
	Servers []string `toml:"servers"`
	// Hosts maps private names, exactly as written, to addresses. They win over DNS, never expire, and may be of either
	// family whatever fetch.dns.ipv6 says. Only names that are looked up are found here, never the targets of aliases: no
	// one on the web may point into this table.
	Hosts map[string][]string `toml:"hosts"`
	// Timeout bounds one try at one server, TCP included. The server may have to ask far away itself.
	Timeout time.Duration `toml:"-"`
	// Attempts is the number of tries of one query. Attempts × Timeout bounds a whole lookup, aliases included.
	Attempts int `toml:"-"`
	// IPv6 also asks for IPv6 addresses. This doubles the queries and gives hosts addresses of both families.
	IPv6 bool `toml:"ipv6"`
}

// Bounds of the cache and of answers.
const (
	// minTTL and maxTTL bound how long an answer is cached, whatever its own time to live. The minimum saves queries, and blunts
	// names that change their address between two requests.
	minTTL, maxTTL = 30 * time.Second, 24 * time.Hour
	// negativeTTL bounds how long it is cached that a name does not exist.
	negativeTTL = 5 * time.Minute
	// temporaryTTL is how long a failure of the servers is cached, 1 s to 5 min (RFC 9520, section 3.2).
	temporaryTTL = 30 * time.Second
	// maxNames is the number of names cached, least recently used out first. Each takes some 240 bytes with one address.
	maxNames = 50_000
	// maxAddrs is the number of addresses kept of one answer, the first ones.
	maxAddrs = 8
	// maxLookups is the number of concurrent lookups; others wait. Each holds a socket, two with IPv6.
	maxLookups = 256
)

// Default asks the servers of this machine for IPv4 addresses.
func Default() Config {
	return Config{Timeout: 3 * time.Second, Attempts: 3}
}

// Validate reports the first field that cannot be used.
func (c Config) Validate() error {
	_, _, err := c.parse()
	return err
}

// parse returns the host:port of the servers, and the table of hosts by canonical name.
func (c Config) parse() (servers []string, hosts map[string][]netip.Addr, err error) {
	for i, s := range c.Servers {
		addr, err := serverAddr(s)
		if err != nil {
			return nil, nil, fmt.Errorf("servers[%d]: %w", i, err)
		}
		servers = append(servers, addr)
	}
	hosts, err = staticTable(c.Hosts)
	return servers, hosts, err
}

// Deps holds what a Resolver needs from outside.
type Deps struct {
	// Dial connects to a name server over network "udp" or "tcp"; nil means net.Dialer. A "udp" connection must return one message
	// for each Read, and only messages from the dialled address, as connected UDP sockets do.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ResolvConf is the path of resolv.conf(5); "" means /etc/resolv.conf. Only its name servers are used.
	ResolvConf string
	// HostsFile is the path of hosts(5); "" means /etc/hosts.
	HostsFile string
}

func serverAddr(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), "53"
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%q: no port", s)
	}
	if _, err := netip.ParseAddr(host); err != nil {
		if _, err := CanonicalName(host); err != nil {
			return "", fmt.Errorf("%q: %w", s, err)
		}
	}
	return net.JoinHostPort(host, port), nil
}

// staticTable returns the table of cfg.Hosts by canonical name.
func staticTable(hosts map[string][]string) (map[string][]netip.Addr, error) {
	table := make(map[string][]netip.Addr, len(hosts))
	for host, texts := range hosts {
		name, err := CanonicalName(host)
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
