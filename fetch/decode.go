package fetch

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	// acceptEncoding is what is asked for. Deflate is decoded too, but not asked for: servers disagree on its format.
	acceptEncoding = "gzip, br, zstd"
	// maxWindow is the largest zstd window decoded, in bytes: what RFC 9659 allows on the web.
	maxWindow = 8 << 20
)

// decoders pools what decodes bodies. Only deflate, which nobody asked for, is made anew each time, and what would keep a
// large window.
type decoders struct {
	gzip, brotli, zstd sync.Pool
}

// codings lists the codings of the Content-Encoding header values, in the order they were applied. From a name that is
// no known coding on, the body is left as it is, as browsers do.
//
// A second coding is one that a proxy laid over the server's. One of the two must be gzip or deflate, whose windows are
// small: no real server sends others, and with them one body would need two large windows.
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

// open lays decoders over r, the last coding first. The memory of a large window is taken from p before it is allocated.
// The caller calls done when it has read what it wants.
func (d *decoders) open(list []string, r io.Reader, p *place) (decoded io.Reader, done func(), err error) {
	var undo []func()
	done = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	for i := len(list) - 1; i >= 0; i-- {
		var back func()
		switch list[i] {
		case "gzip":
			r, back, err = d.openGzip(r)
		case "br":
			r, back, err = d.openBrotli(r, p)
		case "zstd":
			r, back, err = d.openZstd(r, p)
		default:
			r, err = openDeflate(r)
		}
		if back != nil {
			undo = append(undo, back)
		}
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("%s: %w", list[i], err)
		}
	}
	return r, done, nil
}

// openGzip reads the first member only: what follows it on the web is padding, and browsers ignore it.
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

func (d *decoders) openBrotli(r io.Reader, p *place) (io.Reader, func(), error) {
	head := bufio.NewReaderSize(r, 32)
	start, _ := head.Peek(brotliHead) // the decoder meets the same error
	window := brotliWindow(start)
	if err := p.takeWindow(window); err != nil {
		return nil, nil, err
	}
	z, _ := d.brotli.Get().(*brotli.Reader)
	if z == nil {
		z = new(brotli.Reader)
	}
	_ = z.Reset(head) // never fails
	return z, func() {
		p.leaveWindow()
		if window <= keptBuffer {
			d.brotli.Put(z)
		}
	}, nil
}

func (d *decoders) openZstd(r io.Reader, p *place) (io.Reader, func(), error) {
	head := bufio.NewReaderSize(r, 32)
	start, _ := head.Peek(zstd.HeaderMaxSize) // the decoder meets the same error
	window := zstdWindow(start)
	if window > maxWindow {
		return nil, nil, zstd.ErrWindowSizeExceeded
	}
	if err := p.takeWindow(window); err != nil {
		return nil, nil, err
	}
	z, _ := d.zstd.Get().(*zstd.Decoder)
	if z == nil || window > keptBuffer {
		var err error
		// Concurrency 1 decodes in the caller, without goroutines that a pool would leak. The frames after the first may
		// not have larger windows.
		z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(max(window, keptBuffer))))
		if err != nil {
			p.leaveWindow()
			return nil, nil, err
		}
	}
	back := func() {
		p.leaveWindow()
		if window <= keptBuffer {
			_ = z.Reset(nil) // lets go of r
			d.zstd.Put(z)
		}
	}
	if err := z.Reset(head); err != nil {
		return nil, back, err
	}
	return z, back, nil
}

// openDeflate takes both formats found under this name: zlib (RFC 9110 section 8.4.1.2) and bare deflate.
func openDeflate(r io.Reader) (io.Reader, error) {
	br := bufio.NewReader(r)
	head, err := br.Peek(2)
	if err == nil && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(br)
	}
	return flate.NewReader(br), nil
}

// brotliHead is how many bytes brotliWindow wants to see.
const brotliHead = 5

// brotliWindow tells from the start of a Brotli stream how many bytes its window takes (RFC 7932, sections 9.1 and 9.2).
// Encoders declare large windows for small pages, too: where the first meta-block is the last, the window needs no more
// than its length.
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
			wide = 8 + int(n) // 9 is invalid, and refused by the decoder
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

// zstdWindow tells from the start of a zstd stream how many bytes the window of its first frame takes. What is no zstd
// needs none: the decoder refuses it.
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
