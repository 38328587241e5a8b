package blocklist

import (
	"math/bits"
	"slices"
)

// set holds 64-bit hashes in open addressing, three quarters full: 10.7 bytes an entry. The texts are not kept, since
// what matched is its own text. A name that is not in a set of a million is taken for one that is with a probability of
// 5·10⁻¹⁴, and nobody can search for such names, as hashes are seeded at random. A map of strings takes 56 bytes
// an entry (measured, with names of 26 bytes), and its garbage collection would look at each.
type set struct {
	slots []uint64 // 0 is an empty one
	n     int
}

// newSet makes a set of hashes, which it sorts.
func newSet(hashes []uint64) set {
	if len(hashes) == 0 {
		return set{}
	}
	slices.Sort(hashes)
	hashes = slices.Compact(hashes)
	s := set{slots: make([]uint64, len(hashes)+len(hashes)/3+1), n: len(hashes)}
	for _, h := range hashes {
		h = nonZero(h)
		i := s.slot(h)
		for s.slots[i] != 0 {
			i = s.next(i)
		}
		s.slots[i] = h
	}
	return s
}

func (s *set) has(h uint64) bool {
	if s.n == 0 {
		return false
	}
	h = nonZero(h)
	for i := s.slot(h); s.slots[i] != 0; i = s.next(i) {
		if s.slots[i] == h {
			return true
		}
	}
	return false
}

// slot is where h belongs: its share of the whole range of hashes.
func (s *set) slot(h uint64) int {
	hi, _ := bits.Mul64(h, uint64(len(s.slots)))
	return int(hi)
}

func (s *set) next(i int) int {
	if i++; i == len(s.slots) {
		return 0
	}
	return i
}

func nonZero(h uint64) uint64 { return max(h, 1) }
