package fetch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// wideBrotli begins a Brotli stream: a window of 16 MiB, and an uncompressed meta-block that fills it.
var wideBrotli = []byte{0x0f | 2<<5 | 0x80, 0xff, 0xff, 0xff}

// wideZstd begins a zstd stream: a window of 8 MiB, and a first block of raw bytes.
var wideZstd = []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3, 0x00, 0x00, 0x08}

// brotliOf is data as a Brotli stream with windows of so many bits.
func brotliOf(data []byte, quality, wide int) []byte {
	var out bytes.Buffer
	w := brotli.NewWriterOptions(&out, brotli.WriterOptions{Quality: quality, LGWin: wide})
	for part := range slices.Chunk(data, 1<<20) { // in several meta-blocks
		_, _ = w.Write(part)
		_ = w.Flush()
	}
	w.Close()
	return out.Bytes()
}

// zstdOf is data as a zstd stream with a window of so many bytes.
func zstdOf(t testing.TB, data []byte, window int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(data, 1<<20) { // not all in the first block, which could then have a smaller window
		_, _ = w.Write(part)
		_ = w.Flush()
	}
	w.Close()
	return out.Bytes()
}

// TestWindowsAreBounded has 64 servers send the start of a body at the same time, whose decoder would allocate its
// largest window for it, and then next to nothing. A window is allocated only where the budget has room for it.
func TestWindowsAreBounded(t *testing.T) {
	const downloads, overhead = 64, 512 << 10 // what a download may need besides, in bytes
	three := bytes.Join([][]byte{wideBrotli, wideBrotli, wideBrotli, []byte("abcdef")}, nil)
	for _, tc := range []struct {
		coding string
		start  []byte
		want   Class
		bound  uint64
	}{
		{"br", append(wideBrotli, 'a'), TimeoutTotal, 8*largestWindow + downloads*overhead},
		{"zstd", append(wideZstd, 'a'), TimeoutTotal, 8*largestWindow + downloads*overhead},
		{"br, br, br", three, Decode, downloads * overhead},
		{"br, br", three, Decode, downloads * overhead},
	} {
		bubbleOf(t, tc.coding, func(t *testing.T) {
			cfg := testConfig()
			cfg.MinRate = 0
			begun := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\n\r\n%s", tc.coding, tc.start)
			c := newClient(t, cfg, Deps{Dial: serve(0, drip(begun, time.Second))})
			var before, during runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var g sync.WaitGroup
			for range downloads {
				g.Go(func() {
					res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Fresh: true})
					defer res.Release()
					if res.Class != tc.want {
						t.Errorf("class %q: %v", res.Class, res.Err)
					}
				})
			}
			time.Sleep(time.Minute)
			runtime.GC()
			runtime.ReadMemStats(&during)
			if got := during.HeapAlloc - min(before.HeapAlloc, during.HeapAlloc); got > tc.bound {
				t.Errorf("%d MiB are in use, want at most %d", got>>20, tc.bound>>20)
			}
			g.Wait()
			if !c.large.windows.TryAcquire(8 * largestWindow) {
				t.Error("the budget is not given back")
			}
		})
	}
}

// TestWindow reads the windows of streams as encoders write them.
func TestWindow(t *testing.T) {
	page := bytes.Repeat([]byte("<p>The quick brown fox jumps over the lazy dog.</p>\n"), 200_000) // 10 MB
	for _, window := range []int{zstd.MinWindowSize, 1 << 20, 2 << 20, 8 << 20, 16 << 20} {
		if got := zstdWindow(zstdOf(t, page, window)); got != min(int64(window), maxWindow+1) {
			t.Errorf("zstd with a window of %d bytes: %d", window, got)
		}
	}
	for _, tc := range []struct {
		start string
		want  int64
	}{
		{"", 0}, {"hello", 0}, {"\x28\xb5\x2f\xfd", 0},
		{"\x50\x2a\x4d\x18\x00\x00\x00\x00", maxWindow},                         // a frame to skip
		{"\x28\xb5\x2f\xfd\xe0\xff\xff\xff\xff\xff\xff\xff\x7f", maxWindow + 1}, // one segment
		{string(wideZstd), 8 << 20},
	} {
		if got := zstdWindow([]byte(tc.start)); got != tc.want {
			t.Errorf("zstd %q: window of %d bytes, want %d", tc.start, got, tc.want)
		}
	}
	if got := brotliWindow(wideBrotli); got != largestWindow {
		t.Errorf("Brotli: window of %d bytes, want %d", got, largestWindow)
	}
}

