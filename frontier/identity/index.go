package identity

import (
	"fmt"
	"slices"
	"strings"
)

// Index says which of many sets of URLs a URL is in, without looking at each: by its host, by the names above it, and by
// the beginnings of URLs on its host. It does not change and is safe for concurrent use.
type Index struct {
	every    []int // sets with the host "*"
	hosts    map[string][]int
	below    map[string][]int
	domains  map[string][]int
	prefixes map[string][]prefixSets // by the length of their paths
	recent   recent
}

// prefixSets are the prefixes of one host whose paths have one length.
type prefixSets struct {
	length int
	sets   map[prefix][]int
}

// NewIndex makes an index of sets, which it knows by their numbers. Beside what Match says, the host "*" is every host.
// The error begins with the number of the set, the field and the number of the entry.
func NewIndex(sets []Match) (*Index, error) {
	x := &Index{hosts: map[string][]int{}, below: map[string][]int{}, domains: map[string][]int{}, prefixes: map[string][]prefixSets{}}
	for n, m := range sets {
		for i, entry := range m.Hosts {
			if entry == "*" {
				x.every = append(x.every, n)
				continue
			}
			at, wild, err := parseHosts(entry)
			if err != nil {
				return nil, fmt.Errorf("[%d].host[%d]: %w", n, i, err)
			}
			to := x.hosts
			if wild {
				to = x.below
			}
			to[at] = append(to[at], n)
		}
		for i, entry := range m.Domains {
			domain, err := parseDomain(entry)
			if err != nil {
				return nil, fmt.Errorf("[%d].domain[%d]: %w", n, i, err)
			}
			x.domains[domain] = append(x.domains[domain], n)
		}
		for i, entry := range m.Prefixes {
			at, p, err := parsePrefix(entry)
			if err != nil {
				return nil, fmt.Errorf("[%d].prefix[%d]: %w", n, i, err)
			}
			x.addPrefix(at, p, n)
		}
	}
	return x, nil
}

func (x *Index) addPrefix(at string, p prefix, n int) {
	list := x.prefixes[at]
	i := slices.IndexFunc(list, func(s prefixSets) bool { return s.length == len(p.path) })
	if i < 0 {
		i = len(list)
		list = append(list, prefixSets{len(p.path), map[prefix][]int{}})
		x.prefixes[at] = list
	}
	list[i].sets[p] = append(list[i].sets[p], n)
}

// Find appends the numbers of the sets that a URL is in, in order and each once.
func (x *Index) Find(u URL, to []int) []int {
	to = append(to, x.every...)
	scheme, at := cutScheme(u.Host)
	to = append(to, x.hosts[at]...)
	for _, s := range x.prefixes[at] {
		if s.length <= len(u.Path) {
			to = append(to, s.sets[prefix{scheme, u.Path[:s.length]}]...)
			to = append(to, s.sets[prefix{"", u.Path[:s.length]}]...)
		}
	}
	if len(x.below)+len(x.domains) > 0 {
		name := u.Name()
		for rest, more := name, true; more; _, rest, more = strings.Cut(rest, ".") {
			to = append(to, x.below[rest]...)
			if sets := x.domains[rest]; sets != nil && (rest == name || x.recent.registrable(name) == rest) {
				to = append(to, sets...)
			}
		}
	}
	slices.Sort(to)
	return slices.Compact(to)
}

// ParsePrefix reads the beginning of URLs as Match has them. Without a scheme it is that of http.
func ParsePrefix(entry string) (URL, error) { return Parse(withScheme(entry)) }
