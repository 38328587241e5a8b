package frontier

import (
	"encoding/binary"

	"github.com/bits-and-blooms/bloom/v3"
)

// filter remembers hashes in a fixed amount of memory and errs to one side. The looks into a Bloom filter fall everywhere,
// so that one of the size of a large crawl costs a small crawl all of its memory, and the processor's caches with it: the
// first hashes are kept as they are, until there are too many.
type filter struct {
	few  map[uint64]struct{} // nil when all of them are in many
	many *bloom.BloomFilter  // nil until then
	bits uint                // of many
}

const (
	filterHashes = 6
	// mostFew is how many hashes are kept as they are: some 10 MiB.
	mostFew = 1 << 19
)

func newFilter(mib int) filter {
	return filter{few: make(map[uint64]struct{}), bits: uint(mib) << 23}
}

// testOrAdd adds hash and says whether it may have been there before; false is proof that it was not.
func (f *filter) testOrAdd(hash uint64) bool {
	var b [8]byte
	if f.few == nil {
		binary.LittleEndian.PutUint64(b[:], hash)
		return f.many.TestOrAdd(b[:])
	}
	before := len(f.few)
	f.few[hash] = struct{}{}
	if len(f.few) == before {
		return true
	}
	if len(f.few) > mostFew { // a tenth of a second, once
		f.many = bloom.New(f.bits, filterHashes)
		for hash := range f.few {
			binary.LittleEndian.PutUint64(b[:], hash)
			f.many.Add(b[:])
		}
		f.few = nil
	}
	return false
}
