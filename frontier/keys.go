package frontier

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Layout of the keys on disk. Every key of a host starts with
//
//	version (1 byte) | kind (1 byte) | host | 0x00
//
// so that everything of one kind about one host is one range, and a hand-off scans one range of each kind. A host has the form of
// identity.URL.Host ("https://example.org") and holds no zero byte. Sequence numbers are big-endian, so that ranges are in the order of
// acceptance. One sequence serves the whole store, so that adding to a host needs no look at its other blocks.
//
//	kind 'h'  host record                                      → record (record.go)
//	kind 'q'  + origin (1 byte) + sequence (8 bytes): a block of pending URLs
//	                                                           → block (block.go); UserMeta = URLs in the block
//	kind 's'  + sequence (8 bytes): hashes of URLs that left their blocks
//	                                                           → 8 bytes each, little-endian
//	kind 'd'  + hash (8 bytes): a smaller depth found for a pending URL → 1 byte
//	kind 'r'  robots.txt                                       → opaque to the frontier
//	kind 'p'  + hash (8 bytes): a page that is visited again   → when it is due (4 bytes, big-endian)
//	kind 't'  + due (4 bytes) + hash (8 bytes)                 → page (page.go)
//
// Due times are seconds since 1970. Owned hosts are in the order in which their first page is due:
//
//	version | kind 'n' | due (4 bytes) | host                  → nothing
//
// Other packages of the node keep tables here, too (Shelf):
//
//	version | kind 'o' | table (1 byte) | key                  → opaque to the frontier
//
// There are two single keys: version | 'm' holds the version of the whole layout; version | 'a' holds the sample of pages from which the
// plan of visits is made.
//
// In version 1 a host was an authority for both http and https. Version 2 had no pages, version 3 no hints.
const keyVersion = 4

const (
	kindHost    = 'h'
	kindPending = 'q'
	kindSeen    = 's'
	kindDepth   = 'd'
	kindRobots  = 'r'
	kindPage    = 'p'
	kindDue     = 't'
	kindNext    = 'n'
	kindShelf   = 'o'
	kindMeta    = 'm'
	kindSample  = 'a'
)

// kindPrefix is the prefix of all keys of a kind, and the whole key of the kinds 'm' and 'a'.
func kindPrefix(kind byte) []byte { return []byte{keyVersion, kind} }

// hostKey is the key of a host's record or robots.txt. With another kind it is the prefix of the host's range.
func hostKey(kind byte, host string) []byte {
	key := make([]byte, 0, len(host)+3+12)
	key = append(key, keyVersion, kind)
	key = append(key, host...)
	return append(key, 0)
}

func pendingKey(host string, origin Origin, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(hostKey(kindPending, host), byte(origin)), seq)
}

// numberKey is a key of kind 's', 'd' or 'p'.
func numberKey(kind byte, host string, number uint64) []byte {
	return binary.BigEndian.AppendUint64(hostKey(kind, host), number)
}

func dueKey(host string, due stamp, hash uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(hostKey(kindDue, host), due), hash)
}

// nextKey is the key of a host among those with pages to visit again.
func nextKey(due stamp, host string) []byte {
	return append(binary.BigEndian.AppendUint32(kindPrefix(kindNext), due), host...)
}

func shelfKey(table byte, key []byte) []byte {
	return append([]byte{keyVersion, kindShelf, table}, key...)
}

// splitKey splits a key that begins with a host into the host and what follows its zero byte.
func splitKey(key []byte) (host string, rest []byte, err error) {
	if len(key) < 3 || key[0] != keyVersion {
		return "", nil, fmt.Errorf("read key %x: unknown version", key)
	}
	name, rest, ok := bytes.Cut(key[2:], []byte{0})
	if !ok {
		return "", nil, fmt.Errorf("read key %x: no end of host", key)
	}
	return string(name), rest, nil
}

// splitDue reads what follows the host in a key of a due page.
func splitDue(rest []byte) (stamp, uint64, error) {
	if len(rest) != 12 {
		return 0, 0, fmt.Errorf("read key of a page: %d bytes after the host", len(rest))
	}
	return binary.BigEndian.Uint32(rest), binary.BigEndian.Uint64(rest[4:]), nil
}

// splitNext reads a key that nextKey made.
func splitNext(key []byte) (stamp, string, error) {
	if len(key) < 7 || key[0] != keyVersion {
		return 0, "", fmt.Errorf("read key %x: it names no host", key)
	}
	return binary.BigEndian.Uint32(key[2:]), string(key[6:]), nil
}
