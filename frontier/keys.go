package frontier

import (
	"encoding/binary"
	"fmt"
)

// Layout of the keys on disk. Every key of a host starts with
//
//	version (1 byte) | kind (1 byte) | host | 0x00
//
// so that everything of one kind about one host is one range, and a hand-off is one range scan a kind. A host is that of
// identity.URL ("https://example.org") and holds no zero byte. Sequence numbers are big-endian, so that ranges are in order of acceptance; they
// count for the whole store, so that adding to a host needs no look at what the host has already.
//
//	kind 'h'  host record                                      → record (record.go)
//	kind 'q'  + origin (1 byte) + sequence (8 bytes): a block of pending URLs
//	                                                           → block (block.go); UserMeta = URLs in the block
//	kind 's'  + sequence (8 bytes): hashes of URLs that left their blocks
//	                                                           → 8 bytes each, little-endian
//	kind 'd'  + hash (8 bytes): a smaller depth found for a pending URL → 1 byte
//	kind 'r'  robots.txt                                       → opaque to the frontier
//
// Beside the hosts stands what other rooms of the node keep here (Shelf):
//
//	version | kind 'o' | table (1 byte) | key                  → opaque to the frontier
//
// One key stands alone: version | 'm' is the version of the whole layout and the name of the node that wrote it.
//
// In version 1 a host was an authority, for http and https alike.
const keyVersion = 2

const (
	kindHost    = 'h'
	kindPending = 'q'
	kindSeen    = 's'
	kindDepth   = 'd'
	kindRobots  = 'r'
	kindShelf   = 'o'
	kindMeta    = 'm'
)

func metaKey() []byte { return []byte{keyVersion, kindMeta} }

// kindPrefix is the prefix of all keys of a kind.
func kindPrefix(kind byte) []byte { return []byte{keyVersion, kind} }

// hostKey is the key of a host's record, and with another kind the prefix of the host's range.
func hostKey(kind byte, host string) []byte {
	key := make([]byte, 0, len(host)+3+9)
	key = append(key, keyVersion, kind)
	key = append(key, host...)
	return append(key, 0)
}

func pendingKey(host string, origin Origin, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(hostKey(kindPending, host), byte(origin)), seq)
}

func seenKey(host string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(hostKey(kindSeen, host), seq)
}

func depthKey(host string, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(hostKey(kindDepth, host), hash)
}

func robotsKey(host string) []byte { return hostKey(kindRobots, host) }

func shelfKey(table byte, key []byte) []byte {
	return append([]byte{keyVersion, kindShelf, table}, key...)
}

// splitKey takes a key of one of the host kinds apart: the host, and what follows its zero byte.
func splitKey(key []byte) (host string, rest []byte, err error) {
	if len(key) < 3 || key[0] != keyVersion {
		return "", nil, fmt.Errorf("read key %x: unknown version", key)
	}
	for i := 2; i < len(key); i++ {
		if key[i] == 0 {
			return string(key[2:i]), key[i+1:], nil
		}
	}
	return "", nil, fmt.Errorf("read key %x: no end of host", key)
}

// splitPending reads what follows the host in a key of a block.
func splitPending(rest []byte) (Origin, uint64, error) {
	if len(rest) != 9 || rest[0] >= byte(origins) {
		return 0, 0, fmt.Errorf("read key of a block: %d bytes after the host", len(rest))
	}
	return Origin(rest[0]), binary.BigEndian.Uint64(rest[1:]), nil
}
