package text

import "math/bits"

// nearBits is the largest distance of two near-duplicates (Manku, Jain and Das Sarma found 3 right for 64 bits over
// eight billion pages).
const nearBits = 3

// Of two simhashes in distance 3, one of four blocks is the same: one table is kept for each.
const (
	tables    = nearBits + 1
	blockBits = 64 / tables
)

// maxChain bounds how many of those with the same block are looked at, the newest first: a site can make as many as
// it likes.
const maxChain = 2048

// Near knows the simhashes of the newest pages and finds those that are nearly the same. It belongs to one
// goroutine.
type Near struct {
	hashes []uint64 // a ring
	keys   []uint64
	next   uint64 // how many were ever put
	heads  [tables][]uint64
	before [tables][]uint64 // of each place of the ring: the newest before it with the same block. All are numbers as next, 0 for none
}

// NewNear makes an index of at most size pages, the newest. It takes 2 MiB and 48 bytes a page.
func NewNear(size int) *Near {
	size = max(size, 1)
	n := &Near{hashes: make([]uint64, size), keys: make([]uint64, size)}
	for t := range tables {
		n.heads[t] = make([]uint64, 1<<blockBits)
		n.before[t] = make([]uint64, size)
	}
	return n
}

// Find returns the key of the page nearest to a simhash, where one is near: the one put last of several.
func (n *Near) Find(simhash uint64) (key uint64, found bool) {
	best := nearBits + 1
	for t := range tables {
		at := n.heads[t][block16(simhash, t)]
		for range maxChain {
			if at == 0 || at+uint64(len(n.hashes)) <= n.next {
				break // the end, or overwritten since
			}
			place := (at - 1) % uint64(len(n.hashes))
			if d := bits.OnesCount64(n.hashes[place] ^ simhash); d < best {
				best, key = d, n.keys[place]
			}
			if best == 0 {
				return key, true
			}
			at = n.before[t][place]
		}
	}
	return key, best <= nearBits
}

// Put adds a page, and forgets the oldest where the index is full.
func (n *Near) Put(simhash, key uint64) {
	place := n.next % uint64(len(n.hashes))
	n.next++
	n.hashes[place], n.keys[place] = simhash, key
	for t := range tables {
		head := &n.heads[t][block16(simhash, t)]
		n.before[t][place] = *head
		*head = n.next
	}
}

// block16 is the t-th block of a simhash.
func block16(simhash uint64, t int) uint64 { return simhash >> (t * blockBits) & (1<<blockBits - 1) }
