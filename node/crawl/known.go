package crawl

import (
	"bytes"
	"math/bits"
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier/identity"
)

// known remembers references whose URLs the frontier has. Every page of a site repeats the same navigation: its links are then neither
// resolved nor offered again. A small cache saves most of this work, and a reference that it forgets is only looked up in the frontier.
// It is safe for concurrent use, because a place is one atomic word.
//
// References to one host lie in one shelf, so that reading a page touches little memory. That is most of the cost.
type known struct {
	// ages are part of the keys of a host's references. When its age changes, none of them is found any more.
	ages    [ages]atomic.Uint64
	shelves [shelves]shelf
}

// shelf has rows of several places. With one place, two references with the same hash would replace each other on every page.
type shelf [shelfRows]row

// row is half a cache line, so that looking at all its places costs as much as looking at one.
type row [4]atomic.Uint64

// These are powers of two. All shelves together have 4 MiB.
const (
	ages      = 1024
	shelves   = 128
	shelfRows = 1024
)

// reference identifies a link by a hash of its target, and says where it is remembered.
type reference struct {
	shelf *shelf // nil if it cannot be remembered
	key   uint64
	known bool
	host  uint64 // the hash of the host of its URL, for remember
}

// isKnown reports whether the reference is remembered.
func (r *reference) isKnown() bool {
	if r.shelf == nil {
		return false
	}
	places := &r.shelf[r.key%shelfRows]
	return places[0].Load() == r.key || places[1].Load() == r.key || places[2].Load() == r.key || places[3].Load() == r.key
}

// remember stores the reference in a free place, or replaces another one.
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

// forget forgets the references to a host, including those of pages that are being read: the frontier may have lost their URLs. It also
// forgets the few other hosts that share its age. It does not forget references that spell the host in another way.
func (k *known) forget(host string) { k.ages[xxhash.Sum64String(host)%ages].Add(1) }

// origin is what the references of a page depend on: those that begin with a slash on its scheme and host, the others on its directory,
// too.
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

// maxJoined bounds the length of a path that joined returns, in bytes.
const maxJoined = 512

// joined returns the path that a relative reference leads to, in buf. ok is false where that is not certain: the reference may have a scheme, or
// bytes that the parser removes or replaces.
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

// reference returns the reference of a ref on a page of this origin. It cannot be remembered if the ref may depend on more than the
// directory. References are equal if they lead to the same URL, whether they are absolute, begin with a slash, or are relative (most of
// them).
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
			within = ^host // a host may follow; behind the host of an absolute ref the same text is a path
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
			return reference{} // it may depend on the whole URL of the page: " ", or "http:?x"
		}
		return o.known.at(host, host, xxhash.Sum64(path))
	}
	return o.known.at(host, within, xxhash.Sum64(ref))
}

// at returns the reference for hashes of a host, of what the path is relative to, and of the path.
func (k *known) at(host, within, path uint64) reference {
	return reference{shelf: &k.shelves[host%shelves], key: mix(within+k.ages[host%ages].Load(), path)}
}

// mix hashes two hashes. The result depends on their order.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, bits.RotateLeft64(b, 29)|1)
	return hi ^ lo ^ b
}
