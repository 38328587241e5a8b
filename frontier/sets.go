package frontier

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// sets keeps the exact seen sets of the hosts asked for last, within a bound of bytes. One set may pass the bound
// alone: it is needed. Only the ledger's goroutine uses it.
type sets struct {
	limit, bytes int
	hosts        *simplelru.LRU[string, *hostSet]
}

type hostSet struct{ hashes map[uint64]urlState }

// urlState is what an exact seen set knows of a URL: isDone, or one more than the depth of a pending one.
type urlState uint8

const isDone urlState = 0

// pendingAt is the state of a pending URL. The two largest depths are one.
func pendingAt(depth uint8) urlState { return urlState(min(depth, 254)) + 1 }

// deeper says that a URL is pending and deeper than depth.
func (s urlState) deeper(depth uint8) bool { return s != isDone && depth < uint8(s-1) }

// digest sums the set up.
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

// hashCost is the memory of a hash in a Go map, in bytes, load factor included; setCost that of an empty set.
const (
	hashCost = 18
	setCost  = 256
)

func newSets(limit int) *sets {
	s := &sets{limit: limit}
	s.hosts, _ = simplelru.NewLRU(math.MaxInt, func(_ string, set *hostSet) { s.bytes -= setCost + hashCost*len(set.hashes) })
	return s
}

// get is the set of a host, nil where it is not in memory.
func (s *sets) get(host string) *hostSet {
	set, _ := s.hosts.Get(host)
	return set
}

func (s *sets) put(host string) *hostSet {
	s.forget(host)
	set := &hostSet{hashes: make(map[uint64]urlState)}
	s.hosts.Add(host, set)
	s.bytes += setCost
	return set
}

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
		s.add(set, e.hash, pendingAt(e.depth))
	}
}

func (s *sets) forget(host string) { s.hosts.Remove(host) }

// marks is a set of hosts that takes little memory. It may hold a host too many, with a chance of 2^-64 for each that
// it holds: whoever asks looks at the record before it acts.
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

func appendHashes(b []byte, hashes []uint64) []byte {
	for _, h := range hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return b
}

// hostCache keeps the records of the hosts used last. A record that falls out is on disk, or in one of the three batches
// on their way there: the cache holds more records than those touch, so that none is read back before it is written.
type hostCache struct {
	hosts *simplelru.LRU[string, *hostEntry]
}

type hostEntry struct {
	host string
	rec  record
	// droppedAt is the last sequence number when its pending URLs were dropped.
	droppedAt uint64
	// stored says that the record is on disk, or on its way there.
	stored bool
	// next is where the host stands among those with pages to visit again, 0: nowhere.
	next stamp
}

// newHostCache makes a cache of at least 10,240 records: more than three batches touch, see hostCache.
func newHostCache(limit int) *hostCache {
	hosts, _ := simplelru.NewLRU[string, *hostEntry](max(limit, 10_240), nil)
	return &hostCache{hosts}
}

func (c *hostCache) get(s *store, host string) (*hostEntry, error) {
	if h, ok := c.hosts.Get(host); ok {
		return h, nil
	}
	h := &hostEntry{host: host}
	err := s.db.View(func(txn *badger.Txn) (err error) {
		h.rec, h.stored, err = readRecord(txn, host)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read store: %w", err)
	}
	h.next = h.rec.nextAt()
	c.hosts.Add(host, h)
	return h, nil
}
