package text

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Fingerprint identifies the content of a page. The zero value stands for no content.
type Fingerprint struct {
	// Digest is a hash of all words in order, except those that change by themselves. Two texts with the same digest have the
	// same content.
	Digest uint64
	// Simhash differs in few bits where the texts differ in few words (Charikar 2002; Manku, Jain and Das Sarma,
	// "Detecting near-duplicates for web crawling", 2007).
	Simhash uint64
}

// OfBytes returns the fingerprint of a body that is not HTML. Any change of a byte changes it.
func OfBytes(body []byte) Fingerprint {
	h := xxhash.Sum64(body)
	return Fingerprint{Digest: notZero(h), Simhash: h}
}

// Changed reports whether the content of a page has changed since it had the fingerprint before.
func (f Fingerprint) Changed(before Fingerprint) bool { return f.Digest != before.Digest }

// Distance returns the number of bits in which the simhashes differ, from 0 to 64. Near-duplicates differ in at most 3.
func (f Fingerprint) Distance(g Fingerprint) int { return bits.OnesCount64(f.Simhash ^ g.Simhash) }

// golden is an odd number whose bits have no pattern: 2^64 divided by the golden ratio.
const golden uint64 = 0x9e3779b97f4a7c15

// mix spreads the bits of x evenly (the finaliser of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// fingerprint computes the fingerprint of a title and a text. It is the zero value if they have no word. A feature of the
// simhash is three words in a row.
func fingerprint(title, text string) Fingerprint {
	var counts [64]int32
	var digest, before, last uint64
	n := int32(0)
	words := func(word uint64) {
		digest = mix(digest*golden + word)
		feature := mix(word + golden*(last+golden*before))
		for i := range counts {
			counts[i] += int32(feature >> i & 1)
		}
		before, last = last, word
		n++
	}
	significant(title, words)
	significant(text, words)
	if n == 0 {
		return Fingerprint{}
	}
	f := Fingerprint{Digest: notZero(digest)}
	for i, c := range counts {
		if 2*c > n {
			f.Simhash |= 1 << i
		}
	}
	return f
}

func notZero(digest uint64) uint64 { return max(digest, 1) }

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
