package frontier

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"proxima/frontier/coder"
	"proxima/frontier/identity"
)

// A block is a run of pending URLs of one host and one origin, in the order in which they were accepted. On disk:
//
//	version (1 byte, 1) | form (1 byte: 0 plain, 1 zstd) | body
//	body: for each URL: flags (1 byte) | depth | hops | 0 | length of path (uvarints) | path
//
// The host is not repeated. Flags bit 0 is a sitemap.
const (
	blockVersion  = 1
	blockPlain    = 0
	blockZstd     = 1
	maxBlockURLs  = 128
	maxBlockBytes = 32 << 10
	compressAbove = 384 // bytes: below, zstd's frame costs more than it saves
)

// entry is a pending URL. The context says which host it belongs to.
type entry struct {
	PendingURL
	hash uint64
}

func newEntry(host string, p PendingURL) entry {
	e := entry{PendingURL: p}
	e.hash = e.url(host).Hash()
	return e
}

func (e entry) url(host string) identity.URL { return identity.URL{Host: host, Path: e.Path} }

// cloned copies entries with their paths. The path of a link is a part of its page, which would stay in memory with it.
func cloned(entries []entry) []entry {
	out := slices.Clone(entries)
	for i := range out {
		out[i].Path = strings.Clone(out[i].Path)
	}
	return out
}

// code writes everything but the path itself, or reads it. It returns the length of the path.
func (e *entry) code(c *coder.Coder) (length uint64) {
	attempt := uint8(0)
	c.Flags(&e.Sitemap)
	coder.Small(c, &e.Depth, math.MaxUint8)
	coder.Small(c, &e.Hops, math.MaxUint8)
	coder.Small(c, &attempt, math.MaxUint8)
	length = uint64(len(e.Path))
	c.Uvarint(&length)
	return length
}

// appendEntry appends an entry to the plain body of a block.
func appendEntry(b []byte, e entry) []byte {
	c := coder.Writer(b)
	e.code(&c)
	return append(c.B, e.Path...)
}

// bodyOf returns the plain body of a block.
func bodyOf(entries []entry) (body []byte) {
	for _, e := range entries {
		body = appendEntry(body, e)
	}
	return body
}

// codec compresses and decompresses blocks. It is safe for concurrent use.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() *codec {
	// Only bad options are errors.
	enc, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(128<<10), zstd.WithLowerEncoderMem(true))
	dec, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(1<<20), zstd.WithDecoderLowmem(true))
	return &codec{enc: enc, dec: dec}
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

// open reads a block of a host. It computes the hashes of its URLs.
func (c *codec) open(host string, value []byte) ([]entry, error) {
	if len(value) < 2 || value[0] != blockVersion || value[1] > blockZstd {
		return nil, fmt.Errorf("open block of %s: %w: version or form", host, errBlock)
	}
	body := value[2:]
	if value[1] == blockZstd {
		var err error
		if body, err = c.dec.DecodeAll(body, nil); err != nil {
			return nil, fmt.Errorf("open block of %s: %w", host, err)
		}
	}
	// One string holds all paths of the block, because a window has many short ones.
	text := string(body)
	var entries []entry
	for c := coder.Reader(body); len(c.B) > 0; {
		var e entry
		n := e.code(&c)
		c.Take(n)
		if c.Err() != nil || len(entries) == maxBlockURLs {
			return nil, fmt.Errorf("open block of %s: %w: URL %d", host, errBlock, len(entries)+1)
		}
		end := len(text) - len(c.B)
		e.Path = text[end-int(n) : end]
		e.hash = e.url(host).Hash()
		entries = append(entries, e)
	}
	return entries, nil
}
