package identity

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// matcher is a Match made ready: lookups in maps, without allocations. Once filled, it is safe for concurrent use.
type matcher struct {
	hosts map[string]struct{}
	// below holds names that stand for themselves and all names below.
	below    map[string]struct{}
	domains  map[string]struct{}
	prefixes map[string][]prefix
	recent   recent
}

// recent remembers the registrable domains of names.
type recent [256]atomic.Pointer[known]

// prefix is a beginning of paths on one host; scheme "" is both.
type prefix struct{ scheme, path string }

func newMatcher() *matcher {
	return &matcher{
		hosts:    map[string]struct{}{},
		below:    map[string]struct{}{},
		domains:  map[string]struct{}{},
		prefixes: map[string][]prefix{},
	}
}

func (m *matcher) empty() bool {
	return len(m.hosts)+len(m.below)+len(m.domains)+len(m.prefixes) == 0
}

// addAll adds the entries of a Match. The error begins with the field and the number of the entry.
func (m *matcher) addAll(match Match) error {
	for i, entry := range match.Hosts {
		if err := m.addHost(entry); err != nil {
			return fmt.Errorf("hosts[%d]: %w", i, err)
		}
	}
	for i, entry := range match.Prefixes {
		if err := m.addPrefix(entry); err != nil {
			return fmt.Errorf("prefixes[%d]: %w", i, err)
		}
	}
	for i, entry := range match.Domains {
		domain, err := parseDomain(entry)
		if err != nil {
			return fmt.Errorf("domains[%d]: %w", i, err)
		}
		m.domains[domain] = struct{}{}
	}
	return nil
}

func (m *matcher) addHost(entry string) error {
	at, wild, err := parseHosts(entry)
	switch {
	case err != nil:
		return err
	case wild:
		m.below[at] = struct{}{}
	default:
		m.hosts[at] = struct{}{}
	}
	return nil
}

// parseHosts reads an authority, or with "*." before it a name that stands for itself and all names below.
func parseHosts(entry string) (at string, wild bool, err error) {
	name, wild := strings.CutPrefix(entry, "*.")
	u, err := parseHost(name)
	if err != nil {
		return "", false, err
	}
	if wild && (u.Name() != u.Authority() || isAddress(u.Name())) {
		return "", false, fmt.Errorf("%q: only a name without port has names below it", entry)
	}
	return u.Authority(), wild, nil
}

// parseDomain reads a name and gives its registrable domain.
func parseDomain(entry string) (string, error) {
	u, err := parseHost(entry)
	if err != nil {
		return "", err
	}
	if u.Name() != u.Authority() {
		return "", fmt.Errorf("%q is no name", entry)
	}
	return RegistrableDomain(u.Host), nil
}

// parseHost brings an authority from a config into normal form. The default port of either scheme is dropped.
func parseHost(entry string) (URL, error) {
	if strings.ContainsAny(entry, "/\\?#@* ") || entry == "" {
		return URL{}, fmt.Errorf("%q is no host", entry)
	}
	scheme := "http://"
	if strings.HasSuffix(entry, ":443") {
		scheme = "https://"
	}
	return Parse(scheme + entry)
}

func (m *matcher) addPrefix(entry string) error {
	at, p, err := parsePrefix(entry)
	if err != nil {
		return err
	}
	m.prefixes[at] = append(m.prefixes[at], p)
	return nil
}

// parsePrefix reads a beginning of URLs, without a scheme for both.
func parsePrefix(entry string) (at string, p prefix, err error) {
	raw := withScheme(entry)
	u, err := Parse(raw)
	if err != nil {
		return "", prefix{}, err
	}
	p = prefix{scheme: u.Scheme(), path: u.Path}
	if raw != entry {
		p.scheme = ""
	}
	return u.Authority(), p, nil
}

// addDir adds a directory by both schemes. Seeds of one host may be many and share few: a wider one covers the others.
func (m *matcher) addDir(at string, dir prefix) {
	kept := m.prefixes[at][:0:0]
	for _, have := range m.prefixes[at] {
		if have.covers(dir) {
			return
		}
		if !dir.covers(have) {
			kept = append(kept, have)
		}
	}
	m.prefixes[at] = append(kept, dir)
}

func (p prefix) covers(other prefix) bool {
	return (p.scheme == "" || p.scheme == other.scheme) && strings.HasPrefix(other.path, p.path)
}

// match reports whether any entry matches.
func (m *matcher) match(u URL) bool {
	scheme, at := cutScheme(u.Host)
	if _, ok := m.hosts[at]; ok {
		return true
	}
	if len(m.prefixes) > 0 {
		for _, p := range m.prefixes[at] {
			if (p.scheme == "" || p.scheme == scheme) && strings.HasPrefix(u.Path, p.path) {
				return true
			}
		}
	}
	if len(m.below)+len(m.domains) == 0 {
		return false
	}
	name := u.Name()
	for rest, more := name, true; more; _, rest, more = strings.Cut(rest, ".") {
		if _, ok := m.below[rest]; ok {
			return true
		}
		// The list of public suffixes is asked only where it can matter: amazonaws.com is a registrable domain, but not
		// that of bucket.s3.amazonaws.com.
		if _, ok := m.domains[rest]; ok && (rest == name || m.recent.registrable(name) == rest) {
			return true
		}
	}
	return false
}

// known is a name with its registrable domain.
type known struct{ name, domain string }

// registrable is RegistrableDomain, which allocates and searches, behind a small cache: links of a page name few hosts.
func (r *recent) registrable(name string) string {
	slot := &r[xxhash.Sum64String(name)%uint64(len(r))]
	if k := slot.Load(); k != nil && k.name == name {
		return k.domain
	}
	// The name may be a piece of a page.
	name = strings.Clone(name)
	k := &known{name: name, domain: RegistrableDomain(name)}
	slot.Store(k)
	return k.domain
}
