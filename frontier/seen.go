package frontier

import "github.com/cespare/xxhash/v2"

// seen answers most questions about novelty from a fixed amount of memory. It errs to one side only: what it calls
// new is new, what it calls a duplicate is one; for the rest the exact set of the host is asked. Only the ledger's
// goroutine uses it.
type seen struct {
	filter filter
	// recents holds the last hash of each slot: the links that every page of a site repeats end here.
	recents []uint64
	// sketch counts URLs by host and never too few of them (count-min, two rows): below the cap it is proof.
	sketch [2][]uint32
}

const (
	recentSlots = 1 << 19 // 4 MiB
	sketchSlots = 1 << 18 // 2 MiB for both rows
)

func newSeen(filterMiB int) *seen {
	s := &seen{
		filter:  newFilter(filterMiB),
		recents: make([]uint64, recentSlots),
	}
	for i := range s.sketch {
		s.sketch[i] = make([]uint32, sketchSlots)
	}
	return s
}

// recent says that the hash was seen lately. Hash 0 marks an empty slot and is never recent.
func (s *seen) recent(hash uint64) bool {
	return hash != 0 && s.recents[hash%recentSlots] == hash
}

// remember makes hash a recent one.
func (s *seen) remember(hash uint64) { s.recents[hash%recentSlots] = hash }

// forget makes hash no recent one.
func (s *seen) forget(hash uint64) {
	if slot := &s.recents[hash%recentSlots]; *slot == hash {
		*slot = 0
	}
}

// forgetAll makes all hashes no recent ones: they are looked up again, which costs time.
func (s *seen) forgetAll() { clear(s.recents) }

// perhaps adds hash to the filter and says whether it may have been there before; false is proof that it was not.
func (s *seen) perhaps(hash uint64) bool { return s.filter.testOrAdd(hash) }

// count notes n more URLs of a host and returns an upper bound of their number.
func (s *seen) count(host string, n int) uint32 {
	h := xxhash.Sum64String(host)
	a, b := &s.sketch[0][h%sketchSlots], &s.sketch[1][h>>32%sketchSlots]
	*a += uint32(n)
	*b += uint32(n)
	return min(*a, *b)
}
