package fetch

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	// acceptEncoding leaves out deflate, which is decoded but not asked for: servers disagree on its format.
	acceptEncoding = "gzip, br, zstd"
	// maxWindow is the largest zstd window decoded, in bytes: what RFC 9659 allows on the web.
	maxWindow = 8 << 20
)

// decoders pools decoders, except for those of deflate and those with a large window, and what buffers their input.
type decoders struct {
	gzip, brotli, zstd, input sync.Pool
}

// codings lists the codings of the Content-Encoding header values, in the order in which they were applied. If one is unknown, the body
// is left as it is, as browsers do.
//
// A second coding is what a proxy adds to the server's. One of the two must be gzip or deflate, whose windows are small, or one body
// would need two large windows. No real server sends such a pair.
func codings(values []string) ([]string, error) {
	var list []string
	wide := 0
	for _, v := range values {
		for name := range strings.SplitSeq(v, ",") {
			switch name = strings.ToLower(strings.TrimSpace(name)); name {
			case "x-gzip":
				name = "gzip"
			case "gzip", "deflate":
			case "br", "zstd":
				wide++
			case "", "identity":
				continue
			default:
				return nil, nil
			}
			if list = append(list, name); len(list) > 2 || wide > 1 {
				return nil, fmt.Errorf("too many content codings: %s", strings.Join(list, ", "))
			}
		}
	}
	return list, nil
}

// read reads w into buf through decoders, as readAll does. After a panic they are not used again.
func (d *decoders) read(list []string, buf *[]byte, w *wire, limit int64) error {
	r, done, err := d.open(list, w)
	if err != nil {
		return err
	}
	err = w.readAll(buf, r, limit)
	done()
	return err
}

// open puts decoders over w, the last coding first. It takes the memory of a large window before allocating it. The caller calls done when it
// has read enough.
func (d *decoders) open(list []string, w *wire) (r io.Reader, done func(), err error) {
	in, _ := d.input.Get().(*bufio.Reader)
	if in == nil {
		in = new(bufio.Reader)
	}
	in.Reset(coded{w})
	r = in
	var undo []func()
	done = func() {
		w.padded = in.Buffered() > 0
		in.Reset(nil) // drops its reference to w
		d.input.Put(in)
		for _, back := range undo {
			back()
		}
	}
	for _, coding := range slices.Backward(list) {
		var back func()
		switch coding {
		case "gzip":
			r, back, err = d.openGzip(r)
		case "br":
			r, back, err = d.openBrotli(r, w)
		case "zstd":
			r, back, err = d.openZstd(r, w)
		default:
			r, err = openDeflate(r)
		}
		if back != nil {
			undo = append(undo, back)
		}
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("%s: %w", coding, err)
		}
	}
	return r, done, nil
}

// openGzip reads only the first member. What follows on the web is padding, which browsers ignore.
func (d *decoders) openGzip(r io.Reader) (io.Reader, func(), error) {
	z, _ := d.gzip.Get().(*gzip.Reader)
	if z == nil {
		z = new(gzip.Reader)
	}
	back := func() { d.gzip.Put(z) }
	if err := z.Reset(r); err != nil {
		return nil, back, err
	}
	z.Multistream(false)
	return z, back, nil
}

// openBrotli takes the memory of the window first.
func (d *decoders) openBrotli(r io.Reader, w *wire) (io.Reader, func(), error) {
	head := bufio.NewReaderSize(r, 32)
	start, _ := head.Peek(brotliHead) // the decoder will meet the same error
	window := brotliWindow(start)
	if err := w.takeWindow(window); err != nil {
		return nil, nil, err
	}
	z, _ := d.brotli.Get().(*brotli.Reader)
	if z == nil {
		z = new(brotli.Reader)
	}
	_ = z.Reset(head) // never fails
	return z, func() {
		w.releaseWindow()
		if window <= keptBuffer {
			d.brotli.Put(z)
		}
	}, nil
}

// openZstd takes the memory of the window first, and refuses windows above maxWindow.
func (d *decoders) openZstd(r io.Reader, w *wire) (io.Reader, func(), error) {
	head := bufio.NewReaderSize(r, 32)
	start, _ := head.Peek(zstd.HeaderMaxSize) // the decoder will meet the same error
	window := zstdWindow(start)
	if window > maxWindow {
		return nil, nil, zstd.ErrWindowSizeExceeded
	}
	if err := w.takeWindow(window); err != nil {
		return nil, nil, err
	}
	z, _ := d.zstd.Get().(*zstd.Decoder)
	if z == nil || window > keptBuffer {
		var err error
		// With concurrency 1 it decodes in the caller, without goroutines that a pool would leak. Later frames must not have larger
		// windows.
		z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(max(window, keptBuffer))))
		if err != nil {
			w.releaseWindow()
			return nil, nil, err
		}
	}
	back := func() {
		w.releaseWindow()
		if window <= keptBuffer {
			_ = z.Reset(nil) // drops its reference to r
			d.zstd.Put(z)
		}
	}
	if err := z.Reset(head); err != nil {
		return nil, back, err
	}
	return z, back, nil
}

// openDeflate reads both formats in use under this name: zlib (RFC 9110 section 8.4.1.2) and bare deflate.
func openDeflate(r io.Reader) (io.Reader, error) {
	br := bufio.NewReader(r)
	head, err := br.Peek(2)
	if err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(br)
	}
	return flate.NewReader(br), nil
}

// brotliHead is the number of bytes that brotliWindow needs.
const brotliHead = 5

// brotliWindow returns the size of a Brotli stream's window in bytes, from the start of the stream (RFC 7932, sections 9.1 and 9.2).
// Encoders declare large windows even for small pages: if the first meta-block is the last, its length is enough.
func brotliWindow(start []byte) int64 {
	var bits uint64
	for i, b := range start[:min(len(start), brotliHead)] {
		bits |= uint64(b) << (8 * i)
	}
	take := func(n int) uint64 {
		v := bits & (1<<n - 1)
		bits >>= n
		return v
	}
	wide := 16
	if take(1) == 1 {
		if n := take(3); n != 0 {
			wide = 17 + int(n)
		} else if n := take(3); n == 0 {
			wide = 17
		} else {
			wide = 8 + int(n) // n = 1 is invalid, and the decoder refuses it
		}
	}
	window := int64(1) << wide
	if last, empty, nibbles := take(1), take(1), take(2); last == 1 && empty == 0 && nibbles < 3 {
		length := int64(take(4*(4+int(nibbles)))) + 1
		for window>>1 >= max(length, 1<<10) { // as the decoder does
			window >>= 1
		}
	}
	return window
}

// zstdWindow returns the size of the window of a zstd stream's first frame in bytes, from the start of the stream. It is 0 if this is
// not zstd, which the decoder refuses.
func zstdWindow(start []byte) int64 {
	var h zstd.Header
	switch err := h.Decode(start); {
	case err != nil:
		return 0
	case h.Skippable:
		return maxWindow // the frame that follows is not seen yet
	case h.SingleSegment:
		return int64(min(h.FrameContentSize, maxWindow+1))
	default:
		return int64(min(h.WindowSize, maxWindow+1))
	}
}
