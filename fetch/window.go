package fetch

import (
	"github.com/klauspost/compress/zstd"
)

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
