package peer

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

// A key on the shelf is: version, kind, length of the peer's id, id, number (8 bytes, big-endian). So the blocks of one
// peer lie together, in the order in which they were added. A value is: version, number of links (uvarint), and the links
// encoded as the links field of a DeliverRequest.
const (
	keyVersion   = 1
	blockVersion = 1

	kindQueued = 'q' // waiting to be delivered
	kindAside  = 'x' // unreadable; kept for people to look at
)

type blockKey struct {
	kind byte
	peer string
	seq  uint64
}

var (
	errKey   = errors.New("outbox key is damaged or of another version")
	errBlock = errors.New("block of links is damaged or of another version")
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
	end := 3 + int(key[2])
	k := blockKey{key[1], string(key[3:end]), binary.BigEndian.Uint64(key[end:])}
	if err := checkID(k.peer); err != nil {
		return blockKey{}, fmt.Errorf("%w: %w", errKey, err)
	}
	return k, nil
}

// encodeLinks encodes links as the body of a block. Bodies can be concatenated.
func encodeLinks(links []*wire.Link) ([]byte, error) {
	b, err := proto.Marshal(&wire.DeliverRequest{Links: links})
	if err != nil {
		return nil, fmt.Errorf("encode links: %w", err)
	}
	return b, nil
}

// encodeBlock puts the head of a block before a body of n links.
func encodeBlock(n int, body []byte) []byte {
	return append(binary.AppendUvarint([]byte{blockVersion}, uint64(n)), body...)
}

// maxBlockLinks bounds the number of links that a block may claim to have.
const maxBlockLinks = 1 << 20

// splitBlock returns the number of links that a block claims to have, and its body.
func splitBlock(value []byte) (n int, body []byte, err error) {
	if len(value) < 2 || value[0] != blockVersion {
		return 0, nil, errBlock
	}
	count, used := binary.Uvarint(value[1:])
	if used <= 0 || count == 0 || count > maxBlockLinks {
		return 0, nil, errBlock
	}
	return int(count), value[1+used:], nil
}

// claimed returns the number of links that a block claims to have, one if it is unreadable: it is set aside when it is sent.
func claimed(value []byte) int {
	n, _, _ := splitBlock(value) //nolint:errcheck // see above
	return max(n, 1)
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

// fit returns how many of the first links go into one block, at least one.
func fit(links []*wire.Link, maxLinks, maxBytes int) int {
	n, bytes := 0, 0
	for n < len(links) && n < maxLinks {
		// An upper bound: the URL, plus tags, lengths and numbers.
		if bytes += len(links[n].GetUrl()) + 40; n > 0 && bytes > maxBytes {
			break
		}
		n++
	}
	return n
}