// TestBrotliHeaders reads the size of a window from the bits of RFC 7932, sections 9.1 and 9.2. The length of a first meta-block that is the
// last one limits it, but not below 1 KiB.
func TestBrotliHeaders(t *testing.T) {
	const last = 1 << 1 // after one bit for a window of 64 KiB
	for bits, want := range map[uint64]int64{
		0: 1 << 16, 0x01: 1 << 17, 0x03: 1 << 18, 0x05: 1 << 19, 0x0f: 1 << 24, 0x21: 1 << 10, 0x31: 1 << 11, 0x71: 1 << 15,
		last: 1 << 10, last | 1023<<5: 1 << 10, last | 1024<<5: 1 << 11, last | 2047<<5: 1 << 11, last | 2048<<5: 1 << 12, last | 0xffff<<5: 1 << 16,
		last | 1<<3 | 0x0ffff<<5: 1 << 16, last | 1<<3 | 1024<<5: 1 << 11, last | 2<<3 | 1024<<5: 1 << 11, last | 3<<3: 1 << 16, last | 1<<2: 1 << 16,
		0x0f | 1<<4 | 2<<6 | 0x10000<<8: 1 << 17, 0x0f | 1<<4 | 2<<6 | 0xfffff<<8: 1 << 20, 0x0f | 1<<4 | 2<<6 | 0x100000<<8: 1 << 21,
	} {
		start := binary.LittleEndian.AppendUint64(nil, bits)
		if got := brotliWindow(start); got != want {
			t.Errorf("%#x: a window of %d bytes, want %d", bits, got, want)
		}
		if got := brotliWindow(start[:5]); got != want {
			t.Errorf("the first bytes of %#x: a window of %d bytes, want %d", bits, got, want)
		}
	}
}

// TestLargeWindowsDecode decodes bodies with windows beyond what is free, in two frames, too.
func TestLargeWindowsDecode(t *testing.T) {
	page := make([]byte, 0, 3<<20)
	for i := 0; len(page) < 3<<20-8; i++ {
		page = fmt.Appendf(page, "%06x\n", i*7919)
	}
	four := zstdOf(t, page, 4<<20)
	for _, tc := range []struct {
		name, coding string
		body         []byte
		want         Class
		length       int
	}{
		{"br", "br", brotliOf(page, 5, 24), OK, len(page)},
		{"zstd", "zstd", four, OK, len(page)},
		{"two frames", "zstd", append(bytes.Clone(four), four...), OK, 2 * len(page)},
		{"a larger second frame", "zstd", append(zstdOf(t, page, 64<<10), four...), Decode, len(page)},
		{"too large", "zstd", zstdOf(t, page, 16<<20), Decode, 0},
	} {
		c := newClient(t, testConfig(), Deps{Dial: serve(0, reply(tc.coding, tc.body))})
		for range 2 {
			res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
			if res.Class != tc.want || len(res.Body) != tc.length {
				t.Errorf("%s: class %q, %d bytes, err %v; want %d bytes", tc.name, res.Class, len(res.Body), res.Err, tc.length)
			}
			res.Release()
		}
	}
	var again decoders // what is small leaves a decoder for what is larger
	for _, body := range [][]byte{pack(t, []byte("hello"), "zstd"), zstdOf(t, page, 1<<20), four} {
		r, done, err := again.open([]string{"zstd"}, &wire{body: bytes.NewReader(body), limit: 1 << 30, watch: &exchange{}, budget: newLargeBudget(1)})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, r); err != nil {
			t.Errorf("after smaller ones: %d bytes, %v", n, err)
		}
		done()
	}
}

// TestWhatIsKept gives back what has 1 MiB, which is used again, and what has more, which is not.
func TestWhatIsKept(t *testing.T) {
	page := bytes.Repeat([]byte("0123456789abcdef"), 3<<16)
	kept := func(use func() (pool *sync.Pool)) bool {
		for range 50 { // with the race detector a pool loses things at random
			if use().Get() != nil {
				return true
			}
		}
		return false
	}
	for _, coding := range []string{"br", "zstd"} {
		for window, want := range map[int]bool{1 << 20: true, 2 << 20: false} {
			var d decoders
			body, pool := zstdOf(t, page, window), &d.zstd
			if coding == "br" {
				body, pool = brotliOf(page, 6, bits.Len(uint(window))-1), &d.brotli
			}
			if got := kept(func() *sync.Pool {
				w := &wire{body: bytes.NewReader(body), limit: 1 << 30, watch: &exchange{}, budget: newLargeBudget(1)}
				r, done, err := d.open([]string{coding}, w)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.CopyN(io.Discard, r, 100)
				if (w.window == 0) != want {
					t.Errorf("%s with a window of %d bytes takes %d of the budget", coding, window, w.window)
				}
				if done(); w.window != 0 || !w.budget.windows.TryAcquire(largestWindow) {
					t.Error("the budget is not given back")
				}
				return pool
			}); got != want {
				t.Errorf("%s with a window of %d bytes is kept: %v", coding, window, got)
			}
		}
	}
	for size, want := range map[int]bool{1 << 20: true, 1<<20 + 1: false} {
		var b buffers
		if got := kept(func() *sync.Pool { p := make([]byte, size); b.put(&p); return &b.pool }); got != want {
			t.Errorf("a buffer of %d bytes is kept: %v", size, got)
		}
	}
}
