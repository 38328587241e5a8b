package frontier

import (
	"math"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// sets keeps the exact seen sets of the hosts used last, within a bound on their bytes. The set in use stays even if it alone exceeds the
// bound. Only the ledger's goroutine uses it.
type sets struct {
	limit, bytes int
	hosts        *simplelru.LRU[string, hostSet]
	// least has the numbers of URLs of hosts that were found full. They may have grown since.
	least *simplelru.LRU[string, int]
}

// mostFull is how many full hosts are known. Each takes some 100 bytes.
const mostFull = 1 << 14

// hostSet is the exact seen set of a host, by the hashes of its URLs.
type hostSet map[uint64]urlState

// urlState is what an exact seen set knows of a URL: unknown, isDone, or two more than the depth of a pending one.
type urlState uint16

const (
	unknown urlState = iota
	isDone
)

func pendingAt(depth uint8) urlState { return urlState(depth) + 2 }

// deeper says whether a URL is pending and deeper than depth.
func (s urlState) deeper(depth uint8) bool { return s > pendingAt(depth) }

// digest sums up the URLs of the set, without what only the record tells.
func (s hostSet) digest() Digest {
	var d Digest
	for hash, state := range s {
		d.accept(hash)
		if state == isDone {
			d.end(hash)
		}
	}
	return d
}

// hashCost is the memory of a hash in a Go map, in bytes, with the load factor. setCost is that of an empty set.
const (
	hashCost = 18
	setCost  = 256
)

func newSets(limit int) *sets {
	s := &sets{limit: limit}
	s.hosts, _ = simplelru.NewLRU(math.MaxInt, func(_ string, set hostSet) { s.bytes -= setCost + hashCost*len(set) })
	s.least, _ = simplelru.NewLRU[string, int](mostFull, nil)
	return s
}

// get returns the set of a host; nil if it is not in memory.
func (s *sets) get(host string) hostSet {
	set, _ := s.hosts.Get(host)
	return set
}

// put takes the set of a host that has none in memory.
func (s *sets) put(host string, set hostSet) {
	s.hosts.Add(host, set)
	s.grow(setCost + hashCost*len(set))
}

// note puts a hash into the set of a host, if that is in memory.
func (s *sets) note(host string, hash uint64, state urlState) {
	if set := s.get(host); set != nil {
		before := len(set)
		set[hash] = state
		s.grow((len(set) - before) * hashCost)
	}
}

// grow notes that the set in use has grown, and removes those used longest ago if there are too many bytes.
func (s *sets) grow(bytes int) {
	for s.bytes += bytes; s.bytes > s.limit && s.hosts.Len() > 1; {
		s.hosts.RemoveOldest()
	}
}

// forget removes a host, some of whose URLs are forgotten.
func (s *sets) forget(host string) {
	s.hosts.Remove(host)
	s.least.Remove(host)
}

// marks is a set of hosts that takes little memory. For each host that it holds it may wrongly name another, with a chance of 2^-64.
type marks map[uint64]struct{}

func (m marks) add(host string)    { m[xxhash.Sum64String(host)] = struct{}{} }
func (m marks) remove(host string) { delete(m, xxhash.Sum64String(host)) }

func (m marks) has(host string) bool {
	_, ok := m[xxhash.Sum64String(host)]
	return ok
}

// hostEntry is the record of a host in the memory of the ledger.
type hostEntry struct {
	host string
	rec  record
	// droppedAt is the last sequence number at the time when its pending URLs were dropped.
	droppedAt uint64
	// stored says that the record is on disk, or on its way there.
	stored bool
	// next is the time in its key of kind 'n' (keys.go); 0 if it has none.
	next stamp
	// hinted counts the hints that were followed and whose pages have not been visited since, as far as it is known: not those of an
	// earlier life.
	hinted int
}
