package crawl

import (
	"bytes"
	"math/bits"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier/identity"
)

// known remembers references that led to URLs which the frontier has: the navigation that every page of a site repeats
// is then neither resolved nor offered again. A small cache saves most of the work; what it forgets costs a look at the
// frontier, nothing else. Safe for concurrent use: a place is one atomic word.
//
// What one host's pages refer to lies in one shelf: a page touches few pages of memory, which is most of the cost.
type known struct {
	// ages are part of the references to a host, by its hash: one more, and all that were remembered are strangers.
	ages    [ages]atomic.Uint64
	shelves [shelves]shelf
}

// shelf has several places for each reference: with one alone, two that meet there would push each other out with every page.
type shelf [shelfRows]row

// row is half a cache line: the places looked at cost no more than one.
type row [4]atomic.Uint64

// Powers of two; the shelves have 4 MiB together.
const (
	ages      = 1024
	shelves   = 128
	shelfRows = 1024
)

// reference is what a link is remembered by: where, and a hash of what it leads to.
type reference struct {
	shelf *shelf // nil: it cannot be remembered
	key   uint64
	known bool
}

// look says whether the reference is remembered.
func (r *reference) look() bool {
	if r.shelf == nil {
		return false
	}
	places := &r.shelf[r.key%shelfRows]
	return places[0].Load() == r.key || places[1].Load() == r.key || places[2].Load() == r.key || places[3].Load() == r.key
}

// remember takes a free place, or that of another.
func (r *reference) remember() {
	places := &r.shelf[r.key%shelfRows]
	at := &places[r.key>>32%uint64(len(places))]
	for i := range places {
		if v := places[i].Load(); v == 0 || v == r.key {
			at = &places[i]
			break
		}
	}
	at.Store(r.key)
}

// forget makes the references to a host unknown, those of pages that are being read, too: URLs that the frontier had may be gone.
// A few other hosts share its age, and are forgotten with it. A reference that spells the host in another way is not.
func (k *known) forget(host string) { k.ages[xxhash.Sum64String(host)%ages].Add(1) }

// origin is what a page lends to its references: those with a path of their own depend on its scheme and host, the
// others on its directory too.
type origin struct {
	known     *known
	host      uint64
	directory string // of the path, from / to /
}

func (k *known) origin(base identity.URL) origin {
	host := xxhash.Sum64String(base.Host)
	path, _, _ := strings.Cut(base.Path, "?")
	return origin{known: k, host: host, directory: path[:strings.LastIndexByte(path, '/')+1]}
}

// maxJoined bounds the paths, in bytes, that relative refs are joined to.
const maxJoined = 512

// joined puts a relative ref behind the directory it stands in: what comes out leads, as a path of its own, to the same URL.
// ok is false where that is not sure: refs that may have a scheme, or bytes that the parser drops or turns round.
func (o origin) joined(buf *[maxJoined]byte, ref []byte) (path []byte, ok bool) {
	for i := range len(ref) {
		if c := ref[i]; c <= ' ' || c == ':' || c == '\\' {
			return nil, false
		}
	}
	dir := o.directory
	for {
		if rest, ok := bytes.CutPrefix(ref, []byte("./")); ok {
			ref = rest
		} else if rest, ok := bytes.CutPrefix(ref, []byte("../")); ok && dir != "" {
			ref = rest
			if len(dir) > 1 {
				dir = dir[:strings.LastIndexByte(dir[:len(dir)-1], '/')+1]
			}
		} else {
			break
		}
	}
	if dir == "" || len(dir)+len(ref) > maxJoined {
		return nil, false
	}
	path = append(append(buf[:0], dir...), ref...)
	return path, len(path) < 2 || path[1] != '/' // "//x" is a host
}

// reference is that of a ref as it stands on a page of this origin; refs that depend, or may, on more than the directory
// have none.
// Absolute refs, those of the site itself and most relative ones meet where they lead to the same URL.
func (o origin) reference(ref []byte) reference {
	if i := bytes.IndexByte(ref, '#'); i >= 0 {
		ref = ref[:i]
	}
	host, within := o.host, o.host
	switch {
	case len(ref) == 0 || ref[0] == '?':
		return reference{}
	case ref[0] == '/':
		if len(ref) > 1 && (ref[1] == '/' || ref[1] == '\\' || ref[1] <= ' ') {
			within = ^host // a host of its own may follow: behind an absolute ref's host the same text is a path
		}
	case bytes.HasPrefix(ref, []byte("http://")) || bytes.HasPrefix(ref, []byte("https://")):
		if len(ref) < len("https://") { // no host
			return reference{}
		}
		i := bytes.IndexByte(ref[len("https://"):], '/')
		if i < 0 {
			return reference{}
		}
		i += len("https://")
		host = xxhash.Sum64(ref[:i])
		within, ref = host, ref[i:]
	default:
		var buf [maxJoined]byte
		path, ok := o.joined(&buf, ref)
		if !ok {
			return reference{} // it may be the whole page that it depends on: " ", or "http:?x"
		}
		return o.known.at(host, host, xxhash.Sum64(path))
	}
	return o.known.at(host, within, xxhash.Sum64(ref))
}

// at is the reference to a path, by its hash, within something of a host.
func (k *known) at(host, within, path uint64) reference {
	return reference{shelf: &k.shelves[host%shelves], key: mix(within+k.ages[host%ages].Load(), path)}
}

// mix joins two hashes into one.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, bits.RotateLeft64(b, 29)|1)
	return hi ^ lo ^ b
}
