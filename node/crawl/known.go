package crawl

import (
	"math/bits"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier/identity"
)

// known remembers references that led to URLs which the frontier has: the navigation that every page of a site repeats
// is then neither resolved nor offered again. A small cache saves most of the work; what it forgets costs a look at the
// frontier, nothing else. Safe for concurrent use: a slot is one atomic word.
//
// What one host's pages refer to lies in one shelf: a page touches few pages of memory, which is most of the cost.
type known struct {
	shelves [shelves]shelf
}

type shelf [shelfSlots]atomic.Uint64

// Powers of two; together 4 MiB.
const (
	shelves    = 128
	shelfSlots = 4096
)

// reference is what a link is remembered by: where, and a hash of what it leads to.
type reference struct {
	shelf *shelf // nil: it cannot be remembered
	key   uint64
	known bool
}

// look says whether the reference is remembered.
func (r *reference) look() bool { return r.shelf != nil && r.shelf[r.key%shelfSlots].Load() == r.key }

func (r reference) remember() { r.shelf[r.key%shelfSlots].Store(r.key) }

// forget empties the cache: URLs that the frontier had may be gone.
func (k *known) forget() {
	for i := range k.shelves {
		for j := range k.shelves[i] {
			k.shelves[i][j].Store(0)
		}
	}
}

// origin is what a page lends to its references: those with a path of their own depend on its scheme and host, the
// others on its directory too.
type origin struct {
	known           *known
	host, directory uint64
}

func (k *known) origin(base identity.URL) origin {
	host := xxhash.Sum64String(base.Scheme + "://" + base.Host)
	path, _, _ := strings.Cut(base.Path, "?")
	return origin{known: k, host: host, directory: mix(host, xxhash.Sum64String(path[:strings.LastIndexByte(path, '/')+1]))}
}

// reference is that of a ref as it stands on a page of this origin; refs that depend on more than the directory have none. Absolute refs and those of the site itself meet where they lead to the same URL.
func (o origin) reference(ref string) reference {
	ref, _, _ = strings.Cut(ref, "#")
	host, within := o.host, o.host
	switch {
	case ref == "" || ref[0] == '?':
		return reference{}
	case ref[0] == '/':
	case strings.HasPrefix(ref, "http://") || strings.HasPrefix(ref, "https://"):
		i := strings.IndexByte(ref[len("https://"):], '/')
		if i < 0 {
			return reference{}
		}
		i += len("https://")
		host = xxhash.Sum64String(ref[:i])
		within, ref = host, ref[i:]
	default:
		within = o.directory
	}
	return reference{shelf: &o.known.shelves[host%shelves], key: mix(within, xxhash.Sum64String(ref))}
}

// mix joins two hashes into one.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, bits.RotateLeft64(b, 29)|1)
	return hi ^ lo ^ b
}
