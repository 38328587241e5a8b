package peer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

// On the shelf, a key is version, kind, length of the peer's id, id, number (8 bytes, big-endian): the blocks of a peer
// lie together, in the order in which they were added. A value is version, number of links (uvarint), and the links as
// the field of a DeliverRequest.
const (
	keyVersion   = 1
	blockVersion = 1

	kindQueued = 'q' // waits for its peer
	kindAside  = 'x' // cannot be read; kept for people
)

// blockKey is a key, decoded.
type blockKey struct {
	kind byte
	peer string
	seq  uint64
}

var (
	errKey   = errors.New("key of an outbox is damaged, or of another version")
	errBlock = errors.New("block of links is damaged, or of another version")
)

func encodeKey(kind byte, peer string, seq uint64) []byte {
	key := make([]byte, 0, 3+len(peer)+8)
	key = append(key, keyVersion, kind, byte(len(peer)))
	key = append(key, peer...)
	return binary.BigEndian.AppendUint64(key, seq)
}

func decodeKey(key []byte) (blockKey, error) {
	if len(key) < 3 || key[0] != keyVersion || key[1] != kindQueued && key[1] != kindAside ||
		len(key) != 3+int(key[2])+8 {
		return blockKey{}, fmt.Errorf("%w: %.40x", errKey, key)
	}
	k := blockKey{key[1], string(key[3 : 3+key[2]]), binary.BigEndian.Uint64(key[3+key[2]:])}
	if err := checkID(k.peer); err != nil {
		return blockKey{}, fmt.Errorf("%w: %w", errKey, err)
	}
	return k, nil
}

func encodeBlock(links []*wire.Link) ([]byte, error) {
	return encodeLinks(blockHead(len(links)), links)
}

// blockHead is the beginning of a block.
func blockHead(links int) []byte { return binary.AppendUvarint([]byte{blockVersion}, uint64(links)) }

// encodeLinks appends links as a block has them: what is encoded by parts is one list.
func encodeLinks(b []byte, links []*wire.Link) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(b, &wire.DeliverRequest{Links: links})
	if err != nil {
		return nil, fmt.Errorf("encode links: %w", err)
	}
	return b, nil
}

// maxBlockLinks bounds the number of links that a block claims to have.
const maxBlockLinks = 1 << 20

// blockLinks is the number of links that a block claims to have.
func blockLinks(value []byte) (int, error) {
	n, _, err := splitBlock(value)
	return n, err
}

func splitBlock(value []byte) (n int, links []byte, err error) {
	if len(value) < 2 || value[0] != blockVersion {
		return 0, nil, errBlock
	}
	count, used := binary.Uvarint(value[1:])
	if used <= 0 || count == 0 || count > maxBlockLinks {
		return 0, nil, errBlock
	}
	return int(count), value[1+used:], nil
}

func decodeBlock(value []byte) ([]*wire.Link, error) {
	n, body, err := splitBlock(value)
	if err != nil {
		return nil, err
	}
	var m wire.DeliverRequest
	if err := proto.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", errBlock, err)
	}
	if len(m.Links) != n || m.Header != nil {
		return nil, fmt.Errorf("%w: %d links, not %d", errBlock, len(m.Links), n)
	}
	return m.Links, nil
}

// fit is how many of the first links go into one block: at least one.
func fit(links []*wire.Link, maxLinks, maxBytes int) int {
	n, bytes := 0, 0
	for n < len(links) && n < maxLinks {
		// No less than it takes: the URL, and beside it the tags, lengths and numbers.
		if bytes += len(links[n].GetUrl()) + 40; n > 0 && bytes > maxBytes {
			break
		}
		n++
	}
	return n
}
