package sink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCutRecords(t *testing.T) {
	mark := (&header{Name: "a"}).mark()
	whole := (&spooled{n: 300, page: true, time: time.Unix(1, 2), parts: [][]byte{make([]byte, 200), make([]byte, 300)}}).append(nil, mark)
	r := spooled{parts: make([][]byte, 2)}
	if err := r.read(whole, mark); err != nil || len(r.parts[1]) != 300 {
		t.Errorf("%v, %d bytes", err, len(r.parts[1]))
	}
	if err := r.read(whole[len(mark):], mark); !errors.Is(err, errDamaged) {
		t.Errorf("a record without a mark: %v", err)
	}
	for n := range whole {
		if err := r.read(whole[:n], mark); !errors.Is(err, errDamaged) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

// What another version has left is not touched: the sink does not open, and says which file it is and why.
func TestFilesOfAnotherVersion(t *testing.T) {
	for name, c := range map[string]struct{ text, why string }{
		"a.warc.json":  {`{"v": 2}`, "version 2"},
		"b.pages.json": {`{"v": `, "unexpected end"},
		"c.spool":      {string(appendFrame(nil, []byte(`{"v": 1}`))), "another version"},
	} {
		b := newBed(t)
		must(t, os.WriteFile(filepath.Join(b.dir, name), []byte(c.text), 0o644))
		_, err := openOn(disk{}, b.dir, b.cfg, b.deps)
		if _, gone := os.Stat(filepath.Join(b.dir, name)); err == nil || gone != nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), c.why) || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v, %v", name, err, gone)
		}
	}
}

// forged is what a page can hold of a record: all but the mark.
func forged(n uint32) []byte {
	return appendFrame(nil, (&spooled{n: n, page: true, time: time.Now(), parts: [][]byte{nil, make([]byte, 50)}}).append(nil, make([]byte, 8)))
}

// readCounter counts the bytes that are read.
type readCounter struct {
	io.ReaderAt
	n int
}

func (r *readCounter) ReadAt(p []byte, at int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(p, at)
	r.n += n
	return n, err
}

// A page that looks like many records is read once, however far they seem to reach. The record behind it is found.
func TestNextFrame(t *testing.T) {
	mark := (&header{Name: "a"}).mark()
	var page []byte
	for range 20_000 {
		f := forged(0)
		binary.LittleEndian.PutUint32(f, 1<<20)
		page = append(page, f...)
	}
	for _, size := range []int{0, 1, 1<<20 - 17, 1<<20 - 16, 1<<20 - 15, 1<<20 - 8, 1 << 20, len(page)} {
		r := &readCounter{ReaderAt: bytes.NewReader(append(page[:size:size], appendFrame(nil, mark)...))}
		end := int64(size + frameHead + len(mark))
		if at, err := nextFrame(r, 0, end, mark); at != int64(size) || err != nil || r.n > int(end) {
			t.Errorf("the record at %d is found at %d, %v; read %d bytes", size, at, err, r.n)
		}
		if at, err := nextFrame(r, int64(size)+1, end, mark); at != end || err != nil {
			t.Errorf("behind the record at %d is one at %d, %v", size, at, err)
		}
	}
}

// Damage in the middle of a spool costs the downloads that it hits, and is told. What stands behind it is delivered.
func TestDamagedSpool(t *testing.T) {
	const pages = 8
	for what, c := range map[string]struct {
		damage func(text []byte, third, fourth, last int) []byte // the places of records
		lost   []int
	}{
		"a byte of a record":       {func(b []byte, third, _, _ int) []byte { b[third+100] ^= 1; return b }, []int{2}},
		"a length":                 {func(b []byte, third, _, _ int) []byte { b[third] ^= 1; return b }, []int{2}},
		"a length beyond the end":  {func(b []byte, third, _, _ int) []byte { b[third+3] ^= 0x70; return b }, []int{2}},
		"zeros over two records":   {func(b []byte, _, fourth, _ int) []byte { clear(b[fourth-20 : fourth+20]); return b }, []int{2, 3}},
		"the header":               {func(b []byte, _, _, _ int) []byte { b[20] ^= 1; return b }, nil},
		"zeros over the header":    {func(b []byte, _, _, _ int) []byte { clear(b[:20]); return b }, nil},
		"zeros behind":             {func(b []byte, _, _, _ int) []byte { return append(b, make([]byte, 4096)...) }, nil},
		"the last record":          {func(b []byte, _, _, last int) []byte { b[last+50] ^= 1; return b }, []int{pages - 1}},
		"half a record at the end": {func(b []byte, third, fourth, _ int) []byte { return append(b, b[third:fourth-10]...) }, nil},
		"a record that comes twice": {func(b []byte, third, fourth, _ int) []byte {
			return slices.Insert(b, fourth, append([]byte{1}, b[third:fourth]...)...)
		}, nil},
		"a page with a record in it": {func(b []byte, third, _, _ int) []byte {
			b[third] ^= 1
			return slices.Insert(b, third+100, forged(3)...)
		}, []int{2}},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			b.cfg.SizeBytes = 40 << 10
			l := b.begin()
			var at []int // where each record ends
			for i := range pages {
				l.downloads(i, 1)
				info, err := os.Stat(b.spool())
				must(t, err)
				at = append(at, int(info.Size()))
			}
			l.stop()
			path := b.spool()
			text, err := os.ReadFile(path)
			must(t, err)
			must(t, os.WriteFile(path, c.damage(text, at[1], at[2], at[pages-2]), 0o644))
			end := at[pages-1]
			if slices.Contains(c.lost, pages-1) {
				end = at[pages-2]
			}
			if s, err := openSpool(path, b.cfg.Formats); err != nil || s.size < int64(end) {
				t.Errorf("%s: %+v, %v; the last record ends at %d", what, s, err, end)
			}
			var warned []string
			b.deps.Warn = func(err error) { warned = append(warned, err.Error()) }
			l = b.begin()
			l.flush()
			for _, i := range c.lost {
				delete(b.done, testRecord(i).Page.URL)
			}
			b.once()
			if n := l.Status().Damaged; n != len(c.lost) || len(warned) != min(1, n) || n > 0 && !strings.Contains(warned[0], "are damaged") {
				t.Errorf("%s: %d downloads count as damaged, want %d: %q", what, n, len(c.lost), warned)
			}
			l.stop()
			if t.Failed() {
				t.Log(what)
			}
		})
	}
}
