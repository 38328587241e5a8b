package blocklist

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"golang.org/x/net/idna"
)

// maxPattern is the length in bytes of the longest pattern or regular expression.
const maxPattern = 1000

// rule is what one line of a list says: one of the fields, or none on an empty line or a comment.
type rule struct {
	hosts  []string     // canonical names
	prefix netip.Prefix // masked; IPv4 as IPv4
	glob   *glob
	regex  *regexp.Regexp
}

// parseLine reads one line. The forms are described at the package.
func parseLine(line string) (rule, error) {
	line = strings.TrimSpace(line)
	// A regular expression may hold blanks and #, hence no comment follows it.
	if len(line) > 1 && line[0] == '/' && line[len(line)-1] == '/' {
		return parseRegex(line)
	}
	fields := strings.Fields(line)
	for i, f := range fields {
		if f[0] == '#' {
			fields = fields[:i]
			break
		}
	}
	if len(fields) == 0 {
		return rule{}, nil
	}
	first := fields[0]
	if len(fields) > 1 {
		return parseHosts(first, fields[1:])
	}
	if strings.Contains(first, "*") || strings.Contains(first, "://") {
		g, err := parseGlob(first)
		return rule{glob: g}, err
	}
	if strings.ContainsAny(first, "/:") || isDigit(first[len(first)-1]) {
		if p, err := parsePrefix(first); err == nil {
			return rule{prefix: p}, nil
		} else if strings.ContainsAny(first, "/:") {
			return rule{}, err
		}
	}
	name, err := canonicalName(first)
	if err != nil {
		return rule{}, err
	}
	return rule{hosts: []string{name}}, nil
}

// Target returns the one host name, or the one prefix of addresses, that a text names, as it stands in a list.
func Target(text string) (string, error) {
	if strings.ContainsAny(text, " \t\n#") || len(text) > maxName {
		return "", fmt.Errorf("%.100q is neither the name of a host nor addresses", text)
	}
	r, err := parseLine(text)
	switch {
	case err != nil:
		return "", fmt.Errorf("%.100q: %w", text, err)
	case r.prefix.IsValid() && r.prefix.Bits() > 0:
		return r.prefix.String(), nil
	case len(r.hosts) == 1:
		return r.hosts[0], nil
	}
	return "", fmt.Errorf("%.100q is neither the name of a host nor addresses", text)
}

func parseRegex(line string) (rule, error) {
	expr := line[1 : len(line)-1]
	if expr == "" || len(expr) > maxPattern {
		return rule{}, fmt.Errorf("regular expression of %d bytes, not 1 to %d", len(expr), maxPattern)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return rule{}, err
	}
	return rule{regex: re}, nil
}

// parseHosts reads a line of a hosts file. Lists in that form send names to an address where nothing is; a line with
// another address is no entry of a list. Names without a dot are those of the machine itself: localhost, broadcasthost.
func parseHosts(addr string, names []string) (rule, error) {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return rule{}, errors.New("more than one word, and the first is no address")
	}
	var r rule
	for _, name := range names {
		if _, err := netip.ParseAddr(name); err == nil || !strings.Contains(name, ".") {
			continue
		}
		if !a.IsUnspecified() && !a.IsLoopback() {
			return rule{}, fmt.Errorf("%s is neither unspecified nor loopback", a)
		}
		canonical, err := canonicalName(name)
		if err != nil {
			return rule{}, err
		}
		r.hosts = append(r.hosts, canonical)
	}
	return r, nil
}

// parsePrefix reads an address or a prefix. Bits beyond its length are cleared.
func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return netip.Prefix{}, err
		}
		if a.Zone() != "" {
			return netip.Prefix{}, errors.New("address with a zone")
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// canonicalName returns a name of a host in lower case and ASCII, without the final dot.
func canonicalName(name string) (string, error) {
	text := strings.TrimSuffix(name, ".")
	for i := range len(text) {
		if text[i] >= 0x80 {
			ascii, err := idna.Lookup.ToASCII(text)
			if err != nil {
				return "", err
			}
			text = ascii
			break
		}
	}
	text = strings.ToLower(text)
	if text == "" || len(text) > maxName {
		return "", fmt.Errorf("name of %d bytes, not 1 to %d", len(text), maxName)
	}
	last := ""
	for last = range strings.SplitSeq(text, ".") {
		if last == "" || len(last) > 63 {
			return "", fmt.Errorf("label of %d bytes, not 1 to 63", len(last))
		}
		for i := range len(last) {
			if c := last[i]; !isDigit(c) && (c < 'a' || c > 'z') && c != '-' && c != '_' {
				return "", fmt.Errorf("byte %#02x in name", c)
			}
		}
	}
	if strings.Trim(last, "0123456789") == "" {
		return "", errors.New("last label is a number")
	}
	return text, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
