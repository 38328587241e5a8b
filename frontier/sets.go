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
	hosts        *simplelru.LRU[string, *hostSet]
}

type hostSet struct{ hashes map[uint64]urlState }

// urlState is what an exact seen set knows of a URL: isDone, or one more than the depth of a pending one.
type urlState uint8

const isDone urlState = 0

// pendingAt returns the state of a pending URL. The depths 254 and 255 have the same state.
func pendingAt(depth uint8) urlState { return urlState(min(depth, 254)) + 1 }

// deeper says whether a URL is pending and deeper than depth.
func (s urlState) deeper(depth uint8) bool { return s != isDone && depth < uint8(s-1) }

// digest sums up the set.
func (s *hostSet) digest() Digest {
	var d Digest
	for hash, state := range s.hashes {
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
	s.hosts, _ = simplelru.NewLRU(math.MaxInt, func(_ string, set *hostSet) { s.bytes -= setCost + hashCost*len(set.hashes) })
	return s
}

// get returns the set of a host; nil if it is not in memory.
func (s *sets) get(host string) *hostSet {
	set, _ := s.hosts.Get(host)
	return set
}

// put makes an empty set for a host that has none in memory.
func (s *sets) put(host string) *hostSet {
	set := &hostSet{hashes: make(map[uint64]urlState)}
	s.hosts.Add(host, set)
	s.bytes += setCost
	return set
}

// add puts a hash into a set, and removes the sets used longest ago if there are too many bytes.
func (s *sets) add(set *hostSet, hash uint64, state urlState) {
	before := len(set.hashes)
	set.hashes[hash] = state
	s.bytes += (len(set.hashes) - before) * hashCost
	for s.bytes > s.limit && s.hosts.Len() > 1 {
		if _, last, _ := s.hosts.GetOldest(); last == set {
			break
		}
		s.hosts.RemoveOldest()
	}
}

// addEntries adds pending URLs.
func (s *sets) addEntries(set *hostSet, entries []entry) {
	for _, e := range entries {
		s.add(set, e.hash, pendingAt(e.Depth))
	}
}

func (s *sets) forget(host string) { s.hosts.Remove(host) }

// marks is a set of hosts that takes little memory. For each host that it holds it may wrongly name another, with a chance of 2^-64.
// Therefore callers look at the record before they act.
type marks map[uint64]struct{}

func (m marks) add(host string)    { m[xxhash.Sum64String(host)] = struct{}{} }
func (m marks) remove(host string) { delete(m, xxhash.Sum64String(host)) }

func (m marks) has(host string) bool {
	if len(m) == 0 {
		return false
	}
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

// newHostCache makes a cache of the records of the hosts used last. A record that falls out of it must be on disk, or it would be read
// back too old. Three batches can be on their way to the disk. They touch fewer than 10,240 hosts, so the cache holds at least that many.
func newHostCache(limit int) *simplelru.LRU[string, *hostEntry] {
	hosts, _ := simplelru.NewLRU[string, *hostEntry](max(limit, 10_240), nil)
	return hosts
}
