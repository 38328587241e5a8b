package text

import "math/bits"

// nearBits is the largest distance of two near-duplicates. Manku, Jain and Das Sarma found 3 of 64 bits right for eight
// billion pages.
const nearBits = 3

// Two simhashes that differ in at most 3 bits have at least one of their four blocks in common. Each block has a table.
const (
	tables    = nearBits + 1
	blockBits = 64 / tables
)

// maxChain bounds how many pages with the same block are compared, the newest first. A hostile site could make any number
// of them.
const maxChain = 2048

// Near is an index of the simhashes of the newest pages. It finds near-duplicates. It is not safe for concurrent use.
type Near struct {
	hashes []uint64 // a ring
	keys   []uint64
	next   uint64 // how many were ever put
	heads  [tables][]uint64
	before [tables][]uint64 // for each place of the ring: the newest page before it with the same block, numbered as in next; 0 for none
}

// NewNear makes an index of the newest pages, at most size. It takes 2 MiB, and 48 bytes for each page.
func NewNear(size int) *Near {
	size = max(size, 1)
	n := &Near{hashes: make([]uint64, size), keys: make([]uint64, size)}
	for t := range tables {
		n.heads[t] = make([]uint64, 1<<blockBits)
		n.before[t] = make([]uint64, size)
	}
	return n
}

// Find returns the key of the near-duplicate nearest to a simhash. Of several, it returns the newest.
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

// Put adds a page. A full index forgets its oldest page.
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

// block16 returns the t-th block of a simhash.
func block16(simhash uint64, t int) uint64 { return simhash >> (t * blockBits) & (1<<blockBits - 1) }
