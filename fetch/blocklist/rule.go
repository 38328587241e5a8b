package blocklist

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"golang.org/x/net/idna"

	"proxima/fetch/resolve"
)

const (
	maxName    = 253  // bytes of the longest host name
	maxPattern = 1000 // bytes of the longest pattern or regular expression
)

// rule is what one line of a list says: at most one of the fields is set, none for an empty line or a comment.
type rule struct {
	hosts  []string     // canonical names
	prefix netip.Prefix // masked; IPv4 as IPv4
	glob   *glob
	regex  *regexp.Regexp
}

// parseLine reads one line. The package comment describes the forms.
func parseLine(line string) (rule, error) {
	line = strings.TrimSpace(line)
	// A regular expression may contain blanks and #, so no comment can follow it.
	if len(line) > 1 && line[0] == '/' && line[len(line)-1] == '/' {
		return parseRegex(line[1 : len(line)-1])
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
	switch {
	case len(fields) > 1:
		return parseHosts(first, fields[1:])
	case strings.Contains(first, "*") || strings.Contains(first, "://"):
		g, err := parseGlob(first)
		return rule{glob: g}, err
	}
	if p, err := parsePrefix(first); err == nil {
		return rule{prefix: p}, nil
	} else if strings.ContainsAny(first, "/:") {
		return rule{}, err
	}
	name, err := canonicalName(first)
	if err != nil {
		return rule{}, err
	}
	return rule{hosts: []string{name}}, nil
}

// Target returns the one host name, or the one prefix of addresses, that text stands for in a list.
func Target(text string) (string, error) {
	r, err := parseLine(text)
	switch {
	case strings.ContainsAny(text, " \t\n#") || len(text) > maxName || strings.Count(text, ":") == 1 || err != nil && strings.Contains(text, "/"):
	case err != nil:
		return "", fmt.Errorf("%.100q: %w", text, err)
	case r.prefix.IsValid() && r.prefix.Bits() > 0:
		return r.prefix.String(), nil
	case len(r.hosts) == 1:
		return r.hosts[0], nil
	}
	return "", fmt.Errorf("%.100q is neither the name of a host nor addresses, without scheme, port and path", text)
}

func parseRegex(expr string) (rule, error) {
	if expr == "" || len(expr) > maxPattern {
		return rule{}, fmt.Errorf("regular expression of %d bytes, not 1 to %d", len(expr), maxPattern)
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return rule{}, err
	}
	return rule{regex: re}, nil
}

// parseHosts reads a line of a hosts file. Such lists map names to an address where nothing listens; a line with any other
// address is an error. It skips names without a dot (localhost, broadcasthost), which stand for the machine itself.
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

// parsePrefix reads an address or a prefix, and clears the bits beyond its length.
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

// canonicalName returns a host name as URLs have it: in lower case and ASCII, without the final dot.
func canonicalName(name string) (string, error) {
	if !isASCII(name) {
		ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(name, "."))
		if err != nil {
			return "", err
		}
		name = ascii
	}
	return resolve.CanonicalName(name)
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }

// glob is a pattern in which * stands for any run of bytes, also the empty one.
type glob struct {
	text  string
	parts []string // between the asterisks; at least one
}

// parseGlob reads a pattern for whole URLs. It lowers scheme and host, as URLs do.
func parseGlob(text string) (*glob, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("pattern of %d bytes, not 1 to %d", len(text), maxPattern)
	}
	if !isASCII(text) { // it would silently match nothing
		return nil, errors.New("pattern with bytes beyond ASCII, which URLs hold as xn-- and %XX")
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, errors.New("pattern without scheme: begin it with *://")
	}
	authority, path, slash := strings.Cut(rest, "/")
	if !slash && !strings.Contains(authority, "*") { // each URL has a path
		return nil, errors.New("matches no URL: the name alone stands for a host, and with /* behind it for its URLs")
	}
	text = strings.ToLower(scheme + "://" + authority)
	if slash {
		text += "/" + path
	}
	return &glob{text: text, parts: strings.Split(text, "*")}, nil
}

// Match reports whether a pattern covers all of s. The parts are those between its asterisks. The time is linear in both: taking the
// first place of each part between two asterisks is never worse than a later one, so nothing is tried twice.
func Match(parts []string, s string) bool {
	last := len(parts) - 1
	if last == 0 {
		return s == parts[0]
	}
	s, ok := strings.CutPrefix(s, parts[0])
	for _, part := range parts[1:last] {
		if ok {
			_, s, ok = strings.Cut(s, part)
		}
	}
	return ok && strings.HasSuffix(s, parts[last])
}
