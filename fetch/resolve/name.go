package resolve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/miekg/dns"
)

// maxFile is the size in bytes of the largest hosts file or resolv.conf read.
const maxFile = 16 << 20

const (
	digits    = "0123456789"
	hostBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_" + digits
)

// CanonicalName returns a host name in lower case without the final dot. It accepts the names that the web uses: letters,
// digits, hyphens and underscores, 63 bytes a label and 253 in all (RFC 1035, section 2.3.4). The last label must not be a
// number (RFC 3696, section 2), since some take 127.1 for an address and others for a name.
func CanonicalName(name string) (string, error) {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 {
		return "", fmt.Errorf("%d bytes, not 1 to 253", len(name))
	}
	last := ""
	for last = range strings.SplitSeq(name, ".") {
		if last == "" || len(last) > 63 {
			return "", fmt.Errorf("label of %d bytes, not 1 to 63", len(last))
		}
		if rest := strings.TrimLeft(last, hostBytes); rest != "" {
			return "", fmt.Errorf("byte %#02x in name", rest[0])
		}
	}
	if strings.Trim(last, digits) == "" {
		return "", errors.New("last label is a number")
	}
	return strings.ToLower(name), nil
}

// parseHost returns the canonical name, or the address where host is an IPv4 or IPv6 literal, in brackets or not.
func parseHost(host string) (name string, addr netip.Addr, err error) {
	text := host
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		text = host[1 : len(host)-1]
		if !strings.Contains(text, ":") {
			return "", addr, errors.New("no IPv6 address within brackets")
		}
	}
	if addr, err = netip.ParseAddr(text); err == nil {
		if addr.Zone() != "" {
			return "", netip.Addr{}, errors.New("address with a zone")
		}
		return "", addr.Unmap(), nil
	}
	name, err = CanonicalName(text)
	return name, netip.Addr{}, err
}

// under reports whether name is zone or below it.
func under(name, zone string) bool {
	return strings.HasSuffix(name, zone) && (len(name) == len(zone) || name[len(name)-len(zone)-1] == '.')
}

// known returns the addresses of a canonical name that has them for good, else nil. Reserved names fail: they must not
// leave the machine (RFC 6761, sections 6.3 and 6.4; RFC 7686, section 2).
func (r *Resolver) known(name string) ([]netip.Addr, error) {
	if addrs := r.static[name]; addrs != nil {
		return addrs, nil
	}
	switch {
	case under(name, "localhost"):
		addrs := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
		if r.cfg.IPv6 {
			addrs = append(addrs, netip.IPv6Loopback())
		}
		return addrs, nil
	case under(name, "invalid"), under(name, "onion"):
		return nil, errReserved
	}
	return nil, nil
}

// readFile reads a system file, nothing if it does not exist.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("read %s: more than %d bytes", path, maxFile)
	}
	return text, err
}

// parseResolvConf returns the host:port of the name servers in a resolv.conf, or that of this machine if there are none
// (resolv.conf(5)).
func parseResolvConf(text []byte) ([]string, error) {
	conf, err := dns.ClientConfigFromReader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	var servers []string
	for _, s := range conf.Servers {
		if addr, err := netip.ParseAddr(s); err == nil {
			servers = append(servers, net.JoinHostPort(addr.String(), "53"))
		}
	}
	if servers == nil {
		servers = []string{"127.0.0.1:53"}
	}
	return servers, nil
}
