package identity

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// Index finds the sets of URLs that a URL belongs to, without looking at each set. It looks up the URL's host, the names above it,
// and the beginnings of its path. Once made, it does not change and is safe for concurrent use.
type Index struct {
	// Each list below holds numbers of sets.
	every    []int            // of sets with the host "*"
	hosts    map[string][]int // by authority
	below    map[string][]int // by a name that stands for itself and all names below it
	domains  map[string][]int // by registrable domain
	prefixes map[string][]prefixes
	recent   recentDomains
}

// prefixes are the beginnings of URLs on one host whose paths have one length.
type prefixes struct {
	length int
	sets   map[prefix][]int
}

// prefix is the beginning of paths on one host. An empty scheme stands for both http and https.
type prefix struct{ scheme, path string }

// fields names the lists of a Match as the configuration does.
type fields struct {
	hosts, prefixes, domains string
	every                    bool // the host "*" stands for every host
}

func newIndex() *Index {
	return &Index{hosts: map[string][]int{}, below: map[string][]int{}, domains: map[string][]int{}, prefixes: map[string][]prefixes{}}
}

// NewIndex makes an index of sets, which it calls by their position in the slice. In addition to what Match describes, the host "*"
// stands for every host. An error begins with the number of the set, the field and the number of the entry.
func NewIndex(sets []Match) (*Index, error) {
	x := newIndex()
	for n, m := range sets {
		if err := x.add(n, m, fields{"host", "prefix", "domain", true}); err != nil {
			return nil, fmt.Errorf("[%d].%w", n, err)
		}
	}
	return x, nil
}

// newSet makes an index of one set. An error begins with the field and the number of the entry.
func newSet(m Match) (*Index, error) {
	x := newIndex()
	return x, x.add(0, m, fields{"hosts", "prefixes", "domains", false})
}

func (x *Index) add(n int, m Match, f fields) error {
	for i, entry := range m.Hosts {
		if entry == "*" && f.every {
			x.every = append(x.every, n)
			continue
		}
		at, wild, err := parseHosts(entry)
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", f.hosts, i, err)
		}
		if wild {
			x.below[at] = append(x.below[at], n)
		} else {
			x.hosts[at] = append(x.hosts[at], n)
		}
	}
	for i, entry := range m.Prefixes {
		at, p, err := parsePrefix(entry)
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", f.prefixes, i, err)
		}
		x.addPrefix(n, at, p)
	}
	for i, entry := range m.Domains {
		domain, err := parseDomain(entry)
		if err != nil {
			return fmt.Errorf("%s[%d]: %w", f.domains, i, err)
		}
		x.domains[domain] = append(x.domains[domain], n)
	}
	return nil
}

func (x *Index) addPrefix(n int, at string, p prefix) {
	list := x.prefixes[at]
	i := slices.IndexFunc(list, func(s prefixes) bool { return s.length == len(p.path) })
	if i < 0 {
		i = len(list)
		list = append(list, prefixes{len(p.path), map[prefix][]int{}})
		x.prefixes[at] = list
	}
	list[i].sets[p] = append(list[i].sets[p], n)
}

func (x *Index) empty() bool {
	return len(x.every)+len(x.hosts)+len(x.below)+len(x.domains)+len(x.prefixes) == 0
}

// Find appends the numbers of the sets that a URL belongs to, in ascending order and each once.
func (x *Index) Find(u URL, to []int) []int {
	x.each(u, func(sets []int) bool {
		to = append(to, sets...)
		return true
	})
	slices.Sort(to)
	return slices.Compact(to)
}

func (x *Index) has(u URL) (found bool) {
	x.each(u, func(sets []int) bool {
		found = len(sets) > 0
		return !found
	})
	return found
}

// each calls visit with lists of sets that a URL belongs to, some of them empty, until visit returns false.
func (x *Index) each(u URL, visit func(sets []int) bool) {
	scheme, at := cutScheme(u.Host)
	if !visit(x.every) || !visit(x.hosts[at]) {
		return
	}
	for _, s := range x.prefixes[at] {
		if s.length <= len(u.Path) {
			if path := u.Path[:s.length]; !visit(s.sets[prefix{scheme, path}]) || !visit(s.sets[prefix{"", path}]) {
				return
			}
		}
	}
	if len(x.below)+len(x.domains) == 0 {
		return
	}
	name := u.Name()
	for rest, more := name, true; more; _, rest, more = strings.Cut(rest, ".") {
		if !visit(x.below[rest]) {
			return
		}
		// Look at the list of public suffixes only where it can matter: amazonaws.com is a registrable domain, but not that of
		// bucket.s3.amazonaws.com.
		if sets := x.domains[rest]; sets != nil && (rest == name || x.recent.of(name) == rest) && !visit(sets) {
			return
		}
	}
}

// recentDomains caches the registrable domains of names. RegistrableDomain allocates and searches, and the links of a page name few
// hosts.
type recentDomains [256]atomic.Pointer[nameDomain]

type nameDomain struct{ name, domain string }

func (r *recentDomains) of(name string) string {
	slot := &r[xxhash.Sum64String(name)%uint64(len(r))]
	if k := slot.Load(); k != nil && k.name == name {
		return k.domain
	}
	name = strings.Clone(name) // the name may be a part of a whole page, which must not stay in memory
	k := &nameDomain{name: name, domain: RegistrableDomain(name)}
	slot.Store(k)
	return k.domain
}

// parseHosts reads an authority. With "*." before it, it is a name that stands for itself and all names below it.
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

// parseDomain reads a name and returns its registrable domain.
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

// parseHost brings an authority from a configuration into normal form. It drops the default port of either scheme.
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

// parsePrefix reads the beginning of URLs. Without a scheme it stands for both.
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

// ParsePrefix reads the beginning of URLs in the form that Match describes. Without a scheme the result has the scheme http.
func ParsePrefix(entry string) (URL, error) { return Parse(withScheme(entry)) }
