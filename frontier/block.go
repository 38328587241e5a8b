package frontier

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"proxima/frontier/identity"
)

// A block is a run of pending URLs of one host and one origin, in the order in which they were accepted. On disk:
//
//	version (1 byte, 1) | form (1 byte: 0 plain, 1 zstd) | body
//	body: for each URL: flags (1 byte) | depth | hops | attempt | length of path (uvarints) | path
//
// The host is not repeated. Flags bit 0 is a sitemap.
const (
	blockVersion  = 1
	blockPlain    = 0
	blockZstd     = 1
	flagSitemap   = 1 << 0
	maxBlockURLs  = 128
	maxBlockBytes = 32 << 10
	compressAbove = 384 // bytes: below, zstd's frame costs more than it saves
)

// entry is a pending URL of a host that is known from elsewhere.
type entry struct {
	path    string
	hash    uint64
	flags   byte
	depth   uint8
	hops    uint8
	attempt uint8
}

func (e entry) url(host string) identity.URL { return identity.URL{Host: host, Path: e.path} }

// appendEntry appends an entry to the plain body of a block.
func appendEntry(b []byte, e entry) []byte {
	b = append(b, e.flags)
	b = binary.AppendUvarint(b, uint64(e.depth))
	b = binary.AppendUvarint(b, uint64(e.hops))
	b = binary.AppendUvarint(b, uint64(e.attempt))
	b = binary.AppendUvarint(b, uint64(len(e.path)))
	return append(b, e.path...)
}

// codec compresses and decompresses blocks. It is safe for concurrent use.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(128<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("create block encoder: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(1<<20),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("create block decoder: %w", err)
	}
	return &codec{enc: enc, dec: dec}, nil
}

func (c *codec) close() {
	c.enc.Close()
	c.dec.Close()
}

// seal turns the plain body of a block into its form on disk.
func (c *codec) seal(body []byte) []byte {
	if len(body) < compressAbove {
		return append([]byte{blockVersion, blockPlain}, body...)
	}
	return c.enc.EncodeAll(body, append(make([]byte, 0, len(body)/2+64), blockVersion, blockZstd))
}

var errBlock = errors.New("damaged block")

// open reads a block of host back. The hashes of its URLs are computed anew.
func (c *codec) open(host string, value []byte) ([]entry, error) {
	if len(value) < 2 || value[0] != blockVersion {
		return nil, fmt.Errorf("open block of %s: %w: version", host, errBlock)
	}
	body := value[2:]
	switch value[1] {
	case blockPlain:
	case blockZstd:
		var err error
		if body, err = c.dec.DecodeAll(body, nil); err != nil {
			return nil, fmt.Errorf("open block of %s: %w", host, err)
		}
	default:
		return nil, fmt.Errorf("open block of %s: %w: form %d", host, errBlock, value[1])
	}
	// One string for all paths of the block: a window holds many short paths.
	text := string(body)
	var entries []entry
	for at := 0; at < len(body); {
		e := entry{flags: body[at]}
		at++
		var fields [4]uint64
		for i := range fields {
			v, n := binary.Uvarint(body[at:])
			if n <= 0 {
				return nil, fmt.Errorf("open block of %s: %w: number at byte %d", host, errBlock, at)
			}
			fields[i], at = v, at+n
		}
		if fields[0] > 255 || fields[1] > 255 || fields[2] > 255 || fields[3] > uint64(len(body)-at) {
			return nil, fmt.Errorf("open block of %s: %w: length at byte %d", host, errBlock, at)
		}
		if len(entries) == maxBlockURLs {
			return nil, fmt.Errorf("open block of %s: %w: more than %d URLs", host, errBlock, maxBlockURLs)
		}
		e.depth, e.hops, e.attempt = uint8(fields[0]), uint8(fields[1]), uint8(fields[2])
		e.path = text[at : at+int(fields[3])]
		at += int(fields[3])
		e.hash = e.url(host).Hash()
		entries = append(entries, e)
	}
	return entries, nil
}
