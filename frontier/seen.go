package frontier

import (
	"encoding/binary"
	"math"

	"github.com/bits-and-blooms/bloom/v3"
	"github.com/cespare/xxhash/v2"
)

// seen says of most URLs whether they are new, and needs a fixed amount of memory. What it calls new is new, and what it calls recent is
// known. For the rest it gives no answer, and the exact set of the host decides. Only the ledger's goroutine uses it.
type seen struct {
	// A Bloom filter for a large crawl is written to everywhere, so even a small crawl would need all of its memory. Therefore the first
	// hashes are in a map.
	few  map[uint64]struct{} // nil when all of them are in many
	many *bloom.BloomFilter  // nil until then
	bits uint                // of many
	// recents holds the last hash of each slot. It recognises the links that every page of a site repeats.
	recents []uint64
	// sketch counts the URLs of each host, perhaps too many but never too few (a count-min sketch with two rows).
	sketch [2][]uint32
}

const (
	filterHashes = 6
	mostFew      = 1 << 19 // some 10 MiB
	recentSlots  = 1 << 19 // 4 MiB
	sketchSlots  = 1 << 18 // 2 MiB for both rows
)

// newSeen makes the filter of so many MiB, which it takes only when there are too many hashes for a map.
func newSeen(filterMiB int) *seen {
	s := &seen{
		few: make(map[uint64]struct{}), bits: uint(filterMiB) << 23,
		recents: make([]uint64, recentSlots),
	}
	for i := range s.sketch {
		s.sketch[i] = make([]uint32, sketchSlots)
	}
	return s
}

// recent says whether a hash was seen lately. Hash 0 marks an empty slot and is never recent.
func (s *seen) recent(hash uint64) bool {
	return hash != 0 && s.recents[hash%recentSlots] == hash
}

// remember makes a hash a recent one, in the place of another.
func (s *seen) remember(hash uint64) { s.recents[hash%recentSlots] = hash }

// forget removes a hash from the recent ones.
func (s *seen) forget(hash uint64) {
	if slot := &s.recents[hash%recentSlots]; *slot == hash {
		*slot = 0
	}
}

// forgetAll removes all hashes from the recent ones. They are looked up again, which costs time.
func (s *seen) forgetAll() { clear(s.recents) }

// mayHave is testAndAdd that adds nothing.
func (s *seen) mayHave(hash uint64) bool {
	if s.few == nil {
		return s.many.Test(binary.LittleEndian.AppendUint64(nil, hash))
	}
	_, ok := s.few[hash]
	return ok
}

// testAndAdd reports whether a hash may be known (otherwise it is new), and adds it to the filter.
func (s *seen) testAndAdd(hash uint64) bool {
	var b [8]byte
	if s.few == nil {
		binary.LittleEndian.PutUint64(b[:], hash)
		return s.many.TestOrAdd(b[:])
	}
	before := len(s.few)
	s.few[hash] = struct{}{}
	if len(s.few) == before {
		return true
	}
	if len(s.few) > mostFew { // this takes a tenth of a second, once
		s.many = bloom.New(s.bits, filterHashes)
		for hash := range s.few {
			binary.LittleEndian.PutUint64(b[:], hash)
			s.many.Add(b[:])
		}
		s.few = nil
	}
	return false
}

// count notes n more URLs of a host and returns an upper bound of their number.
func (s *seen) count(host string, n int) uint32 {
	h := xxhash.Sum64String(host)
	a, b := &s.sketch[0][h%sketchSlots], &s.sketch[1][h>>32%sketchSlots]
	*a += min(uint32(n), math.MaxUint32-*a) // refused URLs count, too, so that it gets there
	*b += min(uint32(n), math.MaxUint32-*b)
	return min(*a, *b)
}
