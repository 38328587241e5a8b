package peer

import (
	"errors"
	"fmt"
	"io"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxParts bounds the messages and list elements in one message, twice what any configuration sends. An empty part
// takes two bytes on the wire and a hundred in memory: 8 MiB of them, compressed to 2 kB, would take 440 MB.
const maxParts = 100_000

var errParts = fmt.Errorf("it has more than %d parts", maxParts)

// codec is connect's codec for protobuf, except that it refuses messages with too many parts before it allocates them.
type codec struct{}

func (codec) Name() string { return "proto" }

func (c codec) Marshal(m any) ([]byte, error) { return c.MarshalAppend(nil, m) }

func (codec) MarshalAppend(b []byte, m any) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(b, m.(proto.Message))
}

func (codec) Unmarshal(b []byte, m any) error {
	p := m.(proto.Message)
	// A short message has few parts and needs no count.
	if left := maxParts; len(b) > 2*maxParts {
		if err := count(p.ProtoReflect().Descriptor(), b, &left); err != nil {
			return fmt.Errorf("decode %T: %w", m, err)
		}
	}
	return proto.Unmarshal(b, p)
}

// count subtracts the parts of an encoded message from left, and fails when that gets negative.
func count(of protoreflect.MessageDescriptor, b []byte, left *int) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		value := b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, value); n < 0 {
			return protowire.ParseError(n)
		}
		value, b = value[:n], value[n:]
		field := of.Fields().ByNumber(number)
		if field == nil {
			continue // unknown fields stay encoded
		}
		switch message := field.Message(); {
		case message != nil && kind == protowire.BytesType:
			*left--
			inner, _ := protowire.ConsumeBytes(value)
			if err := count(message, inner, left); err != nil {
				return err
			}
		case field.IsList() && kind == protowire.BytesType && field.IsPacked():
			*left -= n // each number takes a byte at least
		case field.IsList():
			*left--
		}
		if *left < 0 {
			return errParts
		}
	}
	return nil
}

const (
	zstdName = "zstd"
	// smallest is the size in bytes below which compression costs more than it saves: what fits into one packet.
	smallest = 1400
	// window bounds what a decompressor must remember, in bytes, and so its memory. URLs repeat within a few KiB.
	window = 1 << 20
)

var errBomb = errors.New("it decompresses to more than is allowed")

// decompressor is a zstd reader that fails after limit bytes. Without that, connect would read to the end to tell the
// size, and a few KiB can hold gigabytes.
type decompressor struct {
	r     *zstd.Decoder
	limit int64
	left  int64
}

func newDecompressor(limit int64) *decompressor {
	// With one worker it decodes in the goroutine that reads. Small buffers must not be decoded at once, or the limit
	// would come too late.
	r, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(window), zstd.WithDecodeBuffersBelow(0)) // the options are constant and valid
	return &decompressor{r: r, limit: limit}
}

func (d *decompressor) Read(p []byte) (int, error) {
	if d.left <= 0 {
		return 0, errBomb
	}
	n, err := d.r.Read(p[:min(int64(len(p)), d.left)])
	d.left -= int64(n)
	return n, err
}

func (d *decompressor) Reset(r io.Reader) error {
	d.left = d.limit
	return d.r.Reset(r)
}

// Close keeps the decoder for the next message; it holds no goroutine.
func (d *decompressor) Close() error { return nil }

// compression returns the options for handlers and client: bounds on messages and their parts, and zstd as the only
// compression.
func compression(cfg Config) ([]connect.HandlerOption, []connect.ClientOption) {
	limit := cfg.MessageBytes
	expand := func() connect.Decompressor { return newDecompressor(int64(limit) + 2) }
	both := connect.WithOptions(connect.WithReadMaxBytes(limit), connect.WithSendMaxBytes(limit),
		connect.WithCompressMinBytes(smallest), connect.WithCodec(codec{}))
	return []connect.HandlerOption{both, connect.WithCompression("gzip", nil, nil),
			connect.WithCompression(zstdName, expand, newCompressor)},
		[]connect.ClientOption{both, connect.WithAcceptCompression("gzip", nil, nil),
			connect.WithAcceptCompression(zstdName, expand, newCompressor), connect.WithSendCompression(zstdName)}
}

func newCompressor() connect.Compressor {
	// One worker starts no goroutine. At the fastest level, 80 KB of URLs become 8 KB in 0.15 ms.
	w, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(window)) // the options are constant and valid
	return w
}
