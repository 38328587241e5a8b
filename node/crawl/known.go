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

func (s *shelf) has(key uint64) bool { return s[key%shelfSlots].Load() == key }

func (s *shelf) add(keys []uint64) {
	for _, key := range keys {
		s[key%shelfSlots].Store(key)
	}
}

// forget empties the cache: URLs that the frontier had may be gone.
func (k *known) forget() {
	for i := range k.shelves {
		for j := range k.shelves[i] {
			k.shelves[i][j].Store(0)
		}
	}
}

// origin is the part of a key that a page lends to its references: those with a path of their own depend on its
// scheme and host, the others on its directory too.
type origin struct {
	host, directory uint64
	shelf           *shelf
}

func (k *known) origin(base identity.URL) origin {
	host := xxhash.Sum64String(base.Scheme + "://" + base.Host)
	path, _, _ := strings.Cut(base.Path, "?")
	return origin{host: host, shelf: &k.shelves[host%shelves], directory: mix(host, xxhash.Sum64String(path[:strings.LastIndexByte(path, '/')+1]))}
}

// key is that of a reference on a page of this origin; false for references that depend on more than the directory.
func (o origin) key(ref string) (uint64, bool) {
	h := xxhash.Sum64String(ref)
	switch {
	case ref == "" || ref[0] == '?' || ref[0] == '#':
		return 0, false
	case ref[0] == '/':
		return mix(o.host, h), true
	}
	return mix(o.directory, h), true
}

// mix joins two hashes into one.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, bits.RotateLeft64(b, 29)|1)
	return hi ^ lo ^ b
}
