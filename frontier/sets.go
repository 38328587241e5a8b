package frontier

import (
	"container/list"
	"encoding/binary"
)

// sets keeps the exact seen sets of the hosts asked for last, within a bound of bytes. One set may pass the bound
// alone: it is needed. Only the ledger's goroutine uses it.
type sets struct {
	limit, bytes int
	byHost       map[string]*list.Element
	lru          list.List // of *hostSet, latest first
}

type hostSet struct {
	host string
	// hashes maps to the depth of a pending URL, and to 0 for one that is done: nothing is less deep.
	hashes map[uint64]uint8
}

// hashCost is the memory of a hash in a Go map, in bytes, load factor included; setCost that of an empty set.
const (
	hashCost = 18
	setCost  = 256
)

func newSets(limit int) *sets {
	return &sets{limit: limit, byHost: make(map[string]*list.Element)}
}

func (s *sets) get(host string) *hostSet {
	el := s.byHost[host]
	if el == nil {
		return nil
	}
	s.lru.MoveToFront(el)
	return el.Value.(*hostSet)
}

func (s *sets) put(host string) *hostSet {
	s.forget(host)
	set := &hostSet{host: host, hashes: make(map[uint64]uint8)}
	s.byHost[host] = s.lru.PushFront(set)
	s.bytes += setCost
	return set
}

func (s *sets) add(set *hostSet, hash uint64, depth uint8) {
	before := len(set.hashes)
	set.hashes[hash] = depth
	s.bytes += (len(set.hashes) - before) * hashCost
	for s.bytes > s.limit && s.lru.Len() > 1 {
		last := s.lru.Back().Value.(*hostSet)
		if last == set {
			break
		}
		s.forget(last.host)
	}
}

func (s *sets) forget(host string) {
	if el := s.byHost[host]; el != nil {
		s.bytes -= setCost + hashCost*len(el.Value.(*hostSet).hashes)
		s.lru.Remove(el)
		delete(s.byHost, host)
	}
}

func appendHashes(b []byte, hashes []uint64) []byte {
	for _, h := range hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return b
}

// hostCache keeps the records of the hosts used last. A record that falls out is on disk, or in one of the two batches on
// their way there: the cache holds more records than those touch, so that none is read back before it is written.
type hostCache struct {
	limit  int
	byHost map[string]*list.Element
	lru    list.List // of *hostEntry, latest first
}

type hostEntry struct {
	host string
	rec  record
	// droppedAt is the last sequence number when its pending URLs were dropped.
	droppedAt uint64
}

// newHostCache makes a cache of at least 1,024 records: more than two batches touch, see hostCache.
func newHostCache(limit int) *hostCache {
	return &hostCache{limit: max(limit, 1024), byHost: make(map[string]*list.Element)}
}

func (c *hostCache) get(s *store, host string) (*hostEntry, error) {
	if el := c.byHost[host]; el != nil {
		c.lru.MoveToFront(el)
		return el.Value.(*hostEntry), nil
	}
	h := &hostEntry{host: host}
	value, err := s.get(hostKey(kindHost, host))
	if err != nil {
		return nil, err
	}
	if value != nil {
		if h.rec, err = decodeRecord(host, value); err != nil {
			return nil, err
		}
	}
	c.byHost[host] = c.lru.PushFront(h)
	for c.lru.Len() > c.limit {
		last := c.lru.Remove(c.lru.Back()).(*hostEntry)
		delete(c.byHost, last.host)
	}
	return h, nil
}
