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
