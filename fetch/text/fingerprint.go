package text

import (
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Fingerprint stands for what a page says. The zero value stands for none.
type Fingerprint struct {
	// Digest is of all words in their order, without what changes by itself: two texts with the same digest say the same.
	Digest uint64
	// Simhash differs in few bits where the texts differ in few words (Charikar 2002; Manku, Jain and Das Sarma,
	// "Detecting near-duplicates for web crawling", 2007).
	Simhash uint64
}

// OfBytes is the fingerprint of something that is no HTML: any other byte makes another.
func OfBytes(body []byte) Fingerprint {
	h := xxhash.Sum64(body)
	return Fingerprint{Digest: notZero(h), Simhash: h}
}

// Changed says whether a page that had the fingerprint before says something else now.
func (f Fingerprint) Changed(before Fingerprint) bool { return f.Digest != before.Digest }

// Distance is the number of bits in which the simhashes differ, from 0 to 64. At most 3 is a near-duplicate.
func (f Fingerprint) Distance(g Fingerprint) int { return bits.OnesCount64(f.Simhash ^ g.Simhash) }

// Difference estimates which part of the text is another, from 0 to 1, by the angle that the distance stands for. It is
// coarse: one sentence in a long page may not be seen in it.
func (f Fingerprint) Difference(g Fingerprint) float64 {
	return 1 - max(math.Cos(math.Pi*float64(f.Distance(g))/64), 0)
}

// golden is odd and without a pattern; its products are taken modulo 2^64.
const golden uint64 = 0x9e3779b97f4a7c15

// mix spreads the bits of x evenly (the finaliser of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// fingerprint makes that of a title and a text, the zero value where they have no word. A feature of the simhash is
// three words in a row.
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
