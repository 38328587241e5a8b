package lease

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Shelf is a durable map, safe for concurrent use. Get returns nil, nil for an unknown key. Scan visits the keys with a prefix, and visit may
// keep what it gets.
type Shelf interface {
	Get(key []byte) ([]byte, error)
	Put(key, value []byte) error
	Delete(key []byte) error
	Scan(prefix []byte, visit func(key, value []byte) error) error
}

// memories stores the memories of servers, as bytes. It is safe for concurrent use.
//
//	key    version (1 byte) | 'k' | address (4 or 16 bytes)
//	value  version (1 byte) | when it was stored, seconds since 1970 (8 bytes, little-endian) | assign.Memory
//
// The time is compared only with the clock of the machine that wrote it.
type memories struct {
	shelf Shelf
}

const (
	memoryKeyVersion   = 1
	memoryKeyKind      = 'k'
	memoryValueVersion = 1
	memoryHead         = 9
)

func memoryKey(addr netip.Addr) []byte {
	return append([]byte{memoryKeyVersion, memoryKeyKind}, addr.AsSlice()...)
}

// put stores the memory of a server.
func (m *memories) put(addr netip.Addr, memory []byte, now time.Time) error {
	value := make([]byte, 0, memoryHead+len(memory))
	value = append(value, memoryValueVersion)
	value = binary.LittleEndian.AppendUint64(value, uint64(now.Unix()))
	value = append(value, memory...)
	if err := m.shelf.Put(memoryKey(addr), value); err != nil {
		return fmt.Errorf("store memory of server %v: %w", addr, err)
	}
	return nil
}

// get reads the memory of a server and its age, nil if there is none. A damaged one counts as none.
func (m *memories) get(addr netip.Addr, now time.Time) ([]byte, time.Duration, error) {
	value, err := m.shelf.Get(memoryKey(addr))
	if err != nil {
		return nil, 0, fmt.Errorf("read memory of server %v: %w", addr, err)
	}
	stored, ok := storedAt(value)
	if !ok {
		return nil, 0, nil
	}
	return value[memoryHead:], max(0, now.Sub(stored)), nil
}

// storedAt reads the head of a value, false if it is damaged.
func storedAt(value []byte) (time.Time, bool) {
	if len(value) < memoryHead || value[0] != memoryValueVersion {
		return time.Time{}, false
	}
	return time.Unix(int64(min(binary.LittleEndian.Uint64(value[1:]), 1<<40)), 0), true
}

// sweep deletes memories that are too old or damaged, and the oldest if there are too many.
func (m *memories) sweep(keep time.Duration, most int, now time.Time) error {
	type entry struct {
		key    string
		stored int64
	}
	var left []entry
	var gone [][]byte
	err := m.shelf.Scan([]byte{memoryKeyVersion, memoryKeyKind}, func(key, value []byte) error {
		stored, ok := storedAt(value)
		if !ok || now.Sub(stored) > keep {
			gone = append(gone, key)
		} else {
			left = append(left, entry{string(key), stored.Unix()})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sweep memories of servers: %w", err)
	}
	if over := len(left) - most; over > 0 {
		slices.SortFunc(left, func(a, b entry) int { return cmp.Compare(a.stored, b.stored) })
		for _, e := range left[:over] {
			gone = append(gone, []byte(e.key))
		}
	}
	for _, key := range gone {
		if err := m.shelf.Delete(key); err != nil {
			return fmt.Errorf("sweep memories of servers: %w", err)
		}
	}
	return nil
}
