package coder

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// all has a field of each kind.
type all struct {
	small        uint8
	on, off      bool
	number, word uint64
	signed       int64
	depth        uint8
	half         uint32
	float        float64
	raw          []byte
	text         string
	list         []uint64
	wait         time.Duration
}

func (a *all) code(c *Coder) {
	c.Version(3)
	c.Byte(&a.small, 9)
	c.Flags(&a.on, &a.off)
	c.Uvarint(&a.number)
	c.Word(&a.word)
	c.Varint(&a.signed, 1000)
	Small(c, &a.depth, 200)
	c.Half(&a.half)
	c.Float(&a.float)
	c.Bytes(&a.raw, 3)
	c.Text(&a.text, 3)
	List(c, &a.list, 2, c.Uvarint)
	c.Millis(&a.wait, time.Hour)
}

func written(a all) []byte {
	c := Writer([]byte("before"))
	a.code(&c)
	return bytes.TrimPrefix(c.B, []byte("before"))
}

func read(b []byte) (all, error) {
	var a all
	c := Reader(b)
	a.code(&c)
	return a, c.End()
}

func full() all {
	return all{9, true, false, 300, 1 << 60, -1000, 200, 1 << 31, 1.5, []byte("abc"), "def", []uint64{7, 1 << 40}, time.Hour}
}

func (a all) equal(b all) bool {
	return cmp.Equal(a, b, cmp.AllowUnexported(all{}), cmpopts.EquateEmpty())
}

// TestForm pins the bytes, and reads them back.
func TestForm(t *testing.T) {
	b := written(full())
	want := "\x03\x09\x01\xac\x02" + "\x00\x00\x00\x00\x00\x00\x00\x10" + "\xcf\x0f" + "\xc8\x01" + "\x00\x00\x00\x80" + "\x00\x00\xc0\x3f" +
		"\x03abc" + "\x03def" + "\x02\x07\x80\x80\x80\x80\x80\x20" + "\x80\xdd\xdb\x01"
	if string(b) != want {
		t.Errorf("the form is %q, want %q", b, want)
	}
	if got, err := read(b); err != nil || !got.equal(full()) {
		t.Errorf("%+v became %+v, %v", full(), got, err)
	}
	if got, err := read(written(all{})); err != nil || !got.equal(all{}) {
		t.Errorf("the zero value became %+v, %v", got, err)
	}
	for n := range b {
		if _, err := read(b[:n]); err == nil {
			t.Errorf("the first %d bytes are read", n)
		}
	}
}

// TestBounds: what lies beyond the bound of its kind is written as the bound, if that has a meaning, and not read.
func TestBounds(t *testing.T) {
	a := full()
	a.signed, a.wait = math.MinInt64, 2*time.Hour
	if got, err := read(written(a)); err != nil || got.signed != -1000 || got.wait != time.Hour {
		t.Errorf("beyond the bounds: %+v, %v", got, err)
	}
	a.signed, a.wait = math.MaxInt64, -1
	if got, err := read(written(a)); err != nil || got.signed != 1000 || got.wait != 0 {
		t.Errorf("beyond the other bounds: %+v, %v", got, err)
	}
	a = full()
	a.wait = time.Hour + time.Millisecond - 1
	if got, err := read(written(a)); err != nil || got.wait != time.Hour {
		t.Errorf("a part of a millisecond: %+v, %v", got, err)
	}
	for name, change := range map[string]func(*all){
		"a byte": func(a *all) { a.small = 10 },
		"depth":  func(a *all) { a.depth = 201 },
		"bytes":  func(a *all) { a.raw = []byte("abcd") },
		"a text": func(a *all) { a.text = "defg" },
		"a list": func(a *all) { a.list = make([]uint64, 3) },
	} {
		a := full()
		change(&a)
		if _, err := read(written(a)); err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("%s beyond the bound: %v", name, err)
		}
	}
}

// TestRefusals: what a later version may have written is told from what is damaged.
func TestRefusals(t *testing.T) {
	whole := written(full())
	for name, c := range map[string]struct {
		at      int
		put     string
		want    string
		unknown bool
	}{
		"another version":                {0, "\x04", "unknown version 4", true},
		"another flag":                   {2, "\x04", "unknown flags 0x4", true},
		"a number with zeros":            {3, "\xac\x80\x00", "bad number", false},
		"a number too long":              {3, strings.Repeat("\xff", 11), "bad number", false},
		"the first signed number beyond": {13, "\xd1\x0f", "bad number", false}, // -1001
		"a byte too many":                {len(whole), "\x00", "1 bytes too many", false},
	} {
		b := append(bytes.Clone(whole[:c.at]), c.put...)
		if rest := c.at + len(c.put); rest < len(whole) {
			b = append(b, whole[rest:]...)
		}
		if _, err := read(b); err == nil || err.Error() != c.want || errors.Is(err, ErrUnknown) != c.unknown {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	c, first := Reader([]byte{7, 7}), errors.New("first")
	c.Fail(first)
	n := uint64(5)
	c.Uvarint(&n)
	if c.End() != first || n != 5 {
		t.Errorf("after an error: %v, %d", c.End(), n)
	}
}

// What is read is written in the same way.
func FuzzForm(f *testing.F) {
	f.Add(written(full()))
	f.Add(written(all{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := read(b); err == nil && !math.IsNaN(a.float) && !bytes.Equal(written(a), b) {
			t.Errorf("%q became %q", b, written(a))
		}
	})
}
